"""Both services' configuration: TOML files and variables, addresses, secrets, and the log."""

from headgate.settings.addresses import is_loopback, parse_address, write_address
from headgate.settings.agent_tables import agent_tables, knowledge_table
from headgate.settings.credentials import (
    Credentials,
    CredentialsError,
    ServerTls,
    UpstreamTls,
    client_side,
    upstream_side,
)
from headgate.settings.keys import (
    KeyRing,
    agent_write,
    key_path,
    parse_keys,
    read_keys,
    shared_keys,
)
from headgate.settings.loading import load, parse
from headgate.settings.log import LogFormat, LogLevel, configure_log, set_log_level
from headgate.settings.log_rate import LogRate
from headgate.settings.places import ConfigurationError, Places, dotted
from headgate.settings.secret_files import (
    SecretFileError,
    find_secret,
    provide_secret,
    state_folder,
)

__all__ = [
    "ConfigurationError",
    "Credentials",
    "CredentialsError",
    "KeyRing",
    "LogFormat",
    "LogLevel",
    "LogRate",
    "Places",
    "SecretFileError",
    "ServerTls",
    "UpstreamTls",
    "agent_tables",
    "agent_write",
    "client_side",
    "configure_log",
    "dotted",
    "find_secret",
    "is_loopback",
    "key_path",
    "knowledge_table",
    "load",
    "parse",
    "parse_address",
    "parse_keys",
    "provide_secret",
    "read_keys",
    "set_log_level",
    "shared_keys",
    "state_folder",
    "upstream_side",
    "write_address",
]
