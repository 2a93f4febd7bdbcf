"""``headgate sensor``: says how busy a machine is that runs steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headgate.agent import load_sensor_configuration, serve_sensor
from headgate.cli.ready import say_ready
from headgate.settings import ConfigurationError, LogLevel, configure_log

_DEFAULT_FILE = Path("sensor.toml")


def sensor(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="TOML file that describes the sensor [default: sensor.toml, if there is one].",
        ),
    ] = None,
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Write the ready line and the log as JSON.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log debugging details too.")] = False,
) -> None:
    """Publish this machine's CPU, memory, disk, network and load, by which intervals are adjusted.

    Run one on each machine that runs steps, but for the agent's own. Prints one line that begins
    with "ready"; SIGTERM ends it. Every key of the file can be overridden by a variable, such as
    HEADGATE_SENSOR_KAFKA_BOOTSTRAP, so that no file is needed.
    """
    configure_log(as_json=json, level=LogLevel.DEBUG if verbose else LogLevel.INFO)
    path = config or (_DEFAULT_FILE if _DEFAULT_FILE.exists() else None)

    def ready(machine: str) -> None:
        say_ready("machine", machine, as_json=json)

    try:
        serve_sensor(load_sensor_configuration(path, os.environ), ready)
    except ConfigurationError as error:
        sys.stderr.write(f"headgate sensor: {error}\n")
        raise typer.Exit(1) from error
