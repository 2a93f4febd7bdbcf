"""An observer as a program of its own: log, ready line, exit code."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import msgspec
import structlog

from headgate.observer.config import ConfigurationError, load_config
from headgate.observer.journal import JournalError
from headgate.observer.service import Addresses, StartError, run


def run_in_foreground(config: Path, *, as_json: bool = False, verbose: bool = False) -> int:
    """Run the observer that a TOML file describes until SIGTERM or SIGINT; return the exit code.

    One line that begins with "ready" goes to standard output once clients are accepted (with
    ``as_json``, one JSON object), the log to standard error.
    """
    _configure_log(as_json=as_json, verbose=verbose)

    def ready(addresses: Addresses) -> None:
        line = addresses.line()
        if as_json:
            line = msgspec.json.encode({"ready": True, **addresses.by_name()}).decode()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        run(load_config(config, os.environ), ready)
    except (ConfigurationError, JournalError, StartError) as error:
        sys.stderr.write(f"headgate observer: {error}\n")
        return 1
    return 0


def _configure_log(*, as_json: bool, verbose: bool) -> None:
    renderer: structlog.typing.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
