"""What both services are told: TOML files with overriding variables, addresses, and the log."""

from headgate.settings.addresses import parse_address, write_address
from headgate.settings.loading import load, parse
from headgate.settings.log import LogFormat, LogLevel, configure_log, set_log_level
from headgate.settings.places import ConfigurationError, Places, dotted

__all__ = [
    "ConfigurationError",
    "LogFormat",
    "LogLevel",
    "Places",
    "configure_log",
    "dotted",
    "load",
    "parse",
    "parse_address",
    "set_log_level",
    "write_address",
]
