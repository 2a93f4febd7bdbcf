"""The proxy in front of HBase's Thrift servers: forwards bytes, publishes what writes have done."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.settings import ConfigurationError, UpstreamTls

if TYPE_CHECKING:
    from headgate.observer.config import (
        AccessRule,
        AccessSettings,
        Acknowledge,
        Allow,
        Check,
        ClientCertificate,
        Fsync,
        GateSettings,
        HealthChecks,
        Identity,
        JournalSettings,
        KafkaSettings,
        LimitSettings,
        Listener,
        ObserverConfig,
        OrderSettings,
        Scheduling,
        Tls,
        UpstreamProtocol,
        UpstreamTransport,
        Watching,
        WhenFull,
        load_config,
        parse_config,
    )
    from headgate.observer.doctor.diagnosis import Diagnosis, Question, TlsFiles
    from headgate.observer.doctor.findings import Finding, FindingVerdict
    from headgate.observer.doctor.recognition import ProbeResult, recognise
    from headgate.observer.embedded.observer import EmbeddedObserver, ObserverEnded
    from headgate.observer.embedded.writes import EmbeddedWrite
    from headgate.observer.lifecycle.foreground import run_in_foreground
    from headgate.observer.lifecycle.process import ObserverProcess
    from headgate.observer.lifecycle.running import run
    from headgate.observer.publishing.kafka import KafkaPlace, KafkaUnavailable
    from headgate.observer.reading.event_lines import (
        LineFormatter,
        NoteLine,
        UpdateLine,
        control_line,
        update_lines,
    )
    from headgate.observer.reading.following import (
        BEGINNING,
        NOW,
        Follower,
        FromControl,
        FromTable,
        UnreadableRecord,
    )
    from headgate.observer.recording.journal_errors import JournalError
    from headgate.observer.starting import ObserverAddresses, StartError

__all__ = [
    "BEGINNING",
    "NOW",
    "AccessRule",
    "AccessSettings",
    "Acknowledge",
    "Allow",
    "Check",
    "ClientCertificate",
    "ConfigurationError",
    "Diagnosis",
    "EmbeddedObserver",
    "EmbeddedWrite",
    "Finding",
    "FindingVerdict",
    "Follower",
    "FromControl",
    "FromTable",
    "Fsync",
    "GateSettings",
    "HealthChecks",
    "Identity",
    "JournalError",
    "JournalSettings",
    "KafkaPlace",
    "KafkaSettings",
    "KafkaUnavailable",
    "LimitSettings",
    "LineFormatter",
    "Listener",
    "NoteLine",
    "ObserverAddresses",
    "ObserverConfig",
    "ObserverEnded",
    "ObserverProcess",
    "OrderSettings",
    "ProbeResult",
    "Question",
    "Scheduling",
    "StartError",
    "Tls",
    "TlsFiles",
    "UnreadableRecord",
    "UpdateLine",
    "UpstreamProtocol",
    "UpstreamTls",
    "UpstreamTransport",
    "Watching",
    "WhenFull",
    "control_line",
    "load_config",
    "parse_config",
    "recognise",
    "run",
    "run_in_foreground",
    "update_lines",
]

_LATE = {
    "AccessRule": "config",
    "AccessSettings": "config",
    "Acknowledge": "config",
    "Allow": "config",
    "BEGINNING": "reading.following",
    "Check": "config",
    "ClientCertificate": "config",
    "Diagnosis": "doctor.diagnosis",
    "EmbeddedObserver": "embedded.observer",
    "EmbeddedWrite": "embedded.writes",
    "Finding": "doctor.findings",
    "FindingVerdict": "doctor.findings",
    "Follower": "reading.following",
    "FromControl": "reading.following",
    "FromTable": "reading.following",
    "Fsync": "config",
    "GateSettings": "config",
    "HealthChecks": "config",
    "Identity": "config",
    "JournalError": "recording.journal_errors",
    "JournalSettings": "config",
    "KafkaPlace": "publishing.kafka",
    "KafkaSettings": "config",
    "OrderSettings": "config",
    "KafkaUnavailable": "publishing.kafka",
    "LimitSettings": "config",
    "LineFormatter": "reading.event_lines",
    "Listener": "config",
    "NOW": "reading.following",
    "NoteLine": "reading.event_lines",
    "ObserverAddresses": "starting",
    "ObserverConfig": "config",
    "ObserverEnded": "embedded.observer",
    "ObserverProcess": "lifecycle.process",
    "ProbeResult": "doctor.recognition",
    "Question": "doctor.diagnosis",
    "Scheduling": "config",
    "StartError": "starting",
    "Tls": "config",
    "TlsFiles": "doctor.diagnosis",
    "UnreadableRecord": "reading.following",
    "UpdateLine": "reading.event_lines",
    "UpstreamProtocol": "config",
    "UpstreamTransport": "config",
    "Watching": "config",
    "WhenFull": "config",
    "control_line": "reading.event_lines",
    "load_config": "config",
    "parse_config": "config",
    "recognise": "doctor.recognition",
    "run": "lifecycle.running",
    "run_in_foreground": "lifecycle.foreground",
    "update_lines": "reading.event_lines",
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
