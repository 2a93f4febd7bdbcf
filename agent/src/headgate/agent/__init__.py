"""The agent's service: carries updates to engines, steps to workers and state to HBase."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.settings import ConfigurationError

if TYPE_CHECKING:
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
        AUDITED,
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
    from headgate.agent.dataflow.runs.starting import stage_request
    from headgate.agent.errors import (
        AgentError,
        Fenced,
        Held,
        Refused,
        UnknownDataflow,
        Unreachable,
    )
    from headgate.agent.history.replays import RECORDED, FlowRecording, FlowReplay, ModelSource
    from headgate.agent.policies import POLICIES, TRIGGER_KINDS, TriggerKind
    from headgate.agent.process import serve
    from headgate.agent.resources.sensor import (
        SensorConfiguration,
        SensorKafka,
        load_sensor_configuration,
        serve_sensor,
    )
    from headgate.agent.state.sealed import Definition, Seals, sign, unsigned
    from headgate.agent.training.adviser import TrainingReport
    from headgate.agent.training.knowledge import stored_models
    from headgate.agent.training.parquet import UnusableParquet, read_pairs
    from headgate.agent.training.task import PackedPairs, Source, pack_pairs

__all__ = [
    "AUDITED",
    "DEFAULT_API",
    "POLICIES",
    "RECORDED",
    "TRIGGER_KINDS",
    "AgentConfiguration",
    "AgentError",
    "Airflow",
    "ApiAccess",
    "BarrierOptions",
    "CellMemory",
    "CertificateGrant",
    "ConfigurationError",
    "Connect",
    "Definition",
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
    "TriggerKind",
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
    "stage_request",
    "stored_models",
    "unsigned",
    "user_token_file",
]

_LATE = {
    "AgentConfiguration": "configuration",
    "AgentError": "errors",
    "Airflow": "configuration",
    "ApiAccess": "configuration",
    "BarrierOptions": "configuration",
    "CellMemory": "configuration",
    "CertificateGrant": "api.access",
    "Connect": "configuration",
    "AUDITED": "configuration",
    "DEFAULT_API": "configuration",
    "Definition": "state.sealed",
    "Fenced": "errors",
    "FlowRecording": "history.replays",
    "FlowReplay": "history.replays",
    "HBase": "configuration",
    "Held": "errors",
    "KafkaOptions": "configuration",
    "Launchers": "configuration",
    "ModelSource": "history.replays",
    "POLICIES": "policies",
    "PackedPairs": "training.task",
    "RECORDED": "history.replays",
    "Refused": "errors",
    "Resources": "configuration",
    "Role": "api.access",
    "ScanOptions": "configuration",
    "Seals": "state.sealed",
    "SensorConfiguration": "resources.sensor",
    "SensorKafka": "resources.sensor",
    "Source": "training.task",
    "Submit": "configuration",
    "TRIGGER_KINDS": "policies",
    "TokenEntry": "api.access",
    "TrainingReport": "training.adviser",
    "TriggerKind": "policies",
    "UnknownDataflow": "errors",
    "Unreachable": "errors",
    "UnusableParquet": "training.parquet",
    "Workers": "configuration",
    "find_token": "api.access",
    "hash_of": "api.access",
    "load_configuration": "configuration",
    "load_sensor_configuration": "resources.sensor",
    "new_token": "api.access",
    "pack_pairs": "training.task",
    "parse_configuration": "configuration",
    "read_entries": "api.access",
    "read_pairs": "training.parquet",
    "serve": "process",
    "serve_sensor": "resources.sensor",
    "sign": "state.sealed",
    "stage_request": "dataflow.runs.starting",
    "stored_models": "training.knowledge",
    "unsigned": "state.sealed",
    "user_token_file": "api.access",
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
