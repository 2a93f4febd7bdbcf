"""Arguments of the methods that change no cells: what in them is read by what it is declared to be.

HBase's generated readers skip a field that they do not know, or of another type, by its own type;
but the elements of a container that they know they read as what the service declares, whatever the
container says of itself. Where the two differ, HBase goes on reading in the middle of something
else. The same happens behind a struct in the arguments that lacks a field which it must have: HBase
answers with an error and takes what is left of the arguments for the next request. So all
containers that the methods know are here, the fields that structs must have, and the structs around
them; other fields are passed over by their types, as HBase does or could do.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from headgate.hbase.decoding.fields import once
from headgate.hbase.methods import METHODS, Dialect, Effect, TableIn
from headgate.wire import I64, LIST, MAP, SET, STRING, STRUCT, Cursor, MalformedMessage


class Value(Struct, frozen=True):
    """What a field, or an element of a container, is declared to be.

    Attributes:
        kind: its type.
        parts: of a container: what its elements are, or its keys and values.
        fields: of a struct: those of its fields that matter.
        required: of a struct: the ids of the fields that it must have.
        name: of a struct that must have some.
    """

    kind: int
    parts: tuple[Value, ...] = ()
    fields: dict[int, Value] | None = None
    required: tuple[int, ...] = ()
    name: str = ""


Fields = dict[int, Value]


def _struct(fields: Fields, name: str = "", *required: int) -> Value:
    return Value(STRUCT, (), fields, required, name)


def _list(element: Value) -> Value:
    return Value(LIST, (element,))


_TEXT: Final = Value(STRING)
_TEXTS: Final = _list(_TEXT)
_TEXT_MAP: Final = Value(MAP, (_TEXT, _TEXT))
_ANY_STRUCT: Final = _struct({})
_STRUCTS: Final = _list(_ANY_STRUCT)

# Thrift1: lists of rows and columns, and the attributes that most methods have last.
_SCAN: Final = _struct({4: _TEXTS})
_THRIFT1: Final[dict[str, Fields]] = {
    "createTable": {2: _STRUCTS},
    "get": {4: _TEXT_MAP},
    "getVer": {5: _TEXT_MAP},
    "getVerTs": {6: _TEXT_MAP},
    "getRow": {3: _TEXT_MAP},
    "getRowWithColumns": {3: _TEXTS, 4: _TEXT_MAP},
    "getRowTs": {4: _TEXT_MAP},
    "getRowWithColumnsTs": {3: _TEXTS, 5: _TEXT_MAP},
    "getRows": {2: _TEXTS, 3: _TEXT_MAP},
    "getRowsWithColumns": {2: _TEXTS, 3: _TEXTS, 4: _TEXT_MAP},
    "getRowsTs": {2: _TEXTS, 4: _TEXT_MAP},
    "getRowsWithColumnsTs": {2: _TEXTS, 3: _TEXTS, 5: _TEXT_MAP},
    "scannerOpenWithScan": {2: _SCAN, 3: _TEXT_MAP},
    "scannerOpen": {3: _TEXTS, 4: _TEXT_MAP},
    "scannerOpenWithStop": {4: _TEXTS, 5: _TEXT_MAP},
    "scannerOpenWithPrefix": {3: _TEXTS, 4: _TEXT_MAP},
    "scannerOpenTs": {3: _TEXTS, 5: _TEXT_MAP},
    "scannerOpenWithStopTs": {4: _TEXTS, 6: _TEXT_MAP},
}

# Thrift2: TGet, TScan, TTableName, TColumnFamilyDescriptor, TTableDescriptor, TNamespaceDescriptor.
_STAMP: Final = Value(I64)
_LABELS: Final = _struct({1: _TEXTS})
_RANGE: Final = _struct({1: _STAMP, 2: _STAMP}, "TTimeRange", 1, 2)
_COLUMNS: Final = _list(_struct({1: _TEXT}, "TColumn", 1))
_GET: Final = _struct({1: _TEXT, 2: _COLUMNS, 4: _RANGE, 7: _TEXT_MAP, 8: _LABELS}, "TGet", 1)
_SCAN2: Final = _struct(
    {3: _COLUMNS, 6: _RANGE, 9: _TEXT_MAP, 10: _LABELS, 13: Value(MAP, (_TEXT, _RANGE))}
)
_NAME: Final = _struct({1: _TEXT, 2: _TEXT}, "TTableName", 2)
_FAMILY: Final = _struct({1: _TEXT, 2: _TEXT_MAP, 3: _TEXT_MAP}, "TColumnFamilyDescriptor", 1)
_DESCRIPTOR: Final = _struct({1: _NAME, 2: _list(_FAMILY), 3: _TEXT_MAP}, "TTableDescriptor", 1)
_NAMESPACE: Final = _struct({1: _TEXT, 2: _TEXT_MAP}, "TNamespaceDescriptor", 1)
_SERVERS: Final = Value(SET, (_struct({1: _TEXT}, "TServerName", 1),))
_THRIFT2: Final[dict[str, Fields]] = {
    "get": {2: _GET},
    "exists": {2: _GET},
    "getMultiple": {2: _list(_GET)},
    "existsAll": {2: _list(_GET)},
    "openScanner": {2: _SCAN2},
    "getScannerResults": {2: _SCAN2},
    "getTableDescriptors": {1: _list(_NAME)},
    "isTableAvailableWithSplit": {2: _TEXTS},
    "createTable": {2: _TEXTS},
    "addColumnFamily": {2: _FAMILY},
    "modifyColumnFamily": {2: _FAMILY},
    "deleteColumnFamily": {2: _TEXT},
    "createNamespace": {1: _NAMESPACE},
    "modifyNamespace": {1: _NAMESPACE},
    "getSlowLogResponses": {1: _SERVERS},
    "clearSlowLogResponses": {1: _SERVERS},
}
_TABLES: Final[dict[TableIn, Value]] = {
    TableIn.FIELD: _TEXT,
    TableIn.NAME: _NAME,
    TableIn.DESCRIPTOR: _DESCRIPTOR,
}


def _all(dialect: Dialect, special: dict[str, Fields]) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for name, method in METHODS[dialect].items():
        if method.effect is not Effect.WRITE:
            fields = dict(special.get(name, {}))
            if method.table in _TABLES:
                fields[1] = _TABLES[method.table]
            found[name] = fields
    return found


ARGUMENTS: Final[dict[Dialect, dict[str, Fields]]] = {
    Dialect.THRIFT1: _all(Dialect.THRIFT1, _THRIFT1),
    Dialect.THRIFT2: _all(Dialect.THRIFT2, _THRIFT2),
}
"""Of each method that changes no cells, the fields that matter."""


def require_declared(cursor: Cursor, fields: Fields) -> int:
    """Move behind a struct, if every reader finds the same in it; return which fields it has.

    They are bits: 2 is the field with id 1.

    Raises:
        MalformedMessage: a field that matters comes twice, elements are not of the type that they
            are declared to be, a struct in it lacks a field, or the bytes make no sense.
    """
    seen = 0
    while kind := cursor.next_field():
        field = cursor.field_id
        declared = fields.get(field)
        if declared is None or declared.kind != kind:
            cursor.skip(kind)
            continue
        seen = once(seen, field)
        _require(cursor, declared)
    return seen


def _require(cursor: Cursor, declared: Value) -> None:
    kind = declared.kind
    if kind == STRUCT:
        fields = declared.fields
        assert fields is not None  # noqa: S101 - structs have some, or none
        seen = require_declared(cursor, fields)
        for field in declared.required:
            if not seen & (1 << field):
                raise MalformedMessage(f"a {declared.name} without its field {field}")
    elif kind == MAP:
        keys, values = declared.parts
        found_keys, found_values, count = cursor.map_head()
        if count and (found_keys != keys.kind or found_values != values.kind):
            raise MalformedMessage(f"a map has entries of types {found_keys} and {found_values}")
        for _ in range(count):
            _require(cursor, keys)
            _require(cursor, values)
    elif kind in (LIST, SET):
        (element,) = declared.parts
        found, count = cursor.list_head()
        if count and found != element.kind:
            raise MalformedMessage(f"a list has elements of type {found}, not {element.kind}")
        for _ in range(count):
            _require(cursor, element)
    else:
        cursor.skip(kind)
