"""``headgate observer``: the proxy in front of HBase's Thrift servers."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
import typer

from headgate.observer import (
    Addresses,
    ConfigurationError,
    JournalError,
    StartError,
    load_config,
    run,
)


def observer(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="TOML file that describes the observer.")
    ] = Path("observer.toml"),
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Write the ready line and the log as JSON.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log debugging details too.")] = False,
) -> None:
    """Stand in front of HBase's Thrift servers and publish what writes have done.

    Prints one line that begins with "ready" once clients are accepted. SIGTERM ends it cleanly.
    """
    _configure_log(json=json, verbose=verbose)

    def ready(addresses: Addresses) -> None:
        if json:
            line = msgspec.json.encode(
                {
                    "ready": True,
                    "thrift1": addresses.thrift1,
                    "thrift2": addresses.thrift2,
                    "admin": addresses.admin,
                }
            ).decode()
        else:
            line = addresses.line()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        run(load_config(config, os.environ), ready)
    except (ConfigurationError, JournalError, StartError) as error:
        sys.stderr.write(f"headgate observer: {error}\n")
        raise typer.Exit(1) from error


def _configure_log(*, json: bool, verbose: bool) -> None:
    renderer: structlog.typing.Processor
    if json:
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
