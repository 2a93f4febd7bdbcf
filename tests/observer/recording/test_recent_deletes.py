"""Deletes under way or just answered, and the rows of later writes that they may hide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.events import UpdateKind
from headgate.hbase import Cells, Write
from headgate.observer.recording.recent_deletes import (
    HIDING_SECONDS,
    Deletion,
    RecentDeletes,
    WriteOrder,
)

PUT, GONE = UpdateKind.PUT, UpdateKind.DELETE_ROW
ROWS = [b"a", b"b", b"c"]


def write(*cells: tuple[UpdateKind, bytes], table: str = "t") -> Write:
    found = Cells.empty()
    for kind, row in cells:
        found.add(kind, row, b"f:q", -1, None)
    return Write("mutateRows", table, found)


class Story:
    """Deletes that begin and end at times of the test's choice, and a plain account of them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.deletes = RecentDeletes(lambda: self.now)
        self.known: list[tuple[str, set[bytes], Deletion]] = []

    def begin(self, asked: Write) -> None:
        deletion = self.deletes.begin(asked)
        gone = {
            row
            for row, kind in zip(asked.cells.rows, asked.cells.kinds, strict=True)
            if kind == GONE
        }
        assert (deletion is not None) == bool(gone)
        if deletion is not None:
            self.known.append((asked.table, gone, deletion))

    def hiding(self, table: str, rows: set[bytes]) -> set[bytes]:
        found: set[bytes] = set()
        for name, gone, deletion in self.known:
            if name == table and deletion.until >= self.now:
                found |= gone & rows
        return found


CELLS = st.lists(st.tuples(st.sampled_from([PUT, GONE]), st.sampled_from(ROWS)), max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from("tu"), CELLS),
    st.tuples(st.just("answered"), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.sampled_from([0.0004, 0.0015, 0.0021, 1.0])),
    st.tuples(st.just("ask"), st.sampled_from("tu"), CELLS),
)


@given(steps=st.lists(STEPS, max_size=30))
def test_a_row_may_be_hidden_while_a_delete_of_it_is_under_way_and_shortly_after(steps) -> None:
    story = Story()
    for name, *arguments in steps:
        open_ones = [each for each in story.known if each[2].until == float("inf")]
        if name == "begin":
            table, cells = arguments
            story.begin(write(*cells, table=table))
        elif name == "pass":
            story.now += arguments[0]
        elif name == "ask":
            table, cells = arguments
            rows = {row for kind, row in cells if kind == PUT}
            asked = write(*cells, table=table)
            assert story.deletes.hiding(asked) == story.hiding(table, rows)
            for row in rows:
                hidden = row in story.hiding(table, {row})
                assert story.deletes.hides(table, row) is hidden
            waits = story.deletes.seconds_until_shown(asked)
            assert (waits > 0) == bool(story.hiding(table, rows))
            assert waits <= HIDING_SECONDS
        elif open_ones:
            chosen = open_ones[arguments[0] % len(open_ones)]
            if name == "answered":
                story.deletes.answered(chosen[2])
            else:
                story.deletes.cancel(chosen[2])
                story.known.remove(chosen)
    for _, _, deletion in story.known:
        if deletion.until == float("inf"):
            story.deletes.answered(deletion)
    story.now += 1.0
    story.deletes.forget_old()
    assert not story.deletes.present
    assert not story.deletes._tables


def test_what_was_answered_is_forgotten_by_the_next_answer() -> None:
    story = Story()
    for number in range(1000):
        story.begin(write((GONE, b"%d" % number)))
        story.deletes.answered(story.known.pop()[2])
        story.now += 0.001
    assert len(story.deletes._answered) <= 4


def test_a_delete_of_one_row_with_many_cells_is_found_by_its_row() -> None:
    story = Story()
    story.begin(write(*[(GONE, b"a")] * 5))
    assert list(story.deletes._tables["t"].narrow) == [b"a"]


def test_only_a_strict_listener_waits() -> None:
    story = Story()
    story.begin(write((GONE, b"a")))
    for strict in (True, False):
        order = WriteOrder(story.deletes, strict=strict)
        assert (order.seconds_to_wait(write((PUT, b"a"))) > 0) is strict
        assert (order.begin(write((GONE, b"a"))) is not None) is strict
