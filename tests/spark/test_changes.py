from headgate.engine import Codec
from headgate.events import Item, Outcome, RequestPart, UpdateBatch
from headgate.spark.changes import ChangedCells
from headgate.spark.views import ContainerView

VIEW = ContainerView("c", "t", (Item("t", b"f", b"q"),), Codec())


def batch(*rows, intent=7):
    """One request's cells in one partition."""
    return UpdateBatch(
        version=1,
        observer="o",
        epoch=1,
        sequence=0,
        watermark=0,
        table="t",
        requests=(RequestPart(intent, "mutateRows", Outcome.APPLIED, 0.0, len(rows)),),
        kinds=bytes(len(rows)),
        rows=rows,
        columns=(b"f:q",) * len(rows),
        timestamps=(-1,) * len(rows),
        values=(b"1",) * len(rows),
    )


def test_a_request_that_falls_into_two_partitions_counts_in_both():
    changed = ChangedCells(VIEW)
    changed.add(batch(b"a", b"b"), 0)
    changed.add(batch(b"c"), 1)
    assert {row for row, _ in changed.cells} == {b"a", b"b", b"c"}


def test_a_request_delivered_twice_in_one_partition_counts_once():
    changed = ChangedCells(VIEW)
    changed.add(batch(b"a"), 0)
    changed.add(batch(b"b", intent=8), 0)
    changed.cells.clear()
    changed.add(batch(b"a"), 0)
    assert not changed.cells
