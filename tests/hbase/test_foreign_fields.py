"""Fields that a method's structs do not have, or not of that type, change nothing that is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.hbase import Dialect, Write, decode_request
from headgate.wire import Message, MessageReader

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


@pytest.mark.parametrize("place", ["before", "behind"])
def test_they_are_passed_over(case: Any, place: str) -> None:
    message = read(case.encoded)
    expected = told(message, case.dialect)
    tree = Parser(message.raw, message.body).value(STRUCT)
    head = message.raw[: message.body]
    assert head + written(STRUCT, tree) == message.raw
    tried = 0
    for depth, fields in list(structs(STRUCT, tree)):
        if case.dialect is Dialect.THRIFT2 and case.method in UNIONS and depth > 1:
            continue
        for field in list(foreign(fields)):
            at = 0 if place == "before" else len(fields)
            fields.insert(at, field)
            assert told(read(head + written(STRUCT, tree)), case.dialect) == expected, field
            del fields[at]
            tried += 1
    assert tried > len(FOREIGN)
