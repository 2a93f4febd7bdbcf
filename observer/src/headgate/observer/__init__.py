"""The proxy in front of HBase's Thrift servers: forwards bytes, publishes what writes have done."""

from headgate.observer.config import (
    Check,
    Fsync,
    Gates,
    HealthChecks,
    Journal,
    Kafka,
    Limits,
    Listener,
    ObserverConfig,
    WhenFull,
    load_config,
    parse_config,
)
from headgate.observer.foreground import run_in_foreground
from headgate.observer.journal import JournalError
from headgate.observer.process import ObserverProcess
from headgate.observer.service import Addresses, StartError, run
from headgate.settings import ConfigurationError

__all__ = [
    "Addresses",
    "Check",
    "ConfigurationError",
    "Fsync",
    "Gates",
    "HealthChecks",
    "Journal",
    "JournalError",
    "Kafka",
    "Limits",
    "Listener",
    "ObserverConfig",
    "ObserverProcess",
    "StartError",
    "WhenFull",
    "load_config",
    "parse_config",
    "run",
    "run_in_foreground",
]
