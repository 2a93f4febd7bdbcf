"""From ended writes to batches: divided by partition, cut into pieces, halved where too large.

How a request is cut is a part of its pieces' identity, so nothing here may depend on more than the
request itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from headgate.events import VERSION, Gap, RequestPart, UpdateBatch, UpdateKind
from headgate.observer.publishing.ended import EndedWrite

# Kafka refuses messages above 1,000,000 bytes unless told otherwise on both sides. A piece must be
# cut in the same way by every version and configuration: its number is a part of its identity.
PIECE_BYTES: Final = 512 * 1024
MESSAGE_BYTES: Final = 768 * 1024
CELL_BYTES: Final = 24  # msgpack's own bytes for one cell's entries in all columns, at most
# After a crash it is not known where a request was cut; with numbers of their own its pieces may be
# counted twice, but not taken for others and dropped.
RECOVERED_PIECES: Final = 1 << 20
# The halves of piece n are 2 (this + n) and one more, theirs twice that: above all other numbers.
_DIVIDED_PIECES: Final = 1 << 30
_PUT: Final = int(UpdateKind.PUT)


class Draft:
    """A batch of one partition while it is filled."""

    __slots__ = ("columns", "kinds", "requests", "rows", "size", "timestamps", "values")

    def __init__(self) -> None:
        self.requests: list[RequestPart] = []
        self.kinds = bytearray()
        self.rows: list[bytes] = []
        self.columns: list[bytes] = []
        self.timestamps: list[int] = []
        self.values: list[bytes | None] = []
        self.size = 0


def by_partition(ended: EndedWrite, partitions: int) -> list[tuple[int, EndedWrite]]:
    """Return the request's cells by partition, each in their order in the request."""
    if partitions == 1:
        return [(0, ended)]
    rows = ended.rows
    if len(rows) == 1:
        return [(crc32(rows[0]) % partitions, ended)]
    numbers = [crc32(row) % partitions for row in rows]
    if numbers.count(numbers[0]) == len(numbers):
        return [(numbers[0], ended)]
    positions: list[list[int]] = [[] for _ in range(partitions)]
    for at, number in enumerate(numbers):
        positions[number].append(at)
    return [(n, _selected(ended, present)) for n, present in enumerate(positions) if present]


def _selected(ended: EndedWrite, positions: list[int]) -> EndedWrite:
    if len(positions) == 1:
        at = positions[0]
        return _sliced(ended, at, at + 1)
    pick = itemgetter(*positions)
    return EndedWrite(
        ended.intent,
        ended.method,
        ended.outcome,
        ended.received,
        ended.origin,
        bytes(pick(ended.kinds)),
        pick(ended.rows),
        pick(ended.columns),
        pick(ended.timestamps),
        pick(ended.values),
        ended.ambiguous,
    )


def _sliced(ended: EndedWrite, start: int, end: int) -> EndedWrite:
    return EndedWrite(
        ended.intent,
        ended.method,
        ended.outcome,
        ended.received,
        ended.origin,
        ended.kinds[start:end],
        ended.rows[start:end],
        ended.columns[start:end],
        ended.timestamps[start:end],
        ended.values[start:end],
        ended.ambiguous,
    )


def size_of(ended: EndedWrite) -> int:
    """Return how much of a message the cells take, at most."""
    if len(ended.rows) == 1:
        value = ended.values[0]
        size = len(ended.rows[0]) + len(ended.columns[0]) + CELL_BYTES
        return size if value is None else size + len(value)
    # Compiled, a list is summed up three times as fast as what ``map`` gives.
    size = sum([len(row) for row in ended.rows]) + sum([len(column) for column in ended.columns])
    size += sum([len(value) for value in ended.values if value is not None])
    return size + CELL_BYTES * len(ended.rows)


def pieces_of(ended: EndedWrite) -> list[tuple[EndedWrite, int]]:
    """Cut a request's cells of one partition so that each piece fits into a message.

    Only what the request itself holds counts: a value that came with the reply is not known after a
    crash, and must not move the cuts. Returned with each piece is its size in a message.
    """
    whole = size_of(ended)
    if whole <= PIECE_BYTES:
        return [(ended, whole)]
    pieces = []
    start = size = 0
    for at, row in enumerate(ended.rows):
        value = ended.values[at] if ended.kinds[at] == _PUT else None
        value_size = 0 if value is None or len(value) > PIECE_BYTES else len(value)
        cell = len(row) + len(ended.columns[at]) + value_size + CELL_BYTES
        if size + cell > PIECE_BYTES and at > start:
            pieces.append(_sliced(ended, start, at))
            start, size = at, 0
        size += cell
    pieces.append(_sliced(ended, start, len(ended.rows)))
    return [(piece, size_of(piece)) for piece in pieces]


