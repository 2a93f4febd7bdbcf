"""What a journalled request of an earlier epoch may have done."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from headgate.events import Outcome
from headgate.hbase import (
    Pattern,
    Patterns,
    SchemaChange,
    Verdict,
    decode_request,
    judge,
    read_request,
)
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite
from headgate.observer.recording.ended_writes import ended_writes
from headgate.observer.recording.recorder import DIALECTS
from headgate.observer.recording.segments import Intent
from headgate.wire import Limits, Message, MessageReader, ProtocolError

_LIMITS: Final = Limits(max_frame=1 << 31, max_string=1 << 31, max_container=1 << 31)


class UnreadableIntent(Struct, frozen=True):
    """A journalled request that cannot be decoded: only its table and time are known."""

    intent: int
    table: str
    received: float
    reason: str


class KnownPuts:
    """Journalled puts of one cell that are like earlier ones: understood without being read."""

    def __init__(self) -> None:
        """Know no kinds yet."""
        self._patterns = tuple(Patterns(dialect) for dialect in DIALECTS)

    def find(self, intent: Intent) -> tuple[Pattern, tuple[bytes, bytes, bytes]] | None:
        """Return the kind of a put, and its row, column and value; None: it must be read."""
        pattern = self._patterns[intent.dialect].find(intent.request)
        if pattern is None or not pattern.writes:
            return None
        cell = pattern.cell(intent.request)
        return None if cell is None else (pattern, cell)

    def learn(self, intent: Intent) -> None:
        """Remember the kind of a request that was read, if it is short and came before."""
        if len(intent.request) > Patterns.LONGEST:
            return
        message = _message_of(intent)
        if message is not None:
            dialect = DIALECTS[intent.dialect]
            self._patterns[intent.dialect].consider(read_request(dialect, message))


def _message_of(intent: Intent) -> Message | None:
    reader = MessageReader(_LIMITS)
    reader.feed(intent.request)
    return reader.next_message()


def recovered(
    intent: Intent,
) -> list[tuple[str, EndedWrite | EndedSchemaChange]] | UnreadableIntent:
    """Return what a journalled request may have done, by table, with outcome unknown.

    What can have done nothing, whatever HBase made of it, is left out.
    """
    dialect = DIALECTS[intent.dialect]
    try:
        message = _message_of(intent)
        if message is None:
            return UnreadableIntent(
                intent.number, intent.table, intent.received, "it is incomplete"
            )
        decoded = decode_request(dialect, message)
    except (ProtocolError, ValueError) as error:
        return UnreadableIntent(intent.number, intent.table, intent.received, str(error))
    judgement = judge(dialect, decoded, None)
    if isinstance(decoded, SchemaChange):
        ended = EndedSchemaChange(
            intent.number, decoded.kind, Outcome.UNKNOWN, intent.received, decoded.family
        )
        return [(decoded.table, ended)]
    if judgement.verdict is Verdict.NOTHING:
        return []
    writes = ended_writes(intent.number, intent.received, decoded, judgement)
    return [(table, write) for table, write in writes if write.rows]
