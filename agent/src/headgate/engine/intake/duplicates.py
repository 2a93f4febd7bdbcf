"""Updates that were delivered before, and messages that were never delivered.

An observer may publish a request twice (a delivery that timed out, a journal read after a crash).
Its identity in a partition is (observer, epoch, intent, piece); below the watermark everything is
a duplicate, so only what lies above it is remembered. Observers come and go and begin new epochs
for ever: of those not heard for longest nothing is remembered any more, and what they publish again
counts twice.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
)
from itertools import zip_longest
from operator import attrgetter, itemgetter

from msgspec import Struct

from headgate.engine.protocol.stimuli import RecordArrived
from headgate.events import Cut, RequestPart, TableChange, UpdateBatch, UpdateMessage

_EPOCHS = 4
"""Epochs of an observer that are remembered in a partition: the one that lives, and those that it
may still publish from its journal."""
_OBSERVERS = 64
"""Observers' epochs that are remembered in a partition: several times those that live at a time."""


class Deliveries:
    """What was delivered so far: positions in the topics, and what each observer has published."""

    def __init__(self) -> None:
        self.positions: dict[str, list[int]] = {}
        self._sources: dict[str, dict[tuple[int, str, int], Source]] = {}
        """By topic, with which new ones are compared, and by partition, observer and epoch."""

    @property
    def sources(self) -> Iterator[tuple[str, int, str, int, Source]]:
        """Topic, partition, observer and epoch of each source, and what is known of it."""
        for topic, sources in self._sources.items():
            for who, source in sources.items():
                yield (topic, *who, source)

    def restore(self, sources: Iterable[tuple[str, int, str, int, Source]]) -> None:
        """Know what ``sources`` gave, and no more."""
        self._sources = {}
        for topic, partition, observer, epoch, source in sources:
            self._sources.setdefault(topic, {})[partition, observer, epoch] = source

    @property
    def cut(self) -> Cut:
        """Where each topic is to be read on."""
        return Cut({topic: tuple(p) for topic, p in sorted(self.positions.items())})

    def part(self, topics: Iterable[str]) -> Cut:
        """Return where some topics are to be read on."""
        return Cut({t: tuple(self.positions[t]) for t in topics if t in self.positions})

    def open(self, positions: Cut) -> None:
        """Begin to read topics; one that was read before stands where it did, or later."""
        for topic, given in positions.offsets.items():
            known = self.positions.get(topic, ())
            self.positions[topic] = [
                max(0, *both) for both in zip_longest(given, known, fillvalue=0)
            ]

    def close(self, topics: Collection[str]) -> None:
        """Forget topics that are read no more: who reads one again begins anew."""
        for topic in topics:
            self.positions.pop(topic, None)
            self._sources.pop(topic, None)

    def first(self, record: RecordArrived) -> bool:
        """Go past the record; return whether it was not read before."""
        positions = self.positions.setdefault(record.topic, [])
        positions.extend([0] * (record.partition + 1 - len(positions)))
        if record.offset < positions[record.partition]:
            return False
        positions[record.partition] = record.offset + 1
        return True

    def reset(self, topic: str, partition: int) -> None:
        """Take whatever comes next of a partition, whatever its offset."""
        positions = self.positions.setdefault(topic, [])
        positions.extend([0] * (partition + 1 - len(positions)))
        positions[partition] = 0

    def _source(self, record: RecordArrived) -> Source:
        message = record.message
        sources = self._sources.get(record.topic)
        if sources is None:
            sources = self._sources[record.topic] = {}
        identity = (record.partition, message.observer, message.epoch)
        source = sources.get(identity)
        if source is None:
            source = Source(sequence=0 if _began_since(sources, identity) else None)
            sources[identity] = source
            _forget_others(sources, identity)
        source.heard = record.offset
        return source

    def follows(self, record: RecordArrived) -> bool:
        """Return whether no message of the record's observer is missing before it."""
        message = record.message
        positions = self.positions.get(record.topic, ())
        if record.partition < len(positions) and record.offset < positions[record.partition]:
            return True  # read before
        if isinstance(message, UpdateBatch) and message.recovered:
            return True
        expected = self._source(record).sequence
        return expected is None or message.sequence <= expected

    def missed(self, record: RecordArrived) -> int:
        """Return how many messages of the record's observer are missing before it."""
        message = record.message
        if isinstance(message, UpdateBatch) and message.recovered:
            return 0
        return self._source(record).missed(message.sequence)

    def unseen(self, record: RecordArrived) -> UpdateMessage | None:
        """Return the message without what was published before; None if nothing is left."""
        message = record.message
        if isinstance(message, UpdateBatch):
            if not message.requests:
                return None
            new = self._source(record).unseen(message)
            if new is None:
                return message
            return only(message, new) if new else None
        if isinstance(message, TableChange) and not self._source(record).once(message.intent):
            return None
        return message


