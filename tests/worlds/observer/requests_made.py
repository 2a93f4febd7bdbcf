"""Requests by chance: such as clients send, valid variations of these, and damaged ones."""

from __future__ import annotations

import random
import struct
from typing import Any

from msgspec import Struct
from request_table import SERVICES

from headgate.events import ORIGIN_ATTRIBUTE, Origin, encode_origin
from headgate.hbase import METHODS, Dialect, Effect
from observer import trees
from observer.trees import LIST, MAP, SET, STRING, STRUCT, Field, Fields, Items, Pairs

_GONE = {"getRowOrBefore"}
"""HBase 2.6 has it no more, though clients know it."""
_CALLS = {
    dialect: tuple(sorted(set(service.thrift_services) & METHODS[dialect].keys() - _GONE))
    for dialect, service in SERVICES.items()
}
_WRITES = {
    dialect: tuple(
        method.name for method in METHODS[dialect].values() if method.effect is Effect.WRITE
    )
    for dialect in Dialect
}
_UNION = frozenset({"TMutation"})
"""Exactly one field is set, and no unknown one may stand beside it."""

_NEEDED = {
    "table", "row", "mutations", "columns", "column", "value", "ammount", "values", "columnValues",
    "family", "qualifier", "put", "deleteSingle",
}  # fmt: skip
"""What a request is not about anything without."""

_BINARY = 18
"""What thriftpy2 calls a string that is no text; on the wire they are the same."""
_DEEPEST = 6
_TABLES = (b"t", b"t", b"t", b"t", b"default:t", b"u", b"ns:t", b"")
_NAMES = (b"a", b"b", b"a:a", b"f", b"", b"q")
_COLUMNS = (b"f:a", b"f:b", b"f", b"f:", b"a:a:a", b"g:b", b"", b":", b"no colon")
_ORIGINS = (
    encode_origin(Origin("flow", "step", "run-7", 3)),
    b'{"writer": "loader"}',
    b'{"dataflow": "flow", "action": "step"}',
)
_NUMBERS = (0, 1, -1, 5, 1234, (1 << 63) - 1, -(1 << 63), 1 << 40)


class Made(Struct):
    """What a client sends on a connection, and whether it must never be refused."""

    dialect: Dialect
    protocol: str
    framed: bool
    segments: list[bytes]
    """What it sends for each request."""
    valid: bool

    @property
    def sent(self) -> bytes:
        """All of it."""
        return b"".join(self.segments)


