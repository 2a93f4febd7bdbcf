"""From ended writes to batches: divided by partition, cut into pieces, halved where too large.

How a request is cut is a part of its pieces' identity, so nothing here may depend on more than the
request itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from operator import itemgetter
from typing import Final, final
from zlib import crc32

from msgspec.structs import replace

from headgate.events import NO_TTL, VERSION, Gap, RequestPart, UpdateBatch, UpdateKind
from headgate.observer.publishing.ended import EndedWrite

# Kafka refuses messages above 1,000,000 bytes unless both sides allow more. A piece must be
# cut in the same way by every version and configuration: its number is a part of its identity.
PIECE_BYTES: Final = 512 * 1024
MESSAGE_BYTES: Final = 768 * 1024
CELL_BYTES: Final = 24  # msgpack's own bytes for one cell's entries in all columns, at most
PART_BYTES: Final = 48  # of a message for what it says of one request beside its cells, about
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
        pick(ended.ttls) if ended.ttls else (),
        bytes(pick(ended.zero_increments)) if ended.zero_increments else b"",
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
        ended.ttls[start:end],
        ended.zero_increments[start:end],
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
    pieces = _Pieces(ended)
    return [(piece, size) for piece, _, size in (*pieces.take(ended), *pieces.rest())]


def _cell_sizes(ended: EndedWrite) -> list[int]:
    """Return of each cell what it takes of a piece."""
    return [
        len(row)
        + len(column)
        + CELL_BYTES
        + (0 if kind != _PUT or value is None or len(value) > PIECE_BYTES else len(value))
        for kind, row, column, value in zip(
            ended.kinds, ended.rows, ended.columns, ended.values, strict=True
        )
    ]


Piece = tuple[EndedWrite, int, int]
"""With its number in its request and partition, and its size in a message."""


@final
class _Pieces:
    """A request's cells of one partition, cut into pieces as they come."""

    __slots__ = (
        "_columns",
        "_kinds",
        "_number",
        "_of",
        "_rows",
        "_size",
        "_stamps",
        "_ttls",
        "_values",
        "_zeros",
    )

    def __init__(self, ended: EndedWrite) -> None:
        self._of = ended
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._kinds = bytearray()
        self._rows: list[bytes] = []
        self._columns: list[bytes] = []
        self._stamps: list[int] = []
        self._values: list[bytes | None] = []
        self._ttls: list[int] = []
        self._zeros = bytearray()
        self._size = 0

    def take(self, part: EndedWrite) -> list[Piece]:
        """Add the next cells; return the pieces that are whole now."""
        whole: list[Piece] = []
        start = 0
        size = self._size
        sizes = _cell_sizes(part)
        if size + sum(sizes) > PIECE_BYTES:
            for at, cell in enumerate(sizes):
                if size and size + cell > PIECE_BYTES:
                    self._add(part, start, at)
                    whole += self.rest()
                    start, size = at, 0
                size += cell
        else:
            size += sum(sizes)
        self._add(part, start, len(sizes))
        self._size = size
        return whole

    def _add(self, part: EndedWrite, start: int, end: int) -> None:
        self._kinds += part.kinds[start:end]
        self._rows += part.rows[start:end]
        self._columns += part.columns[start:end]
        self._stamps += part.timestamps[start:end]
        self._values += part.values[start:end]
        self._ttls += part.ttls[start:end]
        self._zeros += part.zero_increments[start:end]

    def rest(self) -> list[Piece]:
        """Return the piece that was begun last: nothing more is in it."""
        of = self._of
        piece = EndedWrite(
            of.intent,
            of.method,
            of.outcome,
            of.received,
            of.origin,
            self._kinds,
            self._rows,
            self._columns,
            self._stamps,
            self._values,
            of.ambiguous,
            self._ttls,
            self._zeros,
        )
        found = (piece, self._number, size_of(piece))
        self._number += 1
        self._begin()
        return [found]


@final
class Division:
    """A large request's cells, divided by partition and cut into pieces in as many parts as asked.

    The pieces are those of ``by_partition`` and ``pieces_of``.
    """

    __slots__ = ("_at", "_ended", "_open", "_partitions")

    def __init__(self, ended: EndedWrite, partitions: int) -> None:
        """Stand before the first cell."""
        self._ended = ended
        self._partitions = partitions
        self._at = 0
        self._open: dict[int, _Pieces] = {}

    @property
    def left(self) -> int:
        """How many cells are not divided yet."""
        return len(self._ended.rows) - self._at

    @property
    def done(self) -> bool:
        """Whether all are, and every piece was returned."""
        return not self.left and not self._open

    def go_on(self, cells: int) -> list[tuple[int, Piece]]:
        """Divide so many cells; return the pieces that are whole now, and their partitions.

        Once all cells are divided, the last piece of one partition is returned at a time.
        """
        ended = self._ended
        if not self.left:
            partition = next(iter(self._open))
            return [(partition, piece) for piece in self._open.pop(partition).rest()]
        found: list[tuple[int, Piece]] = []
        behind = min(self._at + cells, len(ended.rows))
        chunk = _sliced(ended, self._at, behind)
        for partition, part in by_partition(chunk, self._partitions):
            pieces = self._open.get(partition)
            if pieces is None:
                pieces = self._open[partition] = _Pieces(ended)
            found += [(partition, piece) for piece in pieces.take(part)]
        self._at = behind
        return found


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
            _short(piece.ttls) if piece.ttls else (),
            tuple(compress(count(), piece.zero_increments)) if piece.zero_increments else (),
        )
    )
    draft.kinds += piece.kinds
    draft.rows += piece.rows
    draft.columns += piece.columns
    draft.timestamps += piece.timestamps
    draft.values += kept
    draft.size += size + PART_BYTES


def _short(ttls: Sequence[int]) -> tuple[int, ...]:
    """Return times to live as ``RequestPart`` has them."""
    different = set(ttls)
    if len(different) > 1:
        return tuple(ttls)
    return () if different == {NO_TTL} else tuple(different)


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
    draft.size += size + PART_BYTES


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
                ttls=part.ttls[:middle],
                zero_increments=tuple(i for i in part.zero_increments if i < middle),
            ),
            replace(
                part,
                cells=part.cells - middle,
                piece=first + 1,
                ambiguous=tuple(i - middle for i in part.ambiguous if i >= middle),
                ttls=part.ttls if len(part.ttls) == 1 else part.ttls[middle:],
                zero_increments=tuple(i - middle for i in part.zero_increments if i >= middle),
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
