"""``headgate demo``: a whole example, from nothing to a report."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperGroup

DEMOS: Final = {
    "evaluation": "evaluation.aqhi.paper:evaluation",
    "beijing": "evaluation.aqhi.beijing:beijing",
    "fire-risk": "fire_risk.demo:fire_risk",
    "crawl": "crawl.demo:crawl",
    "crawl-queue": "crawl_queue.demo:crawl_queue",
    "linear-road": "linear_road.demo:linear_road",
    "aqhi": "aqhi.demo:aqhi",
}
"""Module and function of each command, by its name; the modules are in folders of examples."""


class Demos(TyperGroup):
    """A group whose commands are those of the examples."""

    def list_commands(self, _: Any) -> list[str]:
        """Return the names of all demonstrations."""
        return list(DEMOS)

    def get_command(self, _: Any, name: str) -> Any:
        """Return a demonstration's command; None if there is none of that name."""
        if name not in DEMOS:
            return None
        find_examples()
        module, _, function = DEMOS[name].partition(":")
        single = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        single.command(name)(getattr(importlib.import_module(module), function))
        return typer.main.get_command(single)


app = typer.Typer(
    cls=Demos,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)


@app.callback()
def _demo() -> None:
    """Run a whole example and report on it."""


def find_examples() -> None:
    """Make examples and evaluation importable: the installed package's, or the checkout's."""
    room = Path(__file__).resolve().parents[1]
    packaged, checkout = room / "examples", room.parents[3]
    for folders in ((packaged,), (checkout / "examples", checkout)):
        if (folders[0] / "aqhi" / "steps.py").is_file():
            sys.path[:0] = [str(each) for each in folders if str(each) not in sys.path]
            importlib.invalidate_caches()
            return
    typer.echo(
        f"headgate demo: the examples are neither in {packaged} nor in {checkout / 'examples'}; "
        "install headgate again, or restore the folder examples of the checkout",
        err=True,
    )
    raise typer.Exit(1)
