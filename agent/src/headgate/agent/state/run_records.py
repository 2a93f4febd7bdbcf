"""What people see of a dataflow's runs, as cells of its row."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec
import structlog
from msgspec import Struct

from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.events import Cut
from headgate.flows import RunIdentity

log = structlog.get_logger("headgate.agent.store")

_encode = msgspec.msgpack.Encoder().encode


class RunOutcome(StrEnum):
    """How an attempt stands."""

    WAITING = "waiting"
    """For the worker, or until a former attempt cannot write any more."""
    RUNNING = "running"
    COMMITTED = "committed"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The worker or the agent ended under it."""
    SHADOW = "shadow"
    """It was decided on and not launched."""


class RunRecord(Struct, frozen=True):
    """One attempt of a run, for people. Times are Unix seconds."""

    number: int
    run: str
    action: str
    attempt: int
    cause: str
    moment: str
    outcome: RunOutcome
    launched: float
    started: float | None = None
    ended: float | None = None
    reason: str = ""
    detail: str = ""
    """A traceback or the like."""
    token: int = 0
    cut: Cut = Cut()
    """What it consumes, up to here."""
    since: Cut = Cut()
    """The cut of the action's run before."""
    undecoded: int = 0
    """Values that it read and that their codec could not."""
    undecodable: str = ""
    """The first of them, in words."""
    code: str = ""
    """SHA-256 (hexadecimal) of the modules of steps that its process had read."""
    made: dict[str, int] = {}
    """Of a stage that has committed, rows of its increments by flow that others read."""
    identity: RunIdentity = RunIdentity()
    """Identity of what it computed. It has no hashes where they are not known: in records of
    earlier versions, and where it failed before its code was read."""


def record_column(number: int) -> bytes:
    """Return the column of a record."""
    return b"history:%012d" % number


def record_cells(records: Iterable[RunRecord]) -> dict[bytes, bytes]:
    """Return the cells of records."""
    return {record_column(record.number): _encode(record) for record in records}


def records_in(name: str, columns: dict[bytes, bytes]) -> tuple[RunRecord, ...]:
    """Return the records in a dataflow's row that can be read, newest first."""
    numbers = sorted((c for c in columns if c.startswith(b"history:")), reverse=True)
    records = []
    for number in numbers:
        try:
            records.append(read_cell(columns[number], RunRecord))
        except UnreadableCell as error:
            log.warning("a run is not shown", dataflow=name, cell=str(number), reason=str(error))
    return tuple(records)
