"""HBase's Thrift server without HBase: what each request does, by the service's definition."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from headgate.events import ORIGIN_ATTRIBUTE
from headgate.hbase import METHODS, Dialect, Effect
from observer import trees
from observer.generated_readers import Call, last, mapping, structs, texts
from observer.trees import BOOL, I64, STRING, STRUCT, Field, Fields, Items


class Done(Struct, frozen=True):
    """One cell that HBase changed, or a row of which it changed something (no column)."""

    table: str
    row: bytes
    column: bytes | None = None
    value: bytes | None = None
    origin: bytes | None = None
    """What the part of the request says of who wrote it."""


class Refused(Exception):
    """HBase answers with an exception, and has done nothing."""


def effects(dialect: Dialect, call: Call) -> list[Done] | None:
    """Return what HBase does when it executes a request; None where it refuses it."""
    name = call.name.decode("latin-1")
    known = (_ONE if dialect is Dialect.THRIFT1 else _TWO).get(name)
    try:
        return list(known(call.fields)) if known is not None else []
    except Refused:
        return None


def _table(value: bytes | None) -> str:
    if value is None:
        raise Refused
    return value.removeprefix(b"default:").decode("utf-8", "backslashreplace")


def _given(value: Any) -> Any:
    if value is None:
        raise Refused
    return value


# -- the first service

_Effects = Callable[[Fields], Iterator[Done]]


def _mutation(table: str, row: bytes, one: Fields, origin: bytes | None) -> Iterator[Done]:
    column, value = _given(last(one, 2, STRING)), last(one, 3, STRING, b"")
    if last(one, 1, BOOL, otherwise=False):
        yield Done(table, row, origin=origin)
    elif b":" in column:
        # HBase answers a put without a qualifier with success, and does nothing.
        yield Done(table, row, column, value, origin)


def _row_changed(attributes: int) -> _Effects:
    def changed(fields: Fields) -> Iterator[Done]:
        table, row = _table(last(fields, 1, STRING)), _given(last(fields, 2, STRING))
        origin = mapping(fields, attributes).get(ORIGIN_ATTRIBUTE)
        for one in _given(structs(fields, 3)):
            yield from _mutation(table, row, one, origin)

    return changed


def _rows_changed(attributes: int) -> _Effects:
    def changed(fields: Fields) -> Iterator[Done]:
        table = _table(last(fields, 1, STRING))
        origin = mapping(fields, attributes).get(ORIGIN_ATTRIBUTE)
        for batch in _given(structs(fields, 2)):
            row = _given(last(batch, 1, STRING))
            for one in _given(structs(batch, 2)):
                yield from _mutation(table, row, one, origin)

    return changed


def _row_alone(attributes: int) -> _Effects:
    def changed(fields: Fields) -> Iterator[Done]:
        origin = mapping(fields, attributes).get(ORIGIN_ATTRIBUTE)
        row = _given(last(fields, 2, STRING))
        yield Done(_table(last(fields, 1, STRING)), row, origin=origin)

    return changed


def _incremented_at_once(fields: Fields) -> Iterator[Done]:
    _given(last(fields, 3, STRING))
    yield Done(_table(last(fields, 1, STRING)), _given(last(fields, 2, STRING)))


def _incremented(one: Fields) -> Iterator[Done]:
    if b":" not in _given(last(one, 3, STRING)):
        # HBase passes over what names no qualifier.
        return
    yield Done(_table(last(one, 1, STRING)), _given(last(one, 2, STRING)))


def _one_increment(fields: Fields) -> Iterator[Done]:
    yield from _incremented(_given(last(fields, 1, STRUCT)))


def _increments(fields: Fields) -> Iterator[Done]:
    for one in _given(structs(fields, 1)):
        yield from _incremented(one)


def _appended(fields: Fields) -> Iterator[Done]:
    one = _given(last(fields, 1, STRUCT))
    columns = _given(texts(one, 3))
    if any(b":" not in column for column in columns):
        raise Refused
    if columns:
        yield Done(_table(last(one, 1, STRING)), _given(last(one, 2, STRING)))


def _checked_put(fields: Fields) -> Iterator[Done]:
    # HBase does not look at isDelete here.
    one = _given(last(fields, 6, STRUCT))
    origin = mapping(fields, 7).get(ORIGIN_ATTRIBUTE)
    table, row = _table(last(fields, 1, STRING)), _given(last(fields, 2, STRING))
    column, value = _given(last(one, 2, STRING)), last(one, 3, STRING, b"")
    if b":" in column:
        yield Done(table, row, column, value, origin)


_ONE: dict[str, _Effects] = {
    "mutateRow": _row_changed(4),
    "mutateRowTs": _row_changed(5),
    "mutateRows": _rows_changed(3),
    "mutateRowsTs": _rows_changed(4),
    "deleteAll": _row_alone(4),
    "deleteAllTs": _row_alone(5),
    "deleteAllRow": _row_alone(3),
    "deleteAllRowTs": _row_alone(4),
    "atomicIncrement": _incremented_at_once,
    "increment": _one_increment,
    "incrementRows": _increments,
    "append": _appended,
    "checkAndPut": _checked_put,
}

# -- the second service


def _put(table: str, one: Fields, row: bytes | None = None) -> Iterator[Done]:
    row = _given(last(one, 1, STRING)) if row is None else row
    origin = mapping(one, 5).get(ORIGIN_ATTRIBUTE)
    for cell in _given(structs(one, 2)):
        column = _given(last(cell, 1, STRING)) + b":" + _given(last(cell, 2, STRING))
        yield Done(table, row, column, _given(last(cell, 3, STRING)), origin)


def _whole(table: str, one: Fields, attributes: int) -> Iterator[Done]:
    origin = mapping(one, attributes).get(ORIGIN_ATTRIBUTE)
    yield Done(table, _given(last(one, 1, STRING)), origin=origin)


def _with_table(each: Callable[[str, Fields], Iterator[Done]], at: int = 2) -> _Effects:
    def changed(fields: Fields) -> Iterator[Done]:
        yield from each(_table(last(fields, 1, STRING)), _given(last(fields, at, STRUCT)))

    return changed


def _many(each: Callable[[str, Fields], Iterator[Done]]) -> _Effects:
    def changed(fields: Fields) -> Iterator[Done]:
        table = _table(last(fields, 1, STRING))
        for one in _given(structs(fields, 2)):
            yield from each(table, one)

    return changed


def _deleted(table: str, one: Fields) -> Iterator[Done]:
    return _whole(table, one, 6)


def _counted(table: str, one: Fields) -> Iterator[Done]:
    if _given(structs(one, 2)):
        yield from _whole(table, one, 4)


def _extended(table: str, one: Fields) -> Iterator[Done]:
    if _given(structs(one, 2)):
        yield from _whole(table, one, 3)


def _row_mutated(table: str, one: Fields) -> Iterator[Done]:
    _given(last(one, 1, STRING))
    for mutation in _given(structs(one, 2)):
        put, delete = last(mutation, 1, STRUCT), last(mutation, 2, STRUCT)
        if put is not None:
            yield from _put(table, put)
        elif delete is not None:
            yield from _deleted(table, delete)
        else:
            raise Refused


_TWO: dict[str, _Effects] = {
    "put": _with_table(_put),
    "putMultiple": _many(_put),
    "checkAndPut": _with_table(_put, 6),
    "deleteSingle": _with_table(_deleted),
    "deleteMultiple": _many(_deleted),
    "checkAndDelete": _with_table(_deleted, 6),
    "increment": _with_table(_counted),
    "append": _with_table(_extended),
    "mutateRow": _with_table(_row_mutated),
    "checkAndMutate": _with_table(_row_mutated, 7),
}

WRITES = {Dialect.THRIFT1: frozenset(_ONE), Dialect.THRIFT2: frozenset(_TWO)}
"""Methods that change cells."""
_CONDITIONAL = frozenset({"checkAndPut", "checkAndDelete", "checkAndMutate"})


def answer(
    dialect: Dialect, call: Call, done: list[Done] | None, chance: random.Random
) -> tuple[bytes, list[Done]]:
    """Return HBase's reply to a request, and what of ``done`` it has done: chance decides.

    ``done`` are the request's effects, None where it is refused.
    """
    name = call.name.decode("latin-1")
    method = METHODS[dialect].get(name)
    if method is None:
        return _reply(call, 3, [Field(1, STRING, b"Invalid method name"), Field(2, 8, 1)]), []
    if done is None:
        return _reply(call, 3, [Field(1, STRING, b"missing"), Field(2, 8, 6)]), []
    luck = chance.random()
    if luck < 0.1:
        # An error does not say whether something was done.
        error = [Field(1, STRUCT, [Field(1, STRING, b"NotServingRegionException: r\0")])]
        return _reply(call, trees.REPLY, error), done if luck < 0.03 else []
    if name in _CONDITIONAL:
        held = luck < 0.6
        return _reply(call, trees.REPLY, [Field(0, BOOL, held)]), done if held else []
    if method.effect is Effect.READ:
        return _reply(call, trees.REPLY, [Field(0, *_stored(dialect, call, chance))]), []
    result = _result(dialect, name, call, chance)
    return _reply(call, trees.REPLY, [] if result is None else [Field(0, *result)]), done


def _result(dialect: Dialect, name: str, call: Call, chance: random.Random) -> Any:
    if name == "atomicIncrement":
        return I64, chance.randrange(1 << 40)
    if dialect is Dialect.THRIFT1:
        cells = texts(last(call.fields, 1, STRUCT, []), 3) or []
        one = [Field(1, STRING, b"after"), Field(2, I64, 5)]
        return (trees.LIST, Items(STRUCT, [one for _ in cells])) if name == "append" else None
    if name == "deleteMultiple":
        return trees.LIST, Items(STRUCT, [])
    if name not in {"increment", "append"}:
        return None
    given = last(call.fields, 2, STRUCT, [])
    if not last(given, 7 if name == "increment" else 6, BOOL, otherwise=True):
        return STRUCT, [Field(2, trees.LIST, Items(STRUCT, []))]
    cells = [
        [
            Field(1, STRING, last(one, 1, STRING, b"")),
            Field(2, STRING, last(one, 2, STRING, b"")),
            Field(3, STRING, struct.pack(">q", chance.randrange(100))),
        ]
        for one in structs(given, 2) or []
    ]
    row = Field(1, STRING, last(given, 1, STRING, b""))
    return STRUCT, [row, Field(2, trees.LIST, Items(STRUCT, cells))]


def _stored(dialect: Dialect, call: Call, chance: random.Random) -> tuple[int, Any]:
    """Return a value as somebody stored it who knows what replies look like."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice([b"mutateRow", b"put", b"mutateRows", call.name])
        number = chance.choice((0, 1, 2, call.number, call.number + 1))
        forged = trees.message(_spoken(call), name, trees.REPLY, number, [])
        parts += [chance.randbytes(chance.randrange(30)), forged]
    value = b"".join(parts) + b"\0" * chance.choice((0, 1, 5))
    if dialect is Dialect.THRIFT1:
        return trees.LIST, Items(STRUCT, [[Field(1, STRING, value), Field(2, I64, 1)]])
    cell = [Field(1, STRING, b"f"), Field(2, STRING, b"q"), Field(3, STRING, value)]
    return STRUCT, [Field(1, STRING, b"r"), Field(2, trees.LIST, Items(STRUCT, [cell]))]


def _reply(call: Call, kind: int, fields: Fields) -> bytes:
    data = trees.message(_spoken(call), call.name, kind, call.number, fields)
    return struct.pack(">i", len(data)) + data if call.framed else data


def _spoken(call: Call) -> str:
    """Return what HBase answers in: it reads both forms of the binary protocol, and writes one."""
    return trees.COMPACT if call.protocol == trees.COMPACT else trees.STRICT
