"""Both services' configuration: TOML files and variables, addresses, secrets, and the log."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.settings.addresses import (
    canonical_address,
    canonical_host,
    canonical_ip,
    canonical_network,
    is_loopback,
    parse_address,
    write_address,
)
from headgate.settings.agent_tables import agent_tables, knowledge_table
from headgate.settings.keys import (
    KeyRing,
    agent_write,
    key_path,
    parse_keys,
    read_keys,
    shared_keys,
)
from headgate.settings.loading import load, parse
from headgate.settings.log_choices import LogFormat, LogLevel
from headgate.settings.log_rate import LogRate
from headgate.settings.places import ConfigurationError, Places, dotted
from headgate.settings.secret_files import (
    SecretFileError,
    find_secret,
    provide_secret,
    state_folder,
)
from headgate.settings.shell import shell_argument, shell_word

if TYPE_CHECKING:
    from headgate.settings.credentials import (
        Credentials,
        CredentialsError,
        ServerTls,
        UpstreamTls,
        client_side,
        upstream_side,
    )
    from headgate.settings.java import Java, UnfitJava, installed_java, java_home_for_spark
    from headgate.settings.log import configure_log, set_log_level

__all__ = [
    "ConfigurationError",
    "Credentials",
    "CredentialsError",
    "Java",
    "KeyRing",
    "LogFormat",
    "LogLevel",
    "LogRate",
    "Places",
    "SecretFileError",
    "ServerTls",
    "UnfitJava",
    "UpstreamTls",
    "agent_tables",
    "agent_write",
    "canonical_address",
    "canonical_host",
    "canonical_ip",
    "canonical_network",
    "client_side",
    "configure_log",
    "dotted",
    "find_secret",
    "installed_java",
    "is_loopback",
    "java_home_for_spark",
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
    "shell_argument",
    "shell_word",
    "state_folder",
    "upstream_side",
    "write_address",
]

_LATE = {
    "Credentials": "credentials",
    "CredentialsError": "credentials",
    "Java": "java",
    "ServerTls": "credentials",
    "UnfitJava": "java",
    "UpstreamTls": "credentials",
    "client_side": "credentials",
    "configure_log": "log",
    "installed_java": "java",
    "java_home_for_spark": "java",
    "set_log_level": "log",
    "upstream_side": "credentials",
}
"""Names by the module that they come from, which is loaded when one is first asked for."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
