"""Continuations of barriers: what a barrier was asked for, and happens when it has passed."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from headgate.agent.ports import ScannedCells, TimeRange
from headgate.engine import Launch, ScanContainer


class WatchesInEffect(Struct, frozen=True):
    """Every observer publishes what the dataflow watches."""


class EndOfWave(Struct, frozen=True):
    """All input of a wave was consumed."""

    number: int
    actions: tuple[str, ...]
    time: float
    """The wave's own, in Unix seconds."""


class EndOfRun(Struct, frozen=True):
    """All output of a run was consumed."""

    action: str
    run: str
    attempt: int
    result: str = ""
    """What its commit named."""


class MayStart(Struct, frozen=True):
    """No earlier attempt of the run can write any more."""

    launch: Launch
    token: int


class WatchesGone(Struct, frozen=True):
    """No observer sets notify columns for the dataflow any more, which is being removed."""

    on_withdrawn: Callable[[], None]


class RowsMoved(Struct, frozen=True):
    """What lay in the former partitions of rows of these tables was consumed."""

    tables: tuple[str, ...]


class ScanStarts(Struct, frozen=True):
    """What a scan finds is no older than what was consumed."""

    scan: ScanContainer
    unpublished: TimeRange | None
    """How cells are dated that another scan is to publish; it may have published some by now."""


class ScanEnds(Struct, frozen=True):
    """What was written while the scan ran was consumed."""

    scan: ScanContainer
    cells: ScannedCells
    recent: tuple[int, ...]
    """Places of cells that another scan publishes."""


Continuation = (
    WatchesInEffect
    | WatchesGone
    | EndOfWave
    | EndOfRun
    | MayStart
    | RowsMoved
    | ScanStarts
    | ScanEnds
)
