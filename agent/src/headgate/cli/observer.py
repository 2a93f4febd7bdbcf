"""``headgate observer``: the proxy in front of HBase's Thrift servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.observer import run_in_foreground


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
    raise typer.Exit(run_in_foreground(config, as_json=json, verbose=verbose))
