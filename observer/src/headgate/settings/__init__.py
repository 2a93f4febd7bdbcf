"""What both services are told: TOML files and variables, addresses, secrets, and the log."""

from headgate.settings.addresses import parse_address, write_address
from headgate.settings.loading import load, parse
from headgate.settings.log import LogFormat, LogLevel, configure_log, set_log_level
from headgate.settings.places import ConfigurationError, Places, dotted
from headgate.settings.secret_files import (
    SecretFileError,
    find_secret,
    provide_secret,
    state_folder,
)

__all__ = [
    "ConfigurationError",
    "LogFormat",
    "LogLevel",
    "Places",
    "SecretFileError",
    "configure_log",
    "dotted",
    "find_secret",
    "load",
    "parse",
    "parse_address",
    "provide_secret",
    "set_log_level",
    "state_folder",
    "write_address",
]
