"""What is to be published of a write that has ended."""

from __future__ import annotations

from typing import Final

from headgate.events import Origin, Outcome, UpdateKind
from headgate.hbase import Cells, Judgement, Verdict, Write
from headgate.observer.publishing.ended import EndedWrite

_NONE: Final[frozenset[bytes]] = frozenset()
_INCREMENT_DELTA: Final = int(UpdateKind.INCREMENT_DELTA)
_ZERO: Final = bytes(8)
OUTCOMES: Final = {Verdict.APPLIED: Outcome.APPLIED, Verdict.UNKNOWN: Outcome.UNKNOWN}
"""What an event says of a judgement that makes one."""


def ended_writes(
    intent: int,
    received: float,
    decoded: Write,
    judgement: Judgement,
    origin: Origin | None = None,
) -> list[tuple[str, EndedWrite]]:
    """Return what is to be published of a write, by table; the reply's values are in it.

    ``origin`` is who wrote, where the request itself does not say.
    """
    return [
        (part.table, ended_write(intent, received, decoded, part, judgement, origin))
        for part in (decoded, *decoded.others)
    ]


def ended_write(
    intent: int,
    received: float,
    decoded: Write,
    part: Write,
    judgement: Judgement,
    origin: Origin | None,
) -> EndedWrite:
    """Return what is to be published of one part of a write; see ``ended_writes``."""
    columns = judgement.cells if part is decoded else part.cells
    rows = columns.rows
    ambiguous = frozenset(rows[i] for i in part.ambiguous) if part.ambiguous else _NONE
    zeros = b""
    if _INCREMENT_DELTA in part.cells.kinds:
        zeros = _zero_increments(part.cells)
        if zeros:
            ambiguous = ambiguous.union(_perhaps_new(columns, zeros))
    return EndedWrite(
        intent,
        decoded.method,
        OUTCOMES[judgement.verdict],
        received,
        decoded.writer(origin),
        columns.kinds,
        rows,
        columns.columns,
        columns.timestamps,
        columns.values,
        ambiguous,
        columns.every_ttl(),
        zeros,
    )


def _zero_increments(asked: Cells) -> bytes:
    """Return 1 for each cell that is incremented by 0, else 0; nothing where none is."""
    amounts = zip(asked.kinds, asked.values, strict=True)
    zeros = bytes([kind == _INCREMENT_DELTA and amount == _ZERO for kind, amount in amounts])
    return zeros if any(zeros) else b""


def _perhaps_new(answered: Cells, zeros: bytes) -> set[bytes]:
    """Return the rows in which an increment by 0 may have made a cell.

    Where the counter is not 0 it was there before, with that value.
    """
    return {
        row
        for row, kind, counter, zero in zip(
            answered.rows, answered.kinds, answered.values, zeros, strict=True
        )
        if zero and (kind == _INCREMENT_DELTA or counter == _ZERO)
    }
