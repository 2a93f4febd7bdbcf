"""The agent's service: carries updates to engines, steps to workers and state to HBase."""

from headgate.agent.configuration import (
    DEFAULT_API,
    AgentConfiguration,
    Airflow,
    Barriers,
    CellMemory,
    Connect,
    HBase,
    Kafka,
    Launchers,
    Resources,
    Scans,
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
from headgate.agent.replays import RECORDED, FlowRecording, FlowReplay
from headgate.agent.sealed import Seals, sign, unsigned
from headgate.agent.sensor import (
    SensorConfiguration,
    SensorKafka,
    load_sensor_configuration,
    serve_sensor,
)
from headgate.agent.serving import serve
from headgate.settings import ConfigurationError

__all__ = [
    "DEFAULT_API",
    "RECORDED",
    "AgentConfiguration",
    "AgentError",
    "Airflow",
    "Barriers",
    "CellMemory",
    "ConfigurationError",
    "Connect",
    "Fenced",
    "FlowRecording",
    "FlowReplay",
    "HBase",
    "Held",
    "Kafka",
    "Launchers",
    "Refused",
    "Resources",
    "Scans",
    "Seals",
    "SensorConfiguration",
    "SensorKafka",
    "Submit",
    "UnknownDataflow",
    "Unreachable",
    "Workers",
    "load_configuration",
    "load_sensor_configuration",
    "parse_configuration",
    "serve",
    "serve_sensor",
    "sign",
    "unsigned",
]
