"""What a journalled request of an earlier epoch may have done."""

from __future__ import annotations

from msgspec import Struct

from headgate.events import Outcome
from headgate.hbase import SchemaChange, Verdict, decode_request, judge
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite
from headgate.observer.recording.ended_writes import ended_writes
from headgate.observer.recording.recorder import DIALECTS
from headgate.observer.recording.segments import Intent
from headgate.wire import Limits, MessageReader, ProtocolError


class UnreadableIntent(Struct, frozen=True):
    """A journalled request that cannot be decoded: only its table and time are known."""

    intent: int
    table: str
    received: float
    reason: str


def recovered(
    intent: Intent,
) -> list[tuple[str, EndedWrite | EndedSchemaChange]] | UnreadableIntent:
    """Return what a journalled request may have done, by table, with outcome unknown.

    What can have done nothing, whatever HBase made of it, is left out.
    """
    reader = MessageReader(Limits(max_frame=1 << 31, max_string=1 << 31, max_container=1 << 31))
    dialect = DIALECTS[intent.dialect]
    try:
        reader.feed(intent.request)
        message = reader.next_message()
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
