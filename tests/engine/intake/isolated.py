"""A dataflow that declares feeders, what others write beside it, and what its scans find."""

from msgspec.structs import replace

from headgate.engine import (
    Bound,
    ContainerScanned,
    EngineTester,
    Metric,
    ReconciliationDue,
    SequenceBound,
    ValueBound,
)
from headgate.events import (
    VERSION,
    ContainerId,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
)

IN = ContainerId("in")

FEED = Origin("flow", "a", "", 0)
COLLECTOR = Origin("", "", "", 0, "collector")
FOREIGN = Origin("other", "a", "run", 1)
BOUND = Bound("k", IN, sequence=SequenceBound(99), value=ValueBound(Metric.CHANGED, 9))
OWN = {b"f:0": b"1", b"f:1": b"1"}
"""What a dataflow knows of row ``0`` as its own."""
OVERWRITTEN = {b"f:0": b"7", b"f:1": b"1", b"f:new": b"7"}
"""What a stranger made of row ``0``: one cell has another value, and one is new."""


def isolated(pair, *feeders: str) -> EngineTester:
    return EngineTester(replace(pair(BOUND).spec, feeders=feeders))


def batch(*origins: Origin | None, first: int = 0) -> UpdateBatch:
    """Each request writes two cells of a row of its own."""
    count = len(origins)
    return UpdateBatch(
        VERSION,
        "o",
        1,
        first,
        0,
        "in",
        tuple(
            RequestPart(first + n, "put", Outcome.APPLIED, 1.0, 2, origin=origin)
            for n, origin in enumerate(origins)
        ),
        bytes(2 * count),
        tuple(b"%d" % (n // 2) for n in range(2 * count)),
        tuple(b"f:%d" % (n % 2) for n in range(2 * count)),
        (-1,) * (2 * count),
        (b"1",) * (2 * count),
    )


def counted(tester: EngineTester) -> int:
    (updates,) = tester.engine.explain(tester.now).actions[1].updates
    return updates.counted


def scanned(tester: EngineTester, *rows: bytes, marked: frozenset[bytes] = frozenset()) -> None:
    found = ContainerScanned(
        tester.now, IN, "in", rows, (b"f:0",) * len(rows), (b"1",) * len(rows), marked=marked
    )
    tester.handle(found)


def altered(tester: EngineTester, sequence: int = 1) -> None:
    change = (TableChangeKind.MODIFIED, Outcome.APPLIED, 1.0)
    tester.publish("in", TableChange(VERSION, "o", 1, sequence, sequence, "in", *change))


def answered(tester: EngineTester, cells: dict[bytes, bytes], *marked: bytes) -> None:
    """Have a scan find these values of row ``0`` by column."""
    found = (b"0",) * len(cells), tuple(cells), tuple(cells.values())
    tester.handle(ContainerScanned(tester.now, IN, "in", *found, marked=frozenset(marked)))


def contents_of(tester: EngineTester) -> dict[tuple[bytes, bytes], complex | bytes]:
    (cells,) = tester.engine.cells.values()
    return cells.columns.contents()


def knowing_row_0(pair) -> EngineTester:
    """A dataflow that knows its own two cells of row ``0``, and whose scans are answered here."""
    tester = isolated(pair)
    tester.publish("in", batch(FEED))
    tester.answering = False
    return tester


def rows_of(tester: EngineTester) -> set[bytes]:
    (cells,) = tester.engine.cells.values()
    return {row for row, _ in cells.columns.contents()}


def wrote(
    tester: EngineTester,
    origin: Origin | None,
    cells: dict[bytes, bytes | None],
    sequence: int,
    outcome: Outcome = Outcome.APPLIED,
    *,
    delete: UpdateKind = UpdateKind.DELETE_COLUMN,
    timestamp: int = -1,
    row: bytes = b"0",
) -> None:
    """Have somebody write these values of a row at Unix second 1, or delete the columns."""
    kinds = bytes(delete if value is None else UpdateKind.PUT for value in cells.values())
    request = RequestPart(sequence, "put", outcome, 100.0, len(cells), origin=origin)
    rows = (row,) * len(cells)
    values = tuple(cells.values())
    timestamps = (timestamp,) * len(cells)
    tester.publish(
        "in",
        UpdateBatch(
            VERSION, "o", 1, sequence, 0, "in", (request,), kinds, rows, tuple(cells), timestamps,
            values,
        ),
    )  # fmt: skip


def looked_at_again(tester: EngineTester, cells: dict[bytes, bytes], row: bytes = b"0") -> int:
    """Have a scan after a loss find these cells of a row; return how many updates it counts."""
    before = counted(tester)
    tester.handle(ReconciliationDue(tester.now))
    here = (b"0",) * 2 if row != b"0" else ()
    found = (*here, *(row,) * len(cells))
    columns = (*(OWN if here else ()), *cells)
    values = (*(OWN.values() if here else ()), *cells.values())
    marked = frozenset({b"0", row})
    tester.handle(ContainerScanned(tester.now, IN, "in", found, columns, values, marked=marked))
    return counted(tester) - before