class Maker:
    """Makes what clients send; the same seed makes the same."""

    def __init__(self, seed: int, *, writes: float = 0.85) -> None:
        """Begin; ``writes`` is the share of requests that are sure to be of methods that write."""
        self._choose = random.Random(seed)
        self._writes = writes
        self._bare = False
        """Whether a client sends nothing that it may leave out, as most do."""

    def make(self) -> Made:
        """Return what one connection's client sends."""
        choose = self._choose
        dialect = choose.choice(tuple(Dialect))
        protocol = choose.choice((trees.STRICT, trees.STRICT, trees.OLD, trees.COMPACT))
        framed = choose.random() < 0.5
        valid = choose.random() < 0.6
        self._bare = choose.random() < 0.3
        made = Made(dialect, protocol, framed, [], valid)
        # An unknown number of requests alike teaches the proxy their shape.
        arguments = self._arguments(dialect)
        for number in range(choose.choice((1, 1, 2, 5))):
            if choose.random() < 0.5:
                arguments = self._arguments(dialect)
            name, fields = arguments
            fields = self._varied(fields, name)
            made.segments.append(self._segment(made, name.encode(), number, fields))
        if not valid:
            self._damage(made)
        return made

    def _segment(self, made: Made, name: bytes, seqid: int, fields: Fields) -> bytes:
        kind = trees.CALL
        if not made.valid:
            fields = self._broken(fields)
            if self._choose.random() < 0.1:
                kind = self._choose.choice((trees.ONEWAY, trees.REPLY, 3, 0, 5, 7))
        message = trees.message(made.protocol, name, kind, seqid, fields)
        return struct.pack(">i", len(message)) + message if made.framed else message

    def _arguments(self, dialect: Dialect) -> tuple[str, Fields]:
        writes = self._choose.random() < self._writes
        name = self._choose.choice((_WRITES if writes else _CALLS)[dialect])
        return name, self._fields(getattr(SERVICES[dialect], f"{name}_args"), 0)

    # -- values such as clients send

    def _fields(self, kind: Any, depth: int) -> Fields:
        spec = kind.thrift_spec
        fields = []
        chosen = list(spec)
        if kind.__name__ in _UNION:
            chosen = [self._choose.choice(chosen)]
        for number in chosen:
            type_, name, *more = spec[number]
            type_ = type_of(type_)
            required = more[-1] or name in _NEEDED or kind.__name__ in _UNION or not depth
            if name == "attributes" or not required:
                if self._bare or depth > _DEEPEST or self._choose.random() < 0.6:
                    continue
            elif name == "timestamp" and self._choose.random() < 0.1:
                continue
            inner = more[0] if len(more) > 1 else None
            fields.append(Field(number, type_, self._value(type_, inner, name, depth)))
        if kind.__name__ == "TTableName":
            space, _, name = self._choose.choice(_TABLES).rpartition(b":")
            return [Field(1, STRING, space), Field(2, STRING, name)]
        if kind.__name__ == "TAppend" and "values" in {name for _, name, *_ in spec.values()}:
            # Thrift1's: HBase refuses other than a value for each column.
            columns, values = fields[2].value, fields[3].value
            values.values = [self._text("value") for _ in columns.values]
        return fields

    def _value(self, kind: int, inner: Any, name: str, depth: int) -> Any:
        choose = self._choose
        match kind:
            case 2:
                return choose.random() < 0.5
            case 3 | 6 | 8:
                return choose.choice((0, 1, 2, 3))
            case 10:
                return choose.choice(_NUMBERS)
            case 4:
                return choose.random()
            case 11:
                return self._text(name)
            case 12:
                return self._fields(inner, depth + 1)
            case 13:
                keys, values = inner
                count = choose.choice((0, 1, 2))
                pairs = [
                    (self._one(keys, name, depth), self._one(values, name, depth))
                    for _ in range(count)
                ]
                if name == "attributes" and choose.random() < 0.3:
                    pairs.append((ORIGIN_ATTRIBUTE, choose.choice(_ORIGINS)))
                return Pairs(type_of(keys), type_of(values), pairs)
            case _:
                many = (0, 1, 1, 2, 3, 17 if depth < 2 else 2)
                count = choose.choice((1, 1, 2) if self._bare else many)
                return Items(type_of(inner), [self._one(inner, name, depth) for _ in range(count)])

    def _one(self, inner: Any, name: str, depth: int) -> Any:
        kind, deeper = inner if isinstance(inner, tuple) else (inner, None)
        return self._value(type_of(kind), deeper, name, depth)

    def _text(self, name: str) -> bytes:
        choose = self._choose
        if name in {"tableName", "table"}:
            return choose.choice(_TABLES)
        if name in {"column", "columns"}:
            return choose.choice(_COLUMNS)
        if name in {"family", "qualifier"}:
            return choose.choice(_NAMES)
        return choose.randbytes(choose.choice((0, 1, 1, 3, 8, 40)))

    # -- variations that any reader of Thrift takes

    def _varied(self, fields: Fields, name: str) -> Fields:
        if self._choose.random() < 0.4:
            return fields
        return self._other_order(fields, union=False)

    def _other_order(self, fields: Fields, *, union: bool) -> Fields:
        choose = self._choose
        found = [Field(f.id, f.type, self._inside(f.type, f.value)) for f in fields]
        if union or _is_mutation(found):
            return found
        if choose.random() < 0.5:
            choose.shuffle(found)
        if choose.random() < 0.3:
            kind = choose.choice((2, 3, 4, 6, 8, 10, STRING, STRUCT, MAP, SET, LIST))
            unknown = Field(choose.choice((77, 300, -5, 32_000)), kind, self._anything(kind, 0))
            found.insert(choose.randrange(len(found) + 1), unknown)
        return found

    def _inside(self, kind: int, value: Any) -> Any:
        if kind == STRUCT:
            return self._other_order(value, union=False)
        if kind in {LIST, SET} and value.type == STRUCT:
            return Items(STRUCT, [self._other_order(one, union=False) for one in value.values])
        return value

    def _anything(self, kind: int, depth: int) -> Any:
        choose = self._choose
        simple = (2, 3, 4, 6, 8, 10, STRING)
        inner = simple if depth > 2 else (*simple, STRUCT, LIST)
        if kind == STRUCT:
            count = choose.randrange(3)
            kinds = [choose.choice(inner) for _ in range(count)]
            return [Field(n + 1, k, self._anything(k, depth + 1)) for n, k in enumerate(kinds)]
        if kind in {LIST, SET}:
            one = choose.choice(inner)
            return Items(one, [self._anything(one, depth + 1) for _ in range(choose.randrange(3))])
        if kind == MAP:
            key, one = choose.choice(simple), choose.choice(inner)
            count = choose.randrange(3)
            return Pairs(
                key,
                one,
                [
                    (self._anything(key, depth + 1), self._anything(one, depth + 1))
                    for _ in range(count)
                ],
            )
        return self._value(kind, None, "unknown", 0)

    # -- damage

    def _broken(self, fields: Fields) -> Fields:
        """Break a request where two readers may differ."""
        choose = self._choose
        found = list(fields)
        match choose.randrange(7):
            case 0 if found:
                twice = choose.choice(found)
                kind = twice.type
                other = Field(twice.id, kind, self._like(kind, twice.value))
                found.insert(choose.randrange(len(found) + 1), other)
            case 1 if found:
                at = choose.randrange(len(found))
                kind = choose.choice((2, 3, 6, 8, 10, STRING, STRUCT, LIST))
                found[at] = Field(found[at].id, kind, self._anything(kind, 0))
            case 2:
                deep: Any = b"x"
                kind = STRING
                for _ in range(choose.choice((10, 40, 62, 64, 70, 90))):
                    deep, kind = [Field(1, kind, deep)], STRUCT
                found.insert(choose.randrange(len(found) + 1), Field(99, kind, deep))
            case 3 if found:
                found.pop(choose.randrange(len(found)))
            case 4 if found:
                at = choose.randrange(len(found))
                found[at] = Field(found[at].id, found[at].type, self._inner_broken(found[at]))
            case _:
                pass
        return found

    def _inner_broken(self, field: Field) -> Any:
        if field.type == STRUCT:
            return self._broken(field.value)
        if field.type == LIST and field.value.type == STRUCT and field.value.values:
            values = list(field.value.values)
            at = self._choose.randrange(len(values))
            values[at] = self._broken(values[at])
            return Items(STRUCT, values)
        return field.value

    def _like(self, kind: int, value: Any) -> Any:
        if kind == STRING:
            return self._choose.choice((*_TABLES, b"other"))
        if kind in {STRUCT, LIST, SET, MAP}:
            return value
        return self._value(kind, None, "unknown", 0)

    def _damage(self, made: Made) -> None:
        """Damage bytes, frames or their number."""
        choose = self._choose
        at = choose.randrange(len(made.segments))
        one = bytearray(made.segments[at])
        match choose.randrange(8):
            case 0 if made.framed and len(made.segments) > 1:
                # Two messages in one frame.
                both = b"".join(segment[4:] for segment in made.segments)
                made.segments[:] = [struct.pack(">i", len(both)) + both]
                return
            case 1 if made.framed:
                one += choose.randbytes(choose.randrange(1, 9))
                one[:4] = struct.pack(">i", len(one) - 4)
            case 2 if made.framed:
                del one[choose.randrange(4, len(one)) :]
                one[:4] = struct.pack(">i", len(one) - 4)
            case 3:
                one[choose.randrange(len(one))] ^= 1 << choose.randrange(8)
            case 4:
                start = choose.randrange(len(one))
                one[start : start + 4] = struct.pack(
                    ">I", choose.getrandbits(choose.choice((4, 8, 31)))
                )
            case 5:
                start = choose.randrange(len(one))
                del one[start : start + choose.randrange(1, 9)]
            case _:
                return
        made.segments[at] = bytes(one)


def type_of(inner: Any) -> int:
    """Return the type on the wire of what a definition holds."""
    kind = inner[0] if isinstance(inner, tuple) else inner
    return STRING if kind == _BINARY else int(kind)


def _is_mutation(fields: Fields) -> bool:
    """Return whether these may be a union's: one struct field alone."""
    return len(fields) == 1 and fields[0].type == STRUCT