_KEY: Callable[[RequestPart], tuple[int, int]] = attrgetter("intent", "piece")


class Source(Struct):
    """What one observer's epoch has published into one partition."""

    watermark: int = 0
    seen: set[tuple[int, int]] = set()
    """(intent, piece) at or above the watermark."""
    sequence: int | None = None
    """The sequence expected next; None before the first message."""
    heard: int = 0
    """Offset of its last message."""

    def unseen(self, batch: UpdateBatch) -> list[int] | None:
        """Remember a batch's requests; return the positions of new ones, or None for all."""
        if len(batch.requests) == 1:
            return self._unseen_one(batch)
        keys = list(map(_KEY, batch.requests))
        low = self.watermark
        new: list[int] | None = None
        distinct = set(keys)
        first = min(keys)[0]
        if len(distinct) != len(keys) or first < low or not self.seen.isdisjoint(distinct):
            new = []
            for i, key in enumerate(keys):
                if key[0] >= low and key not in self.seen:
                    self.seen.add(key)
                    new.append(i)
            distinct = set()
        if batch.watermark > low:
            self.watermark = batch.watermark
            self.seen = set(filter((batch.watermark,).__le__, self.seen))
            if first < batch.watermark:
                distinct = set(filter((batch.watermark,).__le__, distinct))
        self.seen |= distinct
        return new

    def _unseen_one(self, batch: UpdateBatch) -> list[int] | None:
        key = _KEY(batch.requests[0])
        new = key[0] >= self.watermark and key not in self.seen
        if batch.watermark > self.watermark:
            self.watermark = batch.watermark
            if self.seen:
                self.seen = set(filter((batch.watermark,).__le__, self.seen))
        if new and key[0] >= self.watermark:
            self.seen.add(key)
        return None if new else []

    def once(self, intent: int) -> bool:
        """Remember a change of the table; return whether it is new."""
        key = (intent, 0)
        if intent < self.watermark or key in self.seen:
            return False
        self.seen.add(key)
        return True

    def missed(self, sequence: int) -> int:
        """Take the sequence of a message; return how many messages are missing before it."""
        expected = self.sequence
        if expected is not None and sequence < expected:
            return 0  # published again
        self.sequence = sequence + 1
        return 0 if expected is None else sequence - expected


def _began_since(
    sources: Mapping[tuple[int, str, int], Source], identity: tuple[int, str, int]
) -> bool:
    """Return whether the epoch began after its topic was read: then none of it may be missing."""
    _, observer, epoch = identity
    return any(
        known[1] == observer and known[2] < epoch and source.sequence is not None
        for known, source in sources.items()
    )


def _forget_others(
    sources: MutableMapping[tuple[int, str, int], Source], newest: tuple[int, str, int]
) -> None:
    """Forget epochs that ended long ago, and observers that were not heard for longest."""
    there = [known for known in sources if known[0] == newest[0]]
    same = sorted((known for known in there if known[1] == newest[1]), key=itemgetter(2))
    gone = set(same[:-_EPOCHS])
    rest = [known for known in there if known not in gone and known != newest]
    rest.sort(key=lambda known: sources[known].heard)
    gone.update(rest[: max(0, len(rest) + 1 - _OBSERVERS)])
    for known in gone:
        del sources[known]


def only(batch: UpdateBatch, positions: list[int]) -> UpdateBatch:
    """Return the batch with only the requests at these positions."""
    starts = [0]
    for request in batch.requests:
        starts.append(starts[-1] + request.cells)
    cells = [i for position in positions for i in range(starts[position], starts[position + 1])]
    requests: list[RequestPart] = [batch.requests[position] for position in positions]
    return UpdateBatch(
        version=batch.version,
        observer=batch.observer,
        epoch=batch.epoch,
        sequence=batch.sequence,
        watermark=batch.watermark,
        table=batch.table,
        requests=tuple(requests),
        kinds=bytes(batch.kinds[i] for i in cells),
        rows=tuple(batch.rows[i] for i in cells),
        columns=tuple(batch.columns[i] for i in cells),
        timestamps=tuple(batch.timestamps[i] for i in cells),
        values=tuple(batch.values[i] for i in cells),
        recovered=batch.recovered,
    )
