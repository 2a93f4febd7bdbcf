"""Updates that were delivered before, and messages that were never delivered.

An observer may publish a request twice (a delivery that timed out, a journal read after a crash).
Its identity in a partition is (observer, epoch, intent, piece); below the watermark everything is
a duplicate, so only what lies above it is remembered.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.events import RequestPart, UpdateBatch


class Source(Struct):
    """What one observer's epoch has published into one partition."""

    watermark: int = 0
    seen: set[tuple[int, int]] = set()
    """(intent, piece) at or above the watermark."""
    sequence: int | None = None
    """The sequence expected next; None before the first message."""

    def unseen(self, batch: UpdateBatch) -> list[int] | None:
        """Remember a batch's requests; return the positions of new ones, or None for all."""
        keys = [(request.intent, request.piece) for request in batch.requests]
        low = self.watermark
        new: list[int] | None = None
        if len(set(keys)) != len(keys) or not self.seen.isdisjoint(keys) or min(keys)[0] < low:
            new = []
            for i, key in enumerate(keys):
                if key[0] >= low and key not in self.seen:
                    self.seen.add(key)
                    new.append(i)
        else:
            self.seen.update(keys)
        if batch.watermark > low:
            self.watermark = batch.watermark
            self.seen = {key for key in self.seen if key[0] >= batch.watermark}
        return new

    def once(self, intent: int) -> bool:
        """Remember a change of the table; tell whether it is new."""
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
