"""What a request may have done, by the reply it got (design: "Outcome").

Taken from the behaviour of HBase 2.6.1's Thrift servers, not from the methods' names:

- without an error: as the method's ``ResultKind`` says
- whatever the reply: a request without cells, or only with puts that the server ignores: NOTHING
- flag false: NOTHING, the check failed
- Thrift1 increment and incrementRows without an error: UNKNOWN, since a coalescing server answers
  before it writes, and nothing in the reply says whether it coalesces
- IllegalArgument for puts only or deletes only: NOTHING, it is thrown while the call is being built
- IllegalArgument for puts and deletes: UNKNOWN, the first of the two calls may have been made
- unknown method, protocol error: NOTHING, the handler was never called
- any other error, or no reply: UNKNOWN, HBase may have written all of it, some or none
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from headgate.events import UpdateKind
from headgate.hbase.decoding.thrift2_puts import read_column_value
from headgate.hbase.methods import Dialect, Method, ResultKind, method_of
from headgate.hbase.requests import Cells, SchemaChange, Write
from headgate.wire import (
    BOOL,
    I32,
    I64,
    LIST,
    STRING,
    STRUCT,
    ApplicationError,
    Cursor,
    MalformedMessage,
    Message,
    MessageType,
    ProtocolError,
    to_binary,
)


class Verdict(Enum):
    """What is known of a request's effect."""

    APPLIED = "applied"
    NOTHING = "nothing"
    """Certainly none: there is nothing to publish."""
    UNKNOWN = "unknown"
    """All, some or none of it."""


class Judgement(Struct, frozen=True):
    """A verdict, with the cells as they are now where the reply says so.

    Attributes:
        cells: the request's cells; increments and appends carry the value after them, or remain
            deltas where the reply has none. Those of ``Write.others`` stay as they are. Empty for a
            schema change.
        reason: why it is not known, in words; empty otherwise.
    """

    verdict: Verdict
    cells: Cells
    reason: str = ""


_REPLY: Final = MessageType.REPLY
_STOP: Final = b"\x00"
_BEFORE_ANY_EFFECT = frozenset(
    {
        ApplicationError.UNKNOWN_METHOD,
        ApplicationError.INVALID_MESSAGE_TYPE,
        ApplicationError.PROTOCOL_ERROR,
    }
)


def judge(dialect: Dialect, request: Write | SchemaChange, reply: Message | None) -> Judgement:
    """Return what a request has done.

    Args:
        dialect: the service that was asked.
        request: what was asked for.
        reply: the server's answer; None when the connection broke after the request was sent.
    """
    cells = Cells.empty()
    if isinstance(request, Write):
        cells = request.cells
        if not cells.kinds and not request.others:
            return Judgement(Verdict.NOTHING, cells)
    if reply is None:
        return Judgement(Verdict.UNKNOWN, cells, "the connection broke before the reply")
    method = method_of(dialect, request.method)
    if method.result is ResultKind.DONE and is_void(reply):
        return Judgement(Verdict.APPLIED, cells)
    try:
        return _judge(method, request, cells, to_binary(reply))
    except ProtocolError as error:
        return Judgement(Verdict.UNKNOWN, cells, f"a reply that makes no sense: {error}")


def is_void(reply: Message) -> bool:
    """Return whether a reply holds nothing, in any protocol: mostly that is all to be read."""
    body = reply.body
    return reply.type is _REPLY and reply.raw[body : body + 1] == _STOP


def _judge(
    method: Method, request: Write | SchemaChange, cells: Cells, reply: Message
) -> Judgement:
    cursor = Cursor(reply.raw, reply.body)
    if reply.type is MessageType.EXCEPTION:
        return _judge_exception(cursor, cells)
    if reply.type is not MessageType.REPLY:
        raise MalformedMessage(f"a message of type {reply.type.name} in the place of a reply")
    judgement: Judgement | None = None
    while kind := cursor.next_field():
        if cursor.field_id == 0:
            judgement = _judge_success(method, kind, cursor, cells)
        elif cursor.field_id == method.illegal_argument and kind == STRUCT:
            text = _read_text(cursor)
            if isinstance(request, Write) and _calls(request) == 1:
                return Judgement(Verdict.NOTHING, cells)
            return Judgement(Verdict.UNKNOWN, cells, text)
        elif kind == STRUCT:
            return Judgement(Verdict.UNKNOWN, cells, _read_text(cursor))
        else:
            cursor.skip(kind)
    if judgement is not None:
        return judgement
    if method.result is ResultKind.QUEUED:
        reason = "the server may answer before it writes (coalesced increments)"
        return Judgement(Verdict.UNKNOWN, cells, reason)
    if method.result is not ResultKind.DONE:
        raise MalformedMessage(f"a result of {method.name} without a value")
    return Judgement(Verdict.APPLIED, cells)