def fill(draft: Draft, piece: EndedWrite, number: int, size: int, *, values: bool) -> None:
    """Add a piece, which has its number in its request and takes ``size`` bytes, to a draft."""
    unsure: tuple[int, ...] = ()
    kept: Sequence[bytes | None] = piece.values
    if piece.ambiguous:
        unsure = tuple(i for i, row in enumerate(piece.rows) if row in piece.ambiguous)
    if not values:
        kept = (None,) * len(piece.rows)
    elif size > PIECE_BYTES:
        large = {i for i, value in enumerate(kept) if value and len(value) > PIECE_BYTES}
        kept = [None if i in large else value for i, value in enumerate(kept)]
        unsure = tuple(sorted(large.union(unsure)))
    draft.requests.append(
        RequestPart(
            piece.intent,
            piece.method,
            piece.outcome,
            piece.received,
            len(piece.rows),
            number,
            piece.origin,
            unsure,
        )
    )
    draft.kinds += piece.kinds
    draft.rows += piece.rows
    draft.columns += piece.columns
    draft.timestamps += piece.timestamps
    draft.values += kept
    draft.size += size


def fill_put(
    draft: Draft,
    part: RequestPart,
    row: bytes,
    column: bytes,
    timestamp: int,
    value: bytes | None,
    size: int,
) -> None:
    """Add a request that puts one cell, which takes ``size`` bytes, to a draft."""
    draft.requests.append(part)
    draft.kinds.append(_PUT)
    draft.rows.append(row)
    draft.columns.append(column)
    draft.timestamps.append(timestamp)
    draft.values.append(value)
    draft.size += size


def batch_of(
    table: str, observer: str, epoch: int, sequence: int, watermark: int, draft: Draft
) -> UpdateBatch:
    """Return the batch that a draft has become."""
    return UpdateBatch(
        VERSION,
        observer,
        epoch,
        sequence,
        watermark,
        table,
        tuple(draft.requests),
        bytes(draft.kinds),
        tuple(draft.rows),
        tuple(draft.columns),
        tuple(draft.timestamps),
        tuple(draft.values),
    )


def smaller(
    batch: UpdateBatch, table: str
) -> list[tuple[UpdateBatch | Gap, tuple[RequestPart, ...]]]:
    """Return messages that say the same in less: halves; a cell without its value; a gap.

    Halves have the sequence of the whole, which readers take for no loss.
    """
    if len(batch.requests) > 1:
        middle = len(batch.requests) // 2
        cells = sum(part.cells for part in batch.requests[:middle])
        halves = (
            _cut(batch, batch.requests[:middle], 0, cells),
            _cut(batch, batch.requests[middle:], cells, len(batch.rows)),
        )
        return [(half, half.requests) for half in halves]
    (part,) = batch.requests
    if part.cells > 1:
        middle = part.cells // 2
        # As the nodes of a binary tree are numbered: no other piece has these numbers.
        first = 2 * (part.piece if part.piece >= _DIVIDED_PIECES else _DIVIDED_PIECES + part.piece)
        parts = (
            replace(
                part,
                cells=middle,
                piece=first,
                ambiguous=tuple(i for i in part.ambiguous if i < middle),
            ),
            replace(
                part,
                cells=part.cells - middle,
                piece=first + 1,
                ambiguous=tuple(i - middle for i in part.ambiguous if i >= middle),
            ),
        )
        return [
            (_cut(batch, (parts[0],), 0, middle), (parts[0],)),
            (_cut(batch, (parts[1],), middle, part.cells), (parts[1],)),
        ]
    if batch.values != (None,):
        part = replace(part, ambiguous=(0,))
        return [(replace(batch, values=(None,), requests=(part,)), (part,))]
    gap = Gap(
        VERSION,
        batch.observer,
        batch.epoch,
        batch.sequence,
        table,
        part.received,
        part.received,
        "a row and column are longer than the topic's max.message.bytes",
    )
    return [(gap, (part,))]


def _cut(
    batch: UpdateBatch, requests: tuple[RequestPart, ...], start: int, end: int
) -> UpdateBatch:
    return replace(
        batch,
        requests=requests,
        kinds=batch.kinds[start:end],
        rows=batch.rows[start:end],
        columns=batch.columns[start:end],
        timestamps=batch.timestamps[start:end],
        values=batch.values[start:end],
    )
