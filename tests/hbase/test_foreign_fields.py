"""Fields that a method's structs do not have, or not of that type, change nothing that is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.hbase import (
    Dialect,
    ResultKind,
    Write,
    decode_request,
    judge,
    method_of,
    with_notify,
)
from headgate.wire import ApplicationError, Message, MessageReader, write_exception

BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = (
    2,
    3,
    4,
    6,
    8,
    10,
    11,
    12,
    13,
    14,
    15,
)
FIXED = {BOOL: 1, BYTE: 1, DOUBLE: 8, I16: 2, I32: 4, I64: 8}
UNKNOWN_FIELD = 77
FOREIGN: dict[int, Any] = {
    BOOL: b"\1",
    I32: struct.pack(">i", 5),
    I64: struct.pack(">q", 5),
    STRING: b"x:y",
    STRUCT: [],
    MAP: (STRING, STRING, [(b"x", b"y")]),
    LIST: (STRUCT, [[], []]),
}
"""A value of each type, which would be seen if it were taken for one that counts."""
UNIONS = {"mutateRow", "checkAndMutate"}
"""Methods of Thrift2 whose TMutation is a union: HBase reads one field and then a stop."""


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


class Parser:
    """Binary Thrift as lists of fields: type, number, value."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def value(self, kind: int) -> Any:
        if kind in FIXED:
            return self._take(FIXED[kind])
        if kind == STRING:
            return self._take(self._number(">i", 4))
        if kind == STRUCT:
            return list(self._fields())
        if kind == MAP:
            key, value, count = self._take(1)[0], self._take(1)[0], self._number(">i", 4)
            return key, value, [(self.value(key), self.value(value)) for _ in range(count)]
        element, count = self._take(1)[0], self._number(">i", 4)
        return element, [self.value(element) for _ in range(count)]

    def _fields(self) -> Iterator[tuple[int, int, Any]]:
        while kind := self._take(1)[0]:
            number = self._number(">h", 2)
            yield kind, number, self.value(kind)

    def _number(self, form: str, width: int) -> int:
        return int(struct.unpack(form, self._take(width))[0])

    def _take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]


def written(kind: int, value: Any) -> bytes:
    if kind in FIXED:
        return bytes(value)
    if kind == STRING:
        return struct.pack(">i", len(value)) + value
    if kind == STRUCT:
        fields = (struct.pack(">bh", k, number) + written(k, each) for k, number, each in value)
        return b"".join(fields) + b"\0"
    if kind == MAP:
        key, item, pairs = value
        parts = (written(key, one) + written(item, other) for one, other in pairs)
        return struct.pack(">bbi", key, item, len(pairs)) + b"".join(parts)
    element, items = value
    parts = (written(element, each) for each in items)
    return struct.pack(">bi", element, len(items)) + b"".join(parts)


def structs(kind: int, value: Any, *, depth: int = 0) -> Iterator[tuple[int, list[Any]]]:
    """Every struct inside a value, the outermost first, with its depth."""
    if kind == STRUCT:
        yield depth, value
        for inner, _, each in value:
            yield from structs(inner, each, depth=depth + 1)
    elif kind in (LIST, SET):
        for each in value[1]:
            yield from structs(value[0], each, depth=depth)


def foreign(fields: list[Any]) -> Iterator[tuple[int, int, Any]]:
    """Fields that the struct may get: unknown ones, and its own numbers with other types."""
    for kind, value in FOREIGN.items():
        yield kind, UNKNOWN_FIELD, value
        for own, number, _ in list(fields):
            if own != kind:
                yield kind, number, value


def told(message: Message, dialect: Dialect) -> list[Any]:
    write = decode_request(dialect, message)
    assert isinstance(write, Write)
    cells = write.cells
    columns = (cells.kinds, cells.rows, cells.columns, cells.timestamps, cells.values)
    rows = list(zip(*columns, strict=True))
    return [write.table, rows, write.origins, write.ambiguous, [o.table for o in write.others]]


def with_foreign(message: Message, place: str) -> Iterator[tuple[int, tuple[int, int], Message]]:
    """Yield the message with one foreign field, with its struct's depth, its type and number."""
    tree = Parser(message.raw, message.body).value(STRUCT)
    head = message.raw[: message.body]
    assert head + written(STRUCT, tree) == message.raw
    for depth, fields in list(structs(STRUCT, tree)):
        for field in list(foreign(fields)):
            at = 0 if place == "before" else len(fields)
            fields.insert(at, field)
            yield depth, field[:2], read(head + written(STRUCT, tree))
            del fields[at]


def requests_with_foreign(case: Any, place: str) -> Iterator[Message]:
    """Yield the case's request with foreign fields wherever HBase passes over them."""
    union = case.dialect is Dialect.THRIFT2 and case.method in UNIONS
    for depth, _, message in with_foreign(read(case.encoded), place):
        if depth <= 1 or not union:
            yield message


@pytest.mark.parametrize("place", ["before", "behind"])
def test_they_are_passed_over(case: Any, place: str) -> None:
    expected = told(read(case.encoded), case.dialect)
    tried = 0
    for message in requests_with_foreign(case, place):
        assert told(message, case.dialect) == expected
        tried += 1
    assert tried > len(FOREIGN)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_notify_cells_are_put_beside_them(case: Any, place: str) -> None:
    cells = ((b"at", b"now"),)

    def marked(message: Message) -> list[Any] | None:
        found = with_notify(case.dialect, message, cells)
        return None if found is None else told(found, case.dialect)

    expected = marked(read(case.encoded))
    assert all(marked(each) == expected for each in requests_with_foreign(case, place))


def answered(case: Any, encoder: Any) -> dict[str, Any]:
    """Return the result of a method that did what was asked."""
    match method_of(case.dialect, case.method).result:
        case ResultKind.RESULT:
            cell = encoder.two.TColumnValue(family=b"f", qualifier=b"a", value=b"v", timestamp=3)
            return {"success": encoder.two.TResult(row=b"r", columnValues=[cell])}
        case ResultKind.CELLS:
            return {"success": [encoder.one.TCell(value=b"v", timestamp=3) for _ in case.cells]}
        case ResultKind.FLAG:
            return {"success": True}
        case ResultKind.COUNTER:
            return {"success": 5}
        case ResultKind.UNDONE:
            return {"success": []}
    return {}


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("kind", ["answer", "error", "exception"])
def test_a_reply_with_them_says_the_same(case: Any, encoder: Any, place: str, kind: str) -> None:
    asked = read(case.encoded)
    request = decode_request(case.dialect, asked)
    if kind == "exception":
        data = write_exception(asked, ApplicationError.INTERNAL_ERROR, "said so")
    elif kind == "error":
        services = encoder.one if case.dialect is Dialect.THRIFT1 else encoder.two
        error = (services.IOError if services is encoder.one else services.TIOError)("said so")
        data = encoder.reply(case.dialect, case.method, io=error)
    else:
        data = encoder.reply(case.dialect, case.method, **answered(case, encoder))
    expected = judge(case.dialect, request, read(data))
    tried = 0
    for depth, (own, number), reply in with_foreign(read(data), place):
        # Of a result's fields each struct is an error, and 0 is what the method answers.
        if kind != "exception" and depth == 0 and (own == STRUCT or number == 0):
            continue
        assert judge(case.dialect, request, reply) == expected, (depth, own, number)
        tried += 1
    assert tried >= len(FOREIGN) - 1
