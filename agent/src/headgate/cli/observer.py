"""``headgate observer``: the proxy in front of HBase's Thrift servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.observer_tail import tail
from headgate.observer import run_in_foreground

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    help="Run the proxy that watches writes to HBase, or look at what it publishes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
app.command("tail")(tail)


@app.callback()
def observer(
    context: typer.Context,
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
    if context.invoked_subcommand is None:
        raise typer.Exit(run_in_foreground(config, as_json=json, verbose=verbose))
