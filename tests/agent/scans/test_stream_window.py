"""Which versions of a cell were published in the topic."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headgate.agent.scans.stream_window import StreamWindow
from headgate.events import (
    VERSION,
    Cut,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
)


def published(
    value: bytes | None,
    *,
    kind: UpdateKind = UpdateKind.PUT,
    column: bytes = b"f:v",
    timestamp: int = -1,
    outcome: Outcome = Outcome.APPLIED,
    ambiguous: tuple[int, ...] = (),
    method: str = "put",
) -> UpdateBatch:
    part = RequestPart(1, method, outcome, 1.0, 1, ambiguous=ambiguous)
    return UpdateBatch(
        VERSION,
        "o",
        1,
        0,
        0,
        "t",
        (part,),
        bytes([kind]),
        (b"r",),
        (column,),
        (timestamp,),
        (value,),
    )


def change(kind: TableChangeKind, family: str = "") -> TableChange:
    return TableChange(VERSION, "o", 1, 0, 1, "t", kind, Outcome.APPLIED, 1.0, family)


def knows(*messages: UpdateBatch | TableChange, timestamp: int = 5, divided: bool) -> bool:
    """Return whether value ``x`` of the cell is known after messages, each maybe in its stretch."""
    window = StreamWindow(0.0, Cut(), 1000)
    for number, message in enumerate(messages):
        window.take(message)
        if divided:
            window.divide(float(number), Cut())
    return window.knows(b"r", b"f:v", timestamp, b"x")


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize(
    ("messages", "known"),
    [
        ((), False),
        ((published(b"x"),), True),
        ((published(b"y"),), False),
        ((published(b"x"), published(b"y")), False),
        ((published(b"y"), published(b"x")), True),
        ((published(b"x", outcome=Outcome.UNKNOWN),), False),
        ((published(b"x", ambiguous=(0,)),), False),
        ((published(b"x"), published(b"x", outcome=Outcome.UNKNOWN)), False),
        ((published(None),), False),
        ((published(b"x", kind=UpdateKind.INCREMENT),), True),
        ((published(b"x", kind=UpdateKind.INCREMENT_DELTA),), False),
        ((published(b"x"), published(b"", kind=UpdateKind.DELETE_COLUMN)), False),
        ((published(b"x"), published(None, kind=UpdateKind.DELETE_ROW, column=b"")), False),
        ((published(b"x"), published(None, kind=UpdateKind.DELETE_FAMILY, column=b"f:")), False),
        ((published(b"x"), published(None, kind=UpdateKind.DELETE_FAMILY, column=b"g:")), True),
        ((published(None, kind=UpdateKind.DELETE_ROW, column=b""), published(b"x")), True),
        ((published(b"x", timestamp=5),), True),
        ((published(b"x", timestamp=4),), False),
        ((published(b"x", timestamp=5), published(b"y")), True),
        ((published(b"x"), published(b"y", timestamp=5)), True),
        ((published(b"x"), published(b"y", timestamp=4, method="scan")), False),
        ((published(b"x", timestamp=5, method="scan"),), True),
        ((published(b"x"), change(TableChangeKind.TRUNCATED)), False),
        ((published(b"x"), change(TableChangeKind.FAMILY_DROPPED, "f")), False),
        ((published(b"x"), change(TableChangeKind.FAMILY_DROPPED, "g")), True),
        ((published(b"x"), change(TableChangeKind.DISABLED)), True),
    ],
)
def test_a_version_is_known_where_it_is_what_was_published_last(messages, known, divided):
    assert knows(*messages, divided=divided) is known


def test_what_was_published_long_ago_is_forgotten():
    window = StreamWindow(0.0, Cut({"t": (1,)}), 1000)
    window.take(published(b"x"))
    window.divide(10.0, Cut({"t": (2,)}))
    window.forget(9.0)
    assert window.knows(b"r", b"f:v", 5, b"x")
    assert window.cut == Cut({"t": (1,)})
    window.forget(10.0)
    assert not window.knows(b"r", b"f:v", 5, b"x")
    assert window.cut == Cut({"t": (2,)})


@pytest.mark.parametrize(
    "message",
    [
        lambda n: published(b"x", column=b"f:%d" % n),
        lambda n: published(b"x", timestamp=n),
        lambda n: replace(published(b"x"), rows=(b"%d" % n,)),
    ],
    ids=["cells", "versions", "rows"],
)
def test_a_window_holds_no_more_than_its_limit_and_forgets_the_oldest(message):
    window = StreamWindow(0.0, Cut({"t": (0,)}), 100)
    forgot = False
    for number in range(10_000):
        window.take(message(number))
        if window.crowded:
            window.divide(float(number), Cut({"t": (number + 1,)}))
            forgot = window.narrow() or forgot
        assert sum(stretch.versions.size for stretch in window._stretches) <= 100 + 100 // 8
    assert forgot
    assert window.cut.position("t", 0) > 9_800


def test_the_same_cell_written_again_and_again_takes_no_more_room():
    window = StreamWindow(0.0, Cut(), 100)
    for _ in range(1_000):
        window.take(published(b"x"))
    assert not window.crowded


def test_what_is_forgotten_for_room_is_not_known_and_what_is_newer_is():
    window = StreamWindow(0.0, Cut(), 16)
    window.take(published(b"x"))
    window.divide(1.0, Cut())
    for number in range(20):
        window.take(published(b"x", column=b"g:%d" % number))
        if window.crowded:
            window.divide(2.0, Cut())
            window.narrow()
    assert not window.knows(b"r", b"f:v", 5, b"x")
    assert window.knows(b"r", b"g:19", 5, b"x")
