"""One cell that is written with certainty or without, shared by tests of what is read again."""

from msgspec.structs import replace

from headgate.engine import Bound, Metric, ReadCells, ValueBound
from headgate.events import (
    VERSION,
    ContainerId,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
)

SINCE = 1_900_000_000  # milliseconds: after the first scan, and before all that is received here
AHEAD = 3_000_000_000  # milliseconds, a thousand seconds after all that is received here

IN = ContainerId("in")

FIVE = Bound("k", IN, value=ValueBound(Metric.ABSOLUTE, 5))
KEY = (b"r0", b"f:x")


def write(
    kind: UpdateKind = UpdateKind.PUT,
    value: bytes | None = b"12",
    *,
    sequence: int = 100,
    outcome: Outcome = Outcome.APPLIED,
    ambiguous: tuple[int, ...] = (),
    timestamp: int = -1,
    column: bytes = b"f:x",
) -> UpdateBatch:
    request = RequestPart(sequence, "m", outcome, 2e6, 1, ambiguous=ambiguous)
    return UpdateBatch(
        VERSION, "other", 1, sequence, 0, "in", (request,), bytes([kind]), (b"r0",), (column,),
        (timestamp,), (value,),
    )  # fmt: skip


def beside(one: UpdateBatch, other: UpdateBatch, *, row: bytes) -> UpdateBatch:
    """Return both in one message, the other in this row."""
    (request,) = other.requests
    return replace(
        one,
        requests=(*one.requests, replace(request, intent=request.intent + 1)),
        kinds=one.kinds + other.kinds,
        rows=(*one.rows, row),
        columns=one.columns + other.columns,
        timestamps=one.timestamps + other.timestamps,
        values=one.values + other.values,
    )


def after_a_run(pair, rows, *bounds, answering=True, **step):
    """Row r0 has value 10 at the last run's cut."""
    tester = pair(*(bounds or (FIVE,)), **step)
    tester.write("in", rows(3, 10))
    tester.request("b")
    while tester.engine.busy:
        tester.finish("b")
    tester.answering = answering
    return tester


def asked(instructions) -> list[ReadCells]:
    return [i for i in instructions if isinstance(i, ReadCells)]
