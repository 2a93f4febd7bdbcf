"""How far an output that is shown stands from the recorded one."""

from __future__ import annotations

from headgate.engine import WatchedContainer
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
)
from headgate.replay.outputs import OutputError, RecordedOutput
from headgate.replay.tables import Cell, ContainerExtent, RecordedTables, Value


def error(shown: dict[Cell, Value]) -> OutputError:
    """Return that of cells ``f:x`` of the rows a to d, which hold 1, 2, 4 and 8; ``g:x`` is not."""
    values = {(b"abcd"[i : i + 1], b"f:x"): b"%d" % 2**i for i in range(4)} | {(b"a", b"g:x"): b"9"}
    number = len(values)
    rows, columns = zip(*values, strict=True)
    part = RequestPart(1, "put", Outcome.APPLIED, 1.0, number)
    kinds, stamps = bytes([UpdateKind.PUT]) * number, (-1,) * number
    tables = RecordedTables()
    output = RecordedOutput(
        ContainerExtent(WatchedContainer(Container(ContainerId("out"), (Item("t", b"f"),))))
    )
    output.take(
        tables.apply(
            UpdateBatch(
                VERSION, "o", 1, 0, 0, "t", (part,), kinds, rows, columns, stamps,
                tuple(values.values()),
            )
        )
    )  # fmt: skip
    return output.error(shown, tables)


NONE = OutputError(0.0, 0.0, 0.0, 0.0)


def test_what_shows_as_recorded_is_no_error() -> None:
    assert error({}) == error({("t", b"b", b"f:x"): b"2"}) == NONE


def test_what_lies_outside_of_the_output_is_no_error_of_it() -> None:
    assert error({("t", b"a", b"g:x"): b"1"}) == NONE
    assert error({("u", b"a", b"f:x"): b"1"}) == NONE


def test_a_cell_that_shows_another_value_counts_by_the_larger_of_both() -> None:
    assert error({("t", b"b", b"f:x"): b"1"}) == OutputError(1 / 4, 1 / 15, 1 / 15, 1.0)
    assert error({("t", b"b", b"f:x"): b"7"}) == OutputError(1 / 4, 5 / 20, 5 / 15, 5.0)


def test_a_cell_of_the_other_sign_counts_by_both() -> None:
    assert error({("t", b"b", b"f:x"): b"-3"}) == OutputError(1 / 4, 5 / 18, 5 / 15, 5.0)


def test_a_cell_that_does_not_show_or_should_not_counts_as_nought() -> None:
    assert error({("t", b"d", b"f:x"): None}) == OutputError(1 / 4, 8 / 15, 8 / 15, 8.0)
    assert error({("t", b"e", b"f:x"): b"5"}) == OutputError(1 / 5, 5 / 20, 5 / 15, 5.0)
