"""The protocol of an example: what it feeds, its dataflows, what it measures and what it reports.

An example is a package in ``examples``. Its ``demo.py`` has a function whose parameters are the
options of its command, and which returns an :class:`Example`; ``demonstration`` makes the command
of it. The runner starts a stand and calls the example's methods in the order of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from rich.console import RenderableType

from headgate.cli.demo.dataflows import AgentDataflows, CommittedRun
from headgate.cli.demo.hbase import FreshTables, Puts


class Submission(Struct, frozen=True):
    """A dataflow file that is submitted."""

    text: str
    file: Path
    """Its path. Messages use the name; modules of steps are looked for beside it."""


class Stand(Struct, frozen=True):
    """The running services, as an example uses them."""

    tables: FreshTables
    """HBase behind the proxy."""
    dataflows: AgentDataflows
    """The agent."""
    say: Callable[[str], None]
    """Prints a line."""


class Wave(Struct, frozen=True):
    """Rows that are written before the dataflows are evaluated again."""

    label: str
    """Name for people."""
    puts: Mapping[str, Puts]
    """Rows and their cells, by table."""
    time: float | None = None
    """Time of the wave in Unix seconds; None: the time at which it ends."""


class SettledWave(Struct, frozen=True):
    """A wave after which every dataflow has run what the wave made due."""

    number: int
    """Position among all waves, from 1."""
    label: str
    runs: Mapping[str, Sequence[CommittedRun]]
    """Runs that have committed since the wave before, oldest first, by dataflow."""
    seconds: float
    """Time from the wave's first row until all dataflows had settled."""


class Times(Struct, frozen=True):
    """The duration of a demonstration, in seconds."""

    starting: float
    """Time from the command's start until the first wave."""
    waves: float
    """Time from the first wave until the last was measured."""


class Report(Struct, frozen=True):
    """The result of a demonstration."""

    document: Mapping[str, Any]
    """The result for programs, which ``--json`` prints."""
    shown: Sequence[RenderableType]
    """The result for people, printed one part below the other."""
    page: Path | None = None
    """A page that was written; its path is printed for people."""
    status: int = 0
    """Exit status."""


class Trial(Protocol):
    """Dataflows on running services, fed wave by wave and measured after each wave."""

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        """Return the dataflows; called once, first.

        Their tables are created before they are submitted.

        Args:
            folder: where steps may write files; it goes with the stand.
        """
        ...

    def feed(self, stand: Stand) -> Iterator[Wave]:
        """Yield the waves; called once, when the sessions of all dataflows are warm.

        The next wave is asked for after the one before was measured, so it may depend on that.
        """
        ...

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Look at what a wave has changed; return the lines that are printed of it."""
        ...


class Example(Trial, Protocol):
    """A trial that ends with a report.

    Attributes:
        waves: how many there are at most.
    """

    waves: int

    def report(self, times: Times) -> Report:
        """Return what was found; called once, after all services have ended."""
        ...
