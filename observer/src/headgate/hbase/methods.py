"""HBase's Thrift methods as data: what each does, where its table stands, what its reply says."""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct


class Dialect(Enum):
    """HBase's two Thrift services."""

    THRIFT1 = "thrift1"
    THRIFT2 = "thrift2"


class Effect(Enum):
    """What a method does to cells."""

    READ = "read"
    WRITE = "write"
    """Changes cells that the request names."""
    DEFINE = "define"
    """Changes a table's definition in a way that may destroy cells without naming them."""
    ADMIN = "admin"
    """Administration that destroys no cell: creating, enabling, compacting, namespaces."""
    UNKNOWN = "unknown"
    """No method of HBase 2.6; passed through."""


class TableIn(Enum):
    """Where the arguments name the table, or several. It is always in field 1."""

    NOWHERE = "nowhere"
    FIELD = "field"
    """As a string."""
    STRUCT = "struct"
    """In field 1, a string, of a struct (Thrift1's ``TIncrement`` and ``TAppend``)."""
    STRUCTS = "structs"
    """In field 1, a string, of each struct of a list: there may be several tables."""
    NAME = "name"
    """As Thrift2's ``TTableName``."""
    NAMES = "names"
    """As each ``TTableName`` of a list."""
    PATTERN = "pattern"
    """Whichever fit a pattern or are in a namespace: it might be any."""
    DESCRIPTOR = "descriptor"
    """As ``TTableName`` in field 1 of a ``TTableDescriptor``."""


class ResultKind(Enum):
    """What a reply without an error says."""

    DONE = "done"
    """Nothing but that all of it was done."""
    FLAG = "flag"
    """Field 0 is true when it was done and false when nothing was."""
    QUEUED = "queued"
    """Nothing: with coalescing on, the server answers before it writes, and may drop it."""
    COUNTER = "counter"
    """Field 0 is the counter after the increment."""
    CELLS = "cells"
    """Field 0 is a list of Thrift1 cells in the order of their columns, which it does not name."""
    RESULT = "result"
    """Field 0 is Thrift2's ``TResult`` with the cells as they are now."""
    UNDONE = "undone"
    """Field 0 is a list of what was not done."""
    OTHER = "other"
    """Not looked at."""


class Method(Struct, frozen=True):
    """One method of one dialect.

    Attributes:
        io_error: field of the result that holds the dialect's IOError; 0 where it has none.
        illegal_argument: likewise for Thrift1's IllegalArgument.
        conditional: writes only if a check holds (checkAnd*).
    """

    name: str
    effect: Effect
    table: TableIn = TableIn.FIELD
    result: ResultKind = ResultKind.OTHER
    io_error: int = 1
    illegal_argument: int = 0
    conditional: bool = False


def _write(
    name: str,
    result: ResultKind = ResultKind.DONE,
    table: TableIn = TableIn.FIELD,
    illegal_argument: int = 0,
) -> Method:
    conditional = name.startswith("checkAnd")
    return Method(name, Effect.WRITE, table, result, 1, illegal_argument, conditional)


def _read(*names: str, table: TableIn = TableIn.FIELD, io_error: int = 1) -> list[Method]:
    return [Method(name, Effect.READ, table, io_error=io_error) for name in names]


def _admin(*names: str, table: TableIn) -> list[Method]:
    return [Method(name, Effect.ADMIN, table) for name in names]


def _define(*names: str, table: TableIn) -> list[Method]:
    return [Method(name, Effect.DEFINE, table, ResultKind.DONE) for name in names]


