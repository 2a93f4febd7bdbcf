"""The agent's service: carries updates to engines, steps to workers and state to HBase."""

from headgate.agent.api.access import (
    CertificateGrant,
    Role,
    TokenEntry,
    find_token,
    hash_of,
    new_token,
    read_entries,
    user_token_file,
)
from headgate.agent.configuration import (
    DEFAULT_API,
    AgentConfiguration,
    Airflow,
    ApiAccess,
    BarrierOptions,
    CellMemory,
    Connect,
    HBase,
    KafkaOptions,
    Launchers,
    Resources,
    ScanOptions,
    Submit,
    Workers,
    load_configuration,
    parse_configuration,
)
from headgate.agent.errors import (
    AgentError,
    Fenced,
    Held,
    Refused,
    UnknownDataflow,
    Unreachable,
)
from headgate.agent.history.replays import RECORDED, FlowRecording, FlowReplay, ModelSource
from headgate.agent.process import serve
from headgate.agent.resources.sensor import (
    SensorConfiguration,
    SensorKafka,
    load_sensor_configuration,
    serve_sensor,
)
from headgate.agent.state.sealed import Seals, sign, unsigned
from headgate.agent.training.adviser import TrainingReport
from headgate.agent.training.parquet import UnusableParquet, read_pairs
from headgate.agent.training.stored_models import stored_models
from headgate.agent.training.task import PackedPairs, Source
from headgate.agent.training.task import pack as pack_pairs
from headgate.settings import ConfigurationError

__all__ = [
    "DEFAULT_API",
    "RECORDED",
    "AgentConfiguration",
    "AgentError",
    "Airflow",
    "ApiAccess",
    "BarrierOptions",
    "CellMemory",
    "CertificateGrant",
    "ConfigurationError",
    "Connect",
    "Fenced",
    "FlowRecording",
    "FlowReplay",
    "HBase",
    "Held",
    "KafkaOptions",
    "Launchers",
    "ModelSource",
    "PackedPairs",
    "Refused",
    "Resources",
    "Role",
    "ScanOptions",
    "Seals",
    "SensorConfiguration",
    "SensorKafka",
    "Source",
    "Submit",
    "TokenEntry",
    "TrainingReport",
    "UnknownDataflow",
    "Unreachable",
    "UnusableParquet",
    "Workers",
    "find_token",
    "hash_of",
    "load_configuration",
    "load_sensor_configuration",
    "new_token",
    "pack_pairs",
    "parse_configuration",
    "read_entries",
    "read_pairs",
    "serve",
    "serve_sensor",
    "sign",
    "stored_models",
    "unsigned",
    "user_token_file",
]
