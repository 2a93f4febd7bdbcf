"""An observer as a program of its own: log, ready line, exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from headgate.observer.config import ObserverConfig, load_config
from headgate.observer.lifecycle.running import run
from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.workers.supervisor import supervise
from headgate.settings import ConfigurationError, LogFormat, LogLevel, configure_log


def run_in_foreground(config: Path, *, as_json: bool = False, verbose: bool = False) -> int:
    """Run the observer that a TOML file describes until SIGTERM or SIGINT; return the exit code.

    SIGHUP makes it read the file again. One line that begins with "ready" goes to standard output
    once clients are accepted, the log to standard error; with ``as_json`` both are JSON objects.
    """
    configure_log(as_json=as_json)

    def load() -> ObserverConfig:
        found = load_config(config, os.environ)
        return msgspec.structs.replace(found, log_level=LogLevel.DEBUG) if verbose else found

    def ready(addresses: ObserverAddresses) -> None:
        line = addresses.line()
        if as_json:
            line = msgspec.json.encode({"ready": True, **addresses.by_name()}).decode()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        loaded = load()
        log_as_json = as_json or loaded.log_format is LogFormat.JSON
        fields = {"observer": loaded.name}
        configure_log(as_json=log_as_json, level=loaded.log_level, fields=fields)
        if loaded.workers > 1:
            supervise(loaded, ready, load, as_json=log_as_json)
        else:
            run(loaded, ready, load)
    except (ConfigurationError, JournalError, StartError) as error:
        sys.stderr.write(f"headgate observer: {error}\n")
        return 1
    return 0
