"""The agent's service: carries updates to engines, steps to workers and state to HBase."""

from headgate.agent.configuration import (
    DEFAULT_API,
    AgentConfiguration,
    Barriers,
    HBase,
    Kafka,
    Workers,
    load_configuration,
    parse_address,
    parse_configuration,
)
from headgate.agent.errors import (
    AgentError,
    ConfigurationError,
    Fenced,
    Held,
    Refused,
    UnknownDataflow,
    Unreachable,
)
from headgate.agent.serving import serve

__all__ = [
    "DEFAULT_API",
    "AgentConfiguration",
    "AgentError",
    "Barriers",
    "ConfigurationError",
    "Fenced",
    "HBase",
    "Held",
    "Kafka",
    "Refused",
    "UnknownDataflow",
    "Unreachable",
    "Workers",
    "load_configuration",
    "parse_address",
    "parse_configuration",
    "serve",
]
