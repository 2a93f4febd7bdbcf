"""``headgate agent``: the service that decides and launches steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headgate.agent import AUDITED, Unreachable, load_configuration, serve
from headgate.cli.ready import say_ready
from headgate.settings import ConfigurationError, LogLevel, configure_log

_DEFAULT_FILE = Path("agent.toml")


def agent(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="TOML file that describes the agent [default: agent.toml, if there is one].",
        ),
    ] = None,
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Write the ready line and the log as JSON.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log debugging details too.")] = False,
) -> None:
    """Run dataflows: consume updates, evaluate bounds, launch steps in warm Spark sessions.

    Prints one line that begins with "ready" once the API answers. SIGTERM ends it cleanly: state is
    saved, workers are stopped, and other agents may take over at once. Every key of the file can be
    overridden by a variable, such as HEADGATE_AGENT_KAFKA_BOOTSTRAP.
    """
    configure_log(
        as_json=json,
        level=LogLevel.DEBUG if verbose else LogLevel.INFO,
        always=AUDITED,
    )
    path = config or (_DEFAULT_FILE if _DEFAULT_FILE.exists() else None)

    def ready(address: str) -> None:
        say_ready("api", address, as_json=json)

    try:
        serve(load_configuration(path, os.environ), ready)
    except (ConfigurationError, Unreachable) as error:
        sys.stderr.write(f"headgate agent: {error}\n")
        raise typer.Exit(1) from error
