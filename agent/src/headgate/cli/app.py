"""The commands of ``headgate``, each imported only when it is called.

So ``headgate --help`` is quick, and a command whose extra is not installed says which one it
needs while the others work.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Annotated, Any, ClassVar

try:
    import msgspec
    import typer
    from typer.core import TyperCommand, TyperGroup
except ModuleNotFoundError as missing:
    sys.exit(
        f"headgate: its commands need the package {missing.name}, which is not installed. "
        "Run: pip install 'headgate[agent,local]'"
    )


class CommandEntry(msgspec.Struct, frozen=True):
    """One command and where it lives.

    Attributes:
        name: What people type, and the module in this package.
        summary: What ``headgate --help`` says of it.
        extra: The extra of the distribution that its imports need.
        module: Where it lives, if not in the module of its name.
        function: What is called there, if not the function of its name.
    """

    name: str
    summary: str
    extra: str
    module: str = ""
    function: str = ""

    @property
    def place(self) -> str:
        """The whole name of its module."""
        return f"headgate.cli.{self.module or self.name}"


ENTRIES = (
    CommandEntry("local", "Run HBase, its Thrift servers and Kafka on this machine.", "local"),
    CommandEntry("observer", "Run the proxy that watches writes to HBase.", "observer"),
    CommandEntry("exec", "Run a Python program whose happybase writes become events.", "observer"),
    CommandEntry("doctor", "Find out why a client or its events do not get through.", "observer"),
    CommandEntry("agent", "Run the service that decides and launches steps.", "agent"),
    CommandEntry("sensor", "Say how busy a machine is that runs steps.", "agent"),
    CommandEntry("flow", "Check, submit and look at dataflows.", "agent"),
    CommandEntry("stage", "Look after what stages of dataflows remember.", "agent,spark"),
    CommandEntry("token", "Make a token with which somebody may ask the agents.", "agent"),
    CommandEntry("replay", "Say what other bounds would have saved and cost.", "agent,local"),
    CommandEntry("demo", "Run a whole example and report on it.", "agent,observer,spark,local"),
)


class LazyCommands(TyperGroup):
    """A group that knows its commands by name and imports the one that is called."""

    entries: ClassVar[tuple[CommandEntry, ...]] = ENTRIES

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._entries = {entry.name: entry for entry in self.entries if _exists(entry)}
        late = {name: TyperCommand(name, help=e.summary) for name, e in self._entries.items()}
        self.commands = {**late, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the command that ``args`` begins with, imported."""
        name, placeholder, rest = super().resolve_command(ctx, args)
        entry = self._entries.get(name) if name else None
        return name, _load(entry) if entry else placeholder, rest


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 -- Typer calls it so
    if wanted:
        from headgate.events import RELEASE

        typer.echo(f"headgate {RELEASE}")
        raise typer.Exit


@app.callback()
def _headgate(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Run PySpark steps over HBase only when their input has changed enough."""
    del show_version  # its callback has printed it and left


def main() -> None:
    """Run the command line."""
    app(prog_name="headgate")


def _exists(entry: CommandEntry) -> bool:
    return importlib.util.find_spec(entry.place) is not None


def _load(entry: CommandEntry) -> Any:
    try:
        module = importlib.import_module(entry.place)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "headgate":
            raise
        typer.echo(
            f"headgate {entry.name}: the package {error.name} is not installed. "
            f"Run: pip install 'headgate[{entry.extra}]'",
            err=True,
        )
        raise typer.Exit(1) from error
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    single = typer.Typer(add_completion=False)
    single.command(entry.name)(getattr(module, entry.function or entry.name))
    return typer.main.get_command(single)