def _calls(request: Write) -> int:
    """Return how many kinds of calls a request makes the server make: puts, deletes or both."""
    deletes = any(request.cells.kinds)
    return int(deletes) + int(not deletes or UpdateKind.PUT in request.cells.kinds)


def _judge_exception(cursor: Cursor, cells: Cells) -> Judgement:
    text = ""
    error = int(ApplicationError.UNKNOWN)
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            text = cursor.binary().decode("utf-8", "backslashreplace")
        elif cursor.field_id == 2 and kind == I32:
            error = cursor.i32()
        else:
            cursor.skip(kind)
    if error in _BEFORE_ANY_EFFECT:
        return Judgement(Verdict.NOTHING, cells)
    return Judgement(Verdict.UNKNOWN, cells, text or f"a Thrift exception of type {error}")


def _judge_success(method: Method, kind: int, cursor: Cursor, cells: Cells) -> Judgement:
    result = method.result
    if result is ResultKind.FLAG and kind == BOOL:
        return Judgement(Verdict.APPLIED if cursor.bool() else Verdict.NOTHING, cells)
    if result is ResultKind.COUNTER and kind == I64:
        counter = cursor.i64().to_bytes(8, "big", signed=True)
        return Judgement(Verdict.APPLIED, _counted(cells, counter))
    if result is ResultKind.CELLS and kind == LIST:
        return Judgement(Verdict.APPLIED, _appended(cells, _read_cells(cursor)))
    if result is ResultKind.RESULT and kind == STRUCT:
        return Judgement(Verdict.APPLIED, _merged(cells, _read_result(cursor)))
    if result is ResultKind.UNDONE and kind == LIST:
        _, count = cursor.list_head()
        if count:
            return Judgement(Verdict.UNKNOWN, cells, f"{count} deletes were not done")
        return Judgement(Verdict.APPLIED, cells)
    raise MalformedMessage(f"a result of {method.name} with a value of type {kind}")


def _counted(cells: Cells, counter: bytes) -> Cells:
    return Cells(
        bytearray([UpdateKind.INCREMENT]),
        cells.rows,
        cells.columns,
        cells.timestamps,
        [counter],
        cells.ttls,
    )


def _appended(cells: Cells, found: list[tuple[bytes, int]]) -> Cells:
    """Give each cell its place in the reply, which holds one cell per column, sorted by column."""
    columns = sorted(set(cells.columns), key=_family_and_qualifier)
    if len(columns) != len(found):
        return cells
    return _merged(cells, dict(zip(columns, found, strict=True)))


def _family_and_qualifier(column: bytes) -> tuple[bytes, bytes]:
    family, _, qualifier = column.partition(b":")
    return family, qualifier


_KNOWN = {
    UpdateKind.INCREMENT_DELTA: UpdateKind.INCREMENT,
    UpdateKind.APPEND_DELTA: UpdateKind.APPEND,
}


def _merged(cells: Cells, found: dict[bytes, tuple[bytes, int]]) -> Cells:
    """Return the cells with value and timestamp of those columns that the reply has."""
    kinds = bytearray(cells.kinds)
    timestamps = list(cells.timestamps)
    values = list(cells.values)
    for i, column in enumerate(cells.columns):
        if column in found:
            kinds[i] = _KNOWN[UpdateKind(kinds[i])]
            values[i], timestamps[i] = found[column]
    return Cells(kinds, cells.rows, cells.columns, timestamps, values, cells.ttls)


def _read_cells(cursor: Cursor) -> list[tuple[bytes, int]]:
    """Return value and timestamp of each of Thrift1's ``TCell``."""
    count = cursor.count_structs("TCell")
    cells: list[tuple[bytes, int]] = []
    for _ in range(count):
        value = b""
        timestamp = -1
        while kind := cursor.next_field():
            if cursor.field_id == 1 and kind == STRING:
                value = cursor.binary()
            elif cursor.field_id == 2 and kind == I64:
                timestamp = cursor.i64()
            else:
                cursor.skip(kind)
        cells.append((value, timestamp))
    return cells


def _read_result(cursor: Cursor) -> dict[bytes, tuple[bytes, int]]:
    """Return value and timestamp by column of Thrift2's ``TResult``."""
    found: dict[bytes, tuple[bytes, int]] = {}
    while kind := cursor.next_field():
        if cursor.field_id != 2 or kind != LIST:
            cursor.skip(kind)
            continue
        count = cursor.count_structs("TColumnValue")
        for _ in range(count):
            column, value, timestamp = read_column_value(cursor)
            found[column] = (value, -1 if timestamp is None else timestamp)
    return found


def _read_text(cursor: Cursor) -> str:
    """Return the message of an exception of HBase's: field 1 in all of them."""
    text = ""
    while kind := cursor.next_field():
        if cursor.field_id == 1 and kind == STRING:
            text = cursor.binary().decode("utf-8", "backslashreplace")
        else:
            cursor.skip(kind)
    return text or "an error without a message"
