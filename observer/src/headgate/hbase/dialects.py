"""Which of HBase's two services a request is meant for."""

from __future__ import annotations

from typing import Final

from headgate.hbase.methods import METHODS, Dialect
from headgate.wire import STRING, STRUCT, Cursor, Message, to_binary

_ABSENT: Final = 0
_ARGUMENTS: Final = {
    # method of both services: a field, and its type in Thrift1 and in Thrift2
    "get": (2, STRING, STRUCT),
    "mutateRow": (2, STRING, STRUCT),
    "increment": (1, STRUCT, STRING),
    "append": (1, STRUCT, STRING),
    "createTable": (1, STRING, STRUCT),
    "enableTable": (1, STRING, STRUCT),
    "disableTable": (1, STRING, STRUCT),
    "deleteTable": (1, STRING, STRUCT),
    "isTableEnabled": (1, STRING, STRUCT),
    "checkAndPut": (4, _ABSENT, STRING),
}


def dialect_of(message: Message) -> Dialect | None:
    """Return the only service that a request can be meant for; None: it may be either or neither.

    Raises:
        ProtocolError: its arguments make no sense.
    """
    services = [dialect for dialect in Dialect if message.name in METHODS[dialect]]
    if len(services) == 1:
        return services[0]
    distinctive = _ARGUMENTS.get(message.name)
    if distinctive is None:
        return None
    field, one, two = distinctive
    message = to_binary(message)
    cursor = Cursor(message.raw, message.body)
    while kind := cursor.next_field():
        if cursor.field_id == field:
            return {one: Dialect.THRIFT1, two: Dialect.THRIFT2}.get(kind)
        cursor.skip(kind)
    return Dialect.THRIFT1 if one == _ABSENT else None
