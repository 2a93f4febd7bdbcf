"""Items that are found by row and column say the same as each of them asked alone."""

from __future__ import annotations

import time

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.events import Container, ContainerId, Gate, Item, UpdateKind
from headgate.hbase import Cells, Write
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.touching import TouchedItems

ROWS = st.sampled_from([b"", b"a", b"a\0", b"ab", b"b", b"b\xff", b"c"])
FAMILIES = st.sampled_from([b"f", b"g"])
QUALIFIERS = st.sampled_from([b"", b"q", b"q:r"])
ITEMS = st.builds(
    Item,
    st.just("t"),
    st.one_of(st.none(), FAMILIES),
    st.one_of(st.none(), QUALIFIERS),
    ROWS,
    st.one_of(st.none(), ROWS),
)
CELLS = st.tuples(
    st.sampled_from(list(UpdateKind)),
    ROWS,
    st.one_of(st.just(b""), FAMILIES, st.builds(lambda f, q: f + b":" + q, FAMILIES, QUALIFIERS)),
)


@example([Item("t", b"f")], [(UpdateKind.PUT, b"", b"f")])
@given(st.lists(ITEMS, max_size=6), st.lists(CELLS, max_size=6))
def test_they_say_the_same(
    items: list[Item], updates: list[tuple[UpdateKind, bytes, bytes]]
) -> None:
    cells = Cells.empty()
    for kind, row, column in updates:
        cells.add(kind, row, column, -1, None)
    expected = any(item.is_touched_by(*update) for item in items for update in updates)
    assert TouchedItems(items).touched_by(cells) == expected


def test_a_large_batch_is_compared_with_many_items_in_one_turn() -> None:
    gates = WriteGates(hold_seconds=5.0, clock=lambda: 100.0)
    for number in range(20):
        items = tuple(
            Item("t", b"f", b"q", b"row %d" % each, b"row %d\0" % each)
            for each in range(number, 4000, 20)
        )
        container = Container(ContainerId("c"), items)
        gate = Gate(2, "flow", f"step {number}", "kappa", (container,), 130.0, 1)
        gates.apply(gate, 30.0)
    cells = Cells.empty()
    for number in range(40_000):
        cells.add(UpdateKind.PUT, b"other %d" % number, b"f:q", -1, b"v")
    write = Write("mutateRows", "t", cells)
    gates.in_the_way(write, ())
    begun = time.thread_time()
    assert gates.in_the_way(write, ()) is None
    # One by one it was 160 million comparisons: half a minute.
    assert time.thread_time() - begun < 1.0
    cells.add(UpdateKind.PUT, b"row 17", b"f:q", -1, b"v")
    found = gates.in_the_way(write, ())
    assert found is not None
    assert found.action == "step 17"