_THRIFT1 = (
    _write("mutateRow", illegal_argument=2),
    _write("mutateRowTs", illegal_argument=2),
    _write("mutateRows", illegal_argument=2),
    _write("mutateRowsTs", illegal_argument=2),
    _write("atomicIncrement", ResultKind.COUNTER, illegal_argument=2),
    _write("increment", ResultKind.QUEUED, TableIn.STRUCT),
    _write("incrementRows", ResultKind.QUEUED, TableIn.STRUCTS),
    _write("append", ResultKind.CELLS, TableIn.STRUCT),
    _write("checkAndPut", ResultKind.FLAG, illegal_argument=2),
    _write("deleteAll"),
    _write("deleteAllTs"),
    _write("deleteAllRow"),
    _write("deleteAllRowTs"),
    *_define("disableTable", "deleteTable", table=TableIn.FIELD),
    *_admin("enableTable", "createTable", table=TableIn.FIELD),
    *_admin("compact", "majorCompact", table=TableIn.NOWHERE),
    *_read("isTableEnabled", "getColumnDescriptors", "getTableRegions"),
    *_read("get", "getVer", "getVerTs"),
    *_read("getRow", "getRowWithColumns", "getRowTs", "getRowWithColumnsTs"),
    *_read("getRows", "getRowsWithColumns", "getRowsTs", "getRowsWithColumnsTs", "getRowOrBefore"),
    *_read("scannerOpenWithScan", "scannerOpen", "scannerOpenWithStop", "scannerOpenWithPrefix"),
    *_read("scannerOpenTs", "scannerOpenWithStopTs"),
    *_read("scannerGet", "scannerGetList", "scannerClose", table=TableIn.NOWHERE),
    *_read("getTableNames", "getTableNamesWithIsTableEnabled", table=TableIn.NOWHERE),
    *_read("getRegionInfo", table=TableIn.NOWHERE),
    *_read("getThriftServerType", "getClusterId", table=TableIn.NOWHERE, io_error=0),
)

_THRIFT2 = (
    _write("put"),
    _write("putMultiple"),
    _write("checkAndPut", ResultKind.FLAG),
    _write("deleteSingle"),
    _write("deleteMultiple", ResultKind.UNDONE),
    _write("checkAndDelete", ResultKind.FLAG),
    _write("increment", ResultKind.RESULT),
    _write("append", ResultKind.RESULT),
    _write("mutateRow"),
    _write("checkAndMutate", ResultKind.FLAG),
    *_define("disableTable", "deleteTable", "truncateTable", table=TableIn.NAME),
    *_define("deleteColumnFamily", "modifyColumnFamily", table=TableIn.NAME),
    *_define("modifyTable", table=TableIn.DESCRIPTOR),
    *_admin("createTable", table=TableIn.DESCRIPTOR),
    *_admin("enableTable", "addColumnFamily", table=TableIn.NAME),
    # A namespace that still has tables can't be deleted, so no cell goes with it.
    *_admin("createNamespace", "modifyNamespace", "deleteNamespace", table=TableIn.NOWHERE),
    *_admin("clearSlowLogResponses", table=TableIn.NOWHERE),
    *_read("exists", "existsAll", "get", "getMultiple"),
    *_read("openScanner", "getScannerResults", "getRegionLocation", "getAllRegionLocations"),
    *_read("getScannerRows", "closeScanner", table=TableIn.NOWHERE),
    *_read("getTableDescriptor", "tableExists", table=TableIn.NAME),
    *_read("isTableEnabled", "isTableDisabled", "isTableAvailable", table=TableIn.NAME),
    *_read("isTableAvailableWithSplit", table=TableIn.NAME),
    *_read("getTableDescriptors", table=TableIn.NAMES),
    *_read("getTableDescriptorsByPattern", table=TableIn.PATTERN),
    *_read("getTableDescriptorsByNamespace", table=TableIn.PATTERN),
    *_read("getTableNamesByPattern", "getTableNamesByNamespace", table=TableIn.NOWHERE),
    *_read("getNamespaceDescriptor", table=TableIn.NOWHERE),
    *_read("listNamespaceDescriptors", "listNamespaces", table=TableIn.NOWHERE),
    *_read("getSlowLogResponses", table=TableIn.NOWHERE),
    *_read("getThriftServerType", "getClusterId", table=TableIn.NOWHERE, io_error=0),
)

METHODS: Final[dict[Dialect, dict[str, Method]]] = {
    Dialect.THRIFT1: {method.name: method for method in _THRIFT1},
    Dialect.THRIFT2: {method.name: method for method in _THRIFT2},
}
"""Every method of both services of HBase 2.6, by dialect and name."""


def method_of(dialect: Dialect, name: str) -> Method:
    """Return the method; one that HBase does not have has ``Effect.UNKNOWN``."""
    method = METHODS[dialect].get(name)
    return method or Method(name, Effect.UNKNOWN, TableIn.NOWHERE, io_error=0)
