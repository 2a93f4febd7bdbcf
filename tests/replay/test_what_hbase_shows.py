"""Replayed tables hold what HBase showed, or say that it is a guess."""

import random
from typing import Any

import pytest
from tests.hostile_lives import TABLE, Life
from tests.seeds import each_seed

from headgate.events import Outcome, RequestPart, UpdateBatch, UpdateKind
from headgate.replay.tables import UNKNOWN, RecordedTables


@each_seed(150, 20_000)
def test_a_replay_knows_what_hbase_showed_or_that_it_guesses(seed: int) -> None:
    chance = random.Random(seed)
    life = Life(chance, cell_ttls=seed % 2 == 1, thrift2=seed % 4 > 1)
    tables = RecordedTables()
    for _ in range(25):
        for batch in life.go_on():
            tables.apply(batch)
        shown = life.table.shown()
        for row in life.rows:
            for column in life.columns:
                if (TABLE, row, column) in tables.guessed:
                    continue
                value = tables.value((TABLE, row, column))
                known = value if value is not UNKNOWN else shown.get((row, column))
                assert known == shown.get((row, column)), (row, column)


def told(
    place: int, kind: UpdateKind, value: bytes | None = None, *, timestamp: int = -1, **known: Any
) -> UpdateBatch:
    request = RequestPart(place, "m", known.pop("outcome", Outcome.APPLIED), NOW / 1000, 1, **known)
    column = b"" if kind is UpdateKind.DELETE_ROW else b"f:a"
    return UpdateBatch(
        1, "o", 1, place, 0, TABLE, (request,), bytes([kind]), (b"r",), (column,), (timestamp,),
        (value,),
    )  # fmt: skip


NOW = 1_800_000_000_000
HOUR = 3_600_000
PUT, DELETE = UpdateKind.PUT, UpdateKind.DELETE_ROW
STORIES = {
    "a version dated ahead stays": (
        (told(1, PUT, b"1", timestamp=NOW + HOUR), told(2, PUT, b"2")),
        b"1",
    ),
    "a delete does not reach it": (
        (told(1, PUT, b"1", timestamp=NOW + HOUR), told(2, DELETE)),
        b"1",
    ),
    "a delete hides a put of the past that comes later": (
        (told(1, DELETE), told(2, PUT, b"1", timestamp=NOW - HOUR)),
        None,
    ),
    "a delete dated ahead hides what is put": (
        (told(1, DELETE, timestamp=NOW + HOUR), told(2, PUT, b"1")),
        None,
    ),
    "a delete up to a time leaves what is newer": (
        (told(1, PUT, b"1"), told(2, DELETE, timestamp=NOW - HOUR)),
        b"1",
    ),
    "an increment climbs above a version dated ahead": (
        (
            told(1, PUT, b"1", timestamp=NOW + HOUR),
            told(2, UpdateKind.INCREMENT, b"2"),
            told(3, PUT, b"3"),
        ),
        b"2",
    ),
    "a delete of the time to which an increment climbs hides it": (
        (
            told(1, PUT, b"1", timestamp=NOW + HOUR),
            told(2, UpdateKind.DELETE_CELL, timestamp=NOW + HOUR + 1),
            told(3, UpdateKind.INCREMENT, b"2"),
        ),
        b"1",
    ),
}


@pytest.mark.parametrize(("story", "shown"), STORIES.values(), ids=STORIES)
def test_a_replay_follows_timestamps(story: tuple[UpdateBatch, ...], shown: bytes | None) -> None:
    tables = RecordedTables()
    for batch in story:
        tables.apply(batch)
    assert tables.value((TABLE, b"r", b"f:a")) == shown
    assert tables.guesses == 0


