"""What must hold after a piece: pure, so that what it would overlook can be tried."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.events import known_from
from soaking.topics import Told

SHOWN = 5  # examples that a sentence names
WARM_SECONDS = 300.0
"""Of a process's life, in which it may grow."""
LEAST_SECONDS = 900.0
"""Of a life, warm-up included, below which nothing is said of its growth."""
_MIB = 1 << 20

Offsets = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Note:
    """What a step wrote down of one attempt of a run: its cuts, and the rows it was shown."""

    run: str
    attempt: int
    since: Offsets
    cut: Offsets
    rows: frozenset[bytes]

    def covers(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a message lies between its cuts."""
        until = known_from(_at(self.cut, topic, partition))
        return until is not None and _at(self.since, topic, partition) <= offset < until

    def knew_nothing(self, topic: str, partition: int) -> bool:
        """Return whether no update says what came before it: all there is was shown."""
        return known_from(_at(self.since, topic, partition)) is None


def _at(offsets: Offsets, topic: str, partition: int) -> int:
    positions = offsets.get(topic, ())
    return positions[partition] if partition < len(positions) else 0


def lost_writes(
    acknowledged: Iterable[tuple[bytes, bytes]], told: Iterable[Told]
) -> list[tuple[bytes, bytes]]:
    """Return the acknowledged writes of which no event tells."""
    known: set[tuple[bytes, bytes | None]] = set()
    for each in told:
        if not each.deleted:
            known.add((each.row, each.value))
    return [
        (row, value)
        for row, value in acknowledged
        if (row, value) not in known and (row, None) not in known
    ]


def missed_rows(
    topic: str, told: Iterable[Told], notes: Sequence[Note]
) -> list[tuple[int, int, bytes]]:
    """Return partition, offset and row of each applied update that no run was shown.

    A first run is shown all there is, so it need not be shown a row that was deleted by then.
    So it is with a run that no update tells anything of what came before.

    Args:
        topic: of the table.
        told: what its events tell.
        notes: what the steps were shown.
    """
    deleted: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    events = list(told)
    for each in events:
        if each.deleted:
            deleted[each.partition, each.row].append(each.offset)
    showing: dict[bytes, list[Note]] = defaultdict(list)
    for note in notes:
        for row in note.rows:
            showing[row].append(note)
    found = []
    for each in events:
        place = (topic, each.partition, each.offset)
        if not each.applied or any(note.covers(*place) for note in showing[each.row]):
            continue
        gone = any(
            each.offset <= offset
            and note.covers(*place)
            and note.covers(topic, each.partition, offset)
            for note in notes
            if note.knew_nothing(topic, each.partition)
            for offset in deleted[each.partition, each.row]
        )
        if not gone:
            found.append((each.partition, each.offset, each.row))
    return found


def differing(
    expected: Mapping[bytes, bytes], found: Mapping[bytes, bytes]
) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """Return the rows whose values differ, with both."""
    rows = sorted(
        row for row in expected.keys() | found.keys() if expected.get(row) != found.get(row)
    )
    both = ((row, expected.get(row), found.get(row)) for row in sorted(rows))
    return [(row, one, other) for row, one, other in both if one != other]


@dataclass(frozen=True)
class Allowance:
    """How much something may grow: by this factor, and this much beside."""

    factor: float
    beside: float


MEMORY = Allowance(1.15, 24 * _MIB)
STATE = Allowance(1.3, 200)


@dataclass(frozen=True)
class Growth:
    """Medians of the first and the last quarter of a life after its warm-up."""

    first: float
    last: float
    seconds: float


def growth(samples: Sequence[tuple[float, float]]) -> Growth | None:
    """Return how something has grown, from its size at moments in seconds; None if too short."""
    if not samples:
        return None
    began, ended = samples[0][0], samples[-1][0]
    if ended - began < LEAST_SECONDS:
        return None
    warm = [size for at, size in samples if at - began >= WARM_SECONDS]
    quarter = max(1, len(warm) // 4)
    first, last = statistics.median(warm[:quarter]), statistics.median(warm[-quarter:])
    return Growth(first, last, ended - began)


def grew(found: Growth | None, allowance: Allowance) -> bool:
    """Return whether it has grown by more than it may."""
    if found is None:
        return False
    return found.last > found.first * allowance.factor + allowance.beside


def examples(found: Collection[object]) -> str:
    """Return how many there are, and the first few."""
    shown = ", ".join(str(each) for each in list(found)[:SHOWN])
    return f"{len(found)}: {shown}"
