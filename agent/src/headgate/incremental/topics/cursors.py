"""How far a topic was read, and what of it a run reads next.

How far is, by partition, the offset of the next message, with the topic's id: a topic that was
deleted and made again begins its offsets anew. What was not read and is not there any more is never
passed over silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from headgate.engine import OnGap, TopicSpec

_NAMED: Final = 3
"""Gaps that an error names."""


class LostMessages(Exception):
    """Messages of a topic that are gone and were not read; nothing of the run counts."""


class TopicCursor(Struct, frozen=True, tag="topic"):
    """How far a topic was read."""

    topic: str
    id: str
    """By which Kafka tells it from others of its name, before and after it."""
    offsets: dict[int, int] = {}
    """By partition, of the next message."""


class Extent(Struct, frozen=True):
    """The messages of a partition, from ``start`` to before ``stop``."""

    start: int
    stop: int


class TopicExtent(Struct, frozen=True):
    """What a topic has at one time: messages of transactions that are not over come later."""

    topic: str
    id: str
    partitions: dict[int, Extent]


class Unread(Struct, frozen=True):
    """What a run reads of a topic."""

    partitions: dict[int, Extent]
    """Those of which something has come."""
    after: TopicCursor
    gaps: tuple[str, ...] = ()
    """In words, what is gone that was not read."""

    @property
    def offsets(self) -> int:
        """How many offsets that are; messages are fewer where some were compacted or undone."""
        return sum(each.stop - each.start for each in self.partitions.values())


def topic_cursor(cursor: bytes) -> TopicCursor | None:
    """Return how far a topic was read; None where the cursor is that of something else."""
    try:
        return msgspec.msgpack.decode(cursor, type=TopicCursor)
    except msgspec.ValidationError:
        return None


def unread_of(cursor: TopicCursor | None, there: TopicExtent) -> Unread:
    """Return what has come to a topic since it was read, and what was lost.

    Args:
        cursor: how far it was read before; None to read all that there is.
        there: what it has now.
    """
    gaps: tuple[str, ...] = ()
    after = TopicCursor(there.topic, there.id, {n: at.stop for n, at in there.partitions.items()})
    if cursor is None or cursor.id != there.id:
        if cursor is not None:
            gaps = (_made_again(cursor, there),)
        return Unread(_filled(there.partitions), after, gaps)
    found: dict[int, Extent] = {}
    for number, at in there.partitions.items():
        # A partition that is new is read from its start, which is 0.
        start = cursor.offsets.get(number, 0)
        gaps += tuple(_gaps(number, start, at))
        found[number] = Extent(start if at.start <= start <= at.stop else at.start, at.stop)
    for number in cursor.offsets.keys() - there.partitions.keys():
        gaps += (f"partition {number}, read to offset {cursor.offsets[number]}, is gone",)
    return Unread(_filled(found), after, gaps)


def _filled(partitions: dict[int, Extent]) -> dict[int, Extent]:
    return {number: at for number, at in partitions.items() if at.start < at.stop}


def _made_again(cursor: TopicCursor, there: TopicExtent) -> str:
    read = ", ".join(f"{number} to {at}" for number, at in sorted(cursor.offsets.items()))
    return (
        f"it was deleted and made again, with other messages (its id was {cursor.id} and is "
        f"{there.id}; partitions were read to offsets: {read or 'none'})"
    )


def _gaps(partition: int, start: int, at: Extent) -> Iterator[str]:
    if start < at.start:
        yield (
            f"partition {partition} was read to offset {start} and begins at {at.start}: "
            f"{at.start - start} offsets have expired"
        )
    elif start > at.stop:
        yield (
            f"partition {partition} was read to offset {start} and ends at {at.stop}: it was cut "
            "off, or made again"
        )


_REBUILD: Final = "headgate stage rebuild DATAFLOW ACTION --with-sources"
"""The command, where the stage is not named."""


def check_gaps(flow: str, spec: TopicSpec, gaps: Sequence[str], rebuild: str = _REBUILD) -> str:
    """Return what is to be said of messages that are gone; empty where none are.

    Args:
        flow: that is read.
        spec: of its topic.
        gaps: messages that are gone, in words.
        rebuild: the command by which the stage is rebuilt.

    Raises:
        LostMessages: some are, and the dataflow file does not say to go on.
    """
    if not gaps:
        return ""
    more = f" and {len(gaps) - _NAMED} more such" if len(gaps) > _NAMED else ""
    words = (
        f"input flow `{flow}`, topic {spec.topic}: messages are gone that were not read: "
        f"{'; '.join(gaps[:_NAMED])}{more}"
    )
    if spec.on_gap is OnGap.CONTINUE:
        return f"{words}. What is there is read, by `on_gap: continue`"
    message = (
        f"{words}. Have the stage rebuilt from what is there (`{rebuild}`), or write "
        "`on_gap: continue` at the topic to keep the state and go on without them; and have Kafka "
        "keep messages for longer than the stage may stand still (`retention.ms`)"
    )
    raise LostMessages(message)
