"""Updates made of what a scan found, with identities that a second scan of the same gives again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

from headgate.agent.ports import Found
from headgate.agent.scans.stream_window import SCANNED
from headgate.client import Cell
from headgate.events import VERSION, Outcome, RequestPart, UpdateBatch, UpdateKind, partition_of

SCANNER = "scanner"
"""``observer`` of found updates, whichever agent scanned. Its epoch is always 0: what two agents
find differs by what it is, not by who found it."""

_CELLS = 1_000
"""Most cells of a message."""
_BYTES = 256 * 1024
"""Bytes of keys and values after which a message ends, and which a part of it has at most; Kafka's
default limit is 1 MB. A value that is larger is left out, and read by whoever needs it."""


def found_updates(
    table: str, cells: Iterable[Cell], partitions: int, watermark: int
) -> Iterator[Found]:
    """Yield messages: the cells of a row are one part, puts with the table's own timestamps.

    A row that is too large for one message is several parts, which count as several updates.

    Args:
        table: where they were found.
        cells: by row.
        partitions: of the table's topic.
        watermark: a time in milliseconds before which nothing more will be found.
    """
    drafts: dict[int, list[list[Cell]]] = {}
    sizes: dict[int, list[int]] = {}
    for row, group in groupby(cells, lambda cell: cell.row):
        partition = partition_of(row, partitions)
        for found in _portions(group):
            draft, size = drafts.setdefault(partition, []), sizes.setdefault(partition, [0, 0])
            draft.append(found)
            size[0] += len(found)
            size[1] += sum(map(_size, found))
            if size[0] >= _CELLS or size[1] >= _BYTES:
                yield Found(partition, _batch(table, draft, watermark))
                del drafts[partition], sizes[partition]
    for partition, draft in drafts.items():
        yield Found(partition, _batch(table, draft, watermark))


def _portions(row: Iterable[Cell]) -> Iterator[list[Cell]]:
    """Yield the cells of a row, as many at once as a message holds."""
    portion: list[Cell] = []
    size = 0
    for cell in row:
        added = _size(cell)
        if portion and (len(portion) >= _CELLS or size + added > _BYTES):
            yield portion
            portion, size = [], 0
        portion.append(cell)
        size += added
    yield portion


def _size(cell: Cell) -> int:
    value = len(cell.value)
    return len(cell.row) + len(cell.column) + (value if value <= _BYTES else 0)


def _batch(table: str, rows: list[list[Cell]], watermark: int) -> UpdateBatch:
    cells = [cell for row in rows for cell in row]
    return UpdateBatch(
        version=VERSION,
        observer=SCANNER,
        epoch=0,
        sequence=0,
        watermark=watermark,
        table=table,
        requests=tuple(_part(row) for row in rows),
        kinds=bytes([UpdateKind.PUT]) * len(cells),
        rows=tuple(cell.row for cell in cells),
        columns=tuple(cell.column for cell in cells),
        timestamps=tuple(cell.timestamp for cell in cells),
        values=tuple(cell.value if len(cell.value) <= _BYTES else None for cell in cells),
        # There is no sequence over all agents that may find something.
        recovered=True,
    )


def _part(cells: list[Cell]) -> RequestPart:
    newest = max(cell.timestamp for cell in cells)
    digest = hashlib.blake2b(digest_size=8)
    for cell in cells:
        for part in (cell.row, cell.column, b"%d" % cell.timestamp, cell.value):
            digest.update(b"%d:" % len(part) + part)
    piece = int.from_bytes(digest.digest(), "big") >> 1  # a signed 64-bit number, in all readers
    return RequestPart(newest, SCANNED, Outcome.APPLIED, newest / 1000, len(cells), piece)
