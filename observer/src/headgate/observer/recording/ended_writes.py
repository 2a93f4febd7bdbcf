"""What is to be published of a write that has ended."""

from __future__ import annotations

from typing import Final

from headgate.events import Origin, Outcome
from headgate.hbase import Judgement, Verdict, Write
from headgate.observer.publishing.ended import EndedWrite

_NONE: Final[frozenset[bytes]] = frozenset()
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
        frozenset(rows[i] for i in part.ambiguous) if part.ambiguous else _NONE,
    )
