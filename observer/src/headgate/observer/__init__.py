"""The proxy in front of HBase's Thrift servers: forwards bytes, publishes what writes have done."""

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
from headgate.settings import ConfigurationError, UpstreamTls

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