@pytest.mark.parametrize("kind", [UpdateKind.INCREMENT, UpdateKind.APPEND])
def test_a_write_that_may_have_climbed_above_a_version_has_no_known_time(kind: UpdateKind) -> None:
    tables = RecordedTables()
    tables.apply(told(1, PUT, b"1", timestamp=NOW - 25_000))
    tables.apply(told(2, kind, b"2"))
    tables.apply(told(3, PUT, b"3", timestamp=NOW - 10_000))
    assert (TABLE, b"r", b"f:a") in tables.guessed


@pytest.mark.parametrize(
    "second",
    [
        told(2, PUT, b"2", outcome=Outcome.UNKNOWN),
        told(2, DELETE, ambiguous=(0,)),
        told(2, UpdateKind.DELETE_CELL),
        told(2, PUT, b"2", timestamp=NOW + 5),
        told(2, PUT, b"2", ttls=(60_000,)),
    ],
)
def test_a_replay_counts_what_it_guesses(second: UpdateBatch) -> None:
    tables = RecordedTables()
    tables.apply(told(1, PUT, b"1"))
    tables.apply(second)
    assert tables.guesses == 1


DOUBTS = {
    "an increment lives as long as a version dated ahead": (
        told(1, PUT, b"1", timestamp=NOW + 45_000, ttls=(60_000,)),
        told(2, PUT, b"2"),
        told(3, UpdateKind.INCREMENT, b"3", timestamp=NOW + 45_001),
    ),
    "a put has the time of a version that was deleted": (
        told(1, PUT, b"1", timestamp=NOW - HOUR),
        told(2, UpdateKind.DELETE_CELL),
        told(3, PUT, b"2", timestamp=NOW - HOUR),
    ),
    "a version of an earlier time is shown when the one above it goes": (
        told(1, PUT, b"1", timestamp=NOW + HOUR, outcome=Outcome.UNKNOWN),
        told(2, PUT, b"2", timestamp=NOW + 2 * HOUR, outcome=Outcome.UNKNOWN),
        told(3, UpdateKind.DELETE_CELL),
        told(4, PUT, b"3"),
    ),
    "an increment has climbed above a version that may be there": (
        told(1, PUT, b"1", timestamp=NOW + HOUR, outcome=Outcome.UNKNOWN),
        told(2, UpdateKind.INCREMENT, b"2"),
        told(3, PUT, b"3", timestamp=NOW + 45_000),
    ),
    "an append begins with nothing or climbs above a version that may be deleted": (
        told(1, PUT, b"1", timestamp=NOW + HOUR),
        told(2, UpdateKind.DELETE_CELL, timestamp=NOW + HOUR, ambiguous=(0,)),
        told(3, UpdateKind.APPEND, b"2"),
        told(4, DELETE),
    ),
    "a delete of the newest shows a version that is kept no more": (
        told(1, PUT, b"1", timestamp=NOW - 30),
        told(2, PUT, b"2", timestamp=NOW - 10),
        told(3, PUT, b"3", timestamp=NOW - HOUR),
        told(4, UpdateKind.DELETE_CELL, timestamp=NOW - 10),
    ),
    "a put may be below a version that is kept no more": (
        told(1, PUT, b"1", timestamp=NOW - 30),
        told(2, PUT, b"2", timestamp=NOW - 10),
        told(3, UpdateKind.DELETE_CELL, timestamp=NOW - 10),
        told(4, PUT, b"3", timestamp=NOW - HOUR),
    ),
    "an append has climbed above a put at the same time": (
        told(1, UpdateKind.APPEND, b"1", ambiguous=(0,)),
        told(2, PUT, b"2", timestamp=NOW + HOUR, ambiguous=(0,)),
        told(3, PUT, b"3", timestamp=NOW + HOUR + 1),
    ),
}


@pytest.mark.parametrize("story", DOUBTS.values(), ids=DOUBTS)
def test_a_replay_says_what_it_cannot_know(story: tuple[UpdateBatch, ...]) -> None:
    tables = RecordedTables()
    for batch in story:
        tables.apply(batch)
    assert (TABLE, b"r", b"f:a") in tables.guessed
