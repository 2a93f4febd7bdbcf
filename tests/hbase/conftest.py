"""One table of requests: each as an independent encoder writes it, with what it says to HBase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import happybase
import pytest
import thriftpy2
from msgspec import Struct
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.events import ORIGIN_ATTRIBUTE, Origin, UpdateKind, encode_origin
from headgate.hbase import Dialect

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)
TWO = thriftpy2.load(
    str(Path(__file__).with_name("thrift2.thrift")), module_name="tests_two_thrift"
)
_SERVICES = {Dialect.THRIFT1: ONE.Hbase, Dialect.THRIFT2: TWO.THBaseService}

ORIGIN = Origin("aqhi", "zones", "zones-17", 3)
ATTRIBUTES = {b"other": b"x", ORIGIN_ATTRIBUTE: encode_origin(ORIGIN)}
LATEST = 2**63 - 1

K = UpdateKind
Cell = tuple[UpdateKind, bytes, bytes, int, bytes | None]


class Case(Struct, frozen=True):
    """A request and what decoding it must give."""

    name: str
    dialect: Dialect
    method: str
    arguments: dict[str, Any]
    cells: list[Cell]
    origins: tuple[Origin | None, ...] = ()
    conditional: bool = False
    ambiguous: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def encoded(self) -> bytes:
        """The request on a buffered transport."""
        return encode(self.dialect, self.method, self.arguments)


def encode(
    dialect: Dialect,
    method: str,
    fields: dict[str, Any],
    *,
    part: str = "args",
    kind: int = TMessageType.CALL,
) -> bytes:
    """Return a message as thriftpy2 writes it; ``part`` is ``args`` or ``result``."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(method, kind, 7)
    protocol.write_struct(getattr(_SERVICES[dialect], f"{method}_{part}")(**fields))
    protocol.write_message_end()
    buffer.flush()
    return bytes(buffer.getvalue())


def put(column: bytes, value: bytes) -> Any:
    return ONE.Mutation(isDelete=False, column=column, value=value)


def delete(column: bytes) -> Any:
    return ONE.Mutation(isDelete=True, column=column)


def value(qualifier: bytes, content: bytes, timestamp: int | None = None) -> Any:
    return TWO.TColumnValue(family=b"f", qualifier=qualifier, value=content, timestamp=timestamp)


def one(name: str, method: str, arguments: dict[str, Any], cells: list[Cell], **more: Any) -> Case:
    return Case(name, Dialect.THRIFT1, method, {"tableName": b"t", **arguments}, cells, **more)


def two(name: str, method: str, arguments: dict[str, Any], cells: list[Cell], **more: Any) -> Case:
    return Case(name, Dialect.THRIFT2, method, {"table": b"t", **arguments}, cells, **more)


def _five() -> bytes:
    return (5).to_bytes(8, "big")


CASES = [
    one(
        "put of two columns",
        "mutateRow",
        {"row": b"r", "mutations": [put(b"f:a", b"1"), put(b"f:b", b"")], "attributes": {}},
        [(K.PUT, b"r", b"f:a", -1, b"1"), (K.PUT, b"r", b"f:b", -1, b"")],
    ),
    one(
        "put with its origin",
        "mutateRow",
        {"row": b"r", "mutations": [put(b"f:a", b"1")], "attributes": ATTRIBUTES},
        [(K.PUT, b"r", b"f:a", -1, b"1")],
        origins=(ORIGIN,),
    ),
    one(
        "put without a write-ahead log",
        "mutateRow",
        {"row": b"r", "mutations": [ONE.Mutation(column=b"f:a", value=b"1", writeToWAL=False)]},
        [(K.PUT, b"r", b"f:a", -1, b"1")],
    ),
    one(
        "put of an empty qualifier",
        "mutateRow",
        {"row": b"r", "mutations": [put(b"f:", b"1")]},
        [(K.PUT, b"r", b"f:", -1, b"1")],
    ),
    one(
        "put without a qualifier, which HBase ignores",
        "mutateRow",
        {"row": b"r", "mutations": [put(b"f", b"1"), put(b"f:a", b"2")]},
        [(K.PUT, b"r", b"f:a", -1, b"2")],
    ),
    one(
        "put and then delete in one row: the delete comes first",
        "mutateRow",
        {"row": b"r", "mutations": [put(b"f:a", b"1"), delete(b"f:b"), delete(b"g")]},
        [
            (K.DELETE_COLUMN, b"r", b"f:b", -1, None),
            (K.DELETE_FAMILY, b"r", b"g:", -1, None),
            (K.PUT, b"r", b"f:a", -1, b"1"),
        ],
    ),
    one(
        "put and delete of the same column",
        "mutateRow",
        {"row": b"r", "mutations": [delete(b"f:a"), put(b"f:a", b"1"), put(b"f:b", b"2")]},
        [
            (K.DELETE_COLUMN, b"r", b"f:a", -1, None),
            (K.PUT, b"r", b"f:a", -1, b"1"),
            (K.PUT, b"r", b"f:b", -1, b"2"),
        ],
        ambiguous=(1,),
    ),
    one(
        "put under a timestamp",
        "mutateRowTs",
        {"row": b"r", "mutations": [put(b"f:a", b"1")], "timestamp": 1234, "attributes": {}},
        [(K.PUT, b"r", b"f:a", 1234, b"1")],
    ),
    one(
        "put under the timestamp that means now",
        "mutateRowTs",
        {"row": b"r", "mutations": [put(b"f:a", b"1")], "timestamp": LATEST},
        [(K.PUT, b"r", b"f:a", -1, b"1")],
    ),
    one(
        "batch: all puts come before all deletes",
        "mutateRows",
        {
            "rowBatches": [
                ONE.BatchMutation(row=b"r", mutations=[delete(b"f:a"), delete(b"f")]),
                ONE.BatchMutation(row=b"s", mutations=[put(b"f:a", b"1"), delete(b"f:b")]),
            ],
            "attributes": ATTRIBUTES,
        },
        [
            (K.PUT, b"s", b"f:a", -1, b"1"),
            (K.DELETE_COLUMN, b"r", b"f:a", -1, None),
            (K.DELETE_FAMILY, b"r", b"f:", -1, None),
            (K.DELETE_COLUMN, b"s", b"f:b", -1, None),
        ],
        origins=(ORIGIN,),
    ),
    one(
        "batch: a put under a family that is deleted",
        "mutateRows",
        {
            "rowBatches": [
                ONE.BatchMutation(row=b"r", mutations=[put(b"f:a", b"1"), put(b"g:a", b"2")]),
                ONE.BatchMutation(row=b"r", mutations=[delete(b"g")]),
            ]
        },
        [
            (K.PUT, b"r", b"f:a", -1, b"1"),
            (K.PUT, b"r", b"g:a", -1, b"2"),
            (K.DELETE_FAMILY, b"r", b"g:", -1, None),
        ],
        ambiguous=(1,),
    ),
    one("batch of nothing", "mutateRows", {"rowBatches": []}, []),
    one(
        "batch under a timestamp",
        "mutateRowsTs",
        {
            "rowBatches": [ONE.BatchMutation(row=b"r", mutations=[put(b"f:a", b"1")])],
            "timestamp": 9,
        },
        [(K.PUT, b"r", b"f:a", 9, b"1")],
    ),
    one(
        "counter",
        "atomicIncrement",
        {"row": b"r", "column": b"f:c", "value": 5},
        [(K.INCREMENT_DELTA, b"r", b"f:c", -1, _five())],
    ),
    Case(
        "queued counter",
        Dialect.THRIFT1,
        "increment",
        {"increment": ONE.TIncrement(table=b"t", row=b"r", column=b"f:c", ammount=-2)},
        [(K.INCREMENT_DELTA, b"r", b"f:c", -1, (-2).to_bytes(8, "big", signed=True))],
    ),
    Case(
        "queued counters of two tables",
        Dialect.THRIFT1,
        "incrementRows",
        {
            "increments": [
                ONE.TIncrement(table=b"t", row=b"r", column=b"f:c", ammount=5),
                ONE.TIncrement(table=b"u", row=b"s", column=b"f:c", ammount=5),
                ONE.TIncrement(table=b"default:t", row=b"s", column=b"f:c", ammount=5),
            ]
        },
        [
            (K.INCREMENT_DELTA, b"r", b"f:c", -1, _five()),
            (K.INCREMENT_DELTA, b"s", b"f:c", -1, _five()),
        ],
        others=("u",),
    ),
    Case(
        "append",
        Dialect.THRIFT1,
        "append",
        {
            "append": ONE.TAppend(
                table=b"t", row=b"r", columns=[b"f:b", b"f:a"], values=[b"x", b"y"]
            )
        },
        [
            (K.APPEND_DELTA, b"r", b"f:b", -1, b"x"),
            (K.APPEND_DELTA, b"r", b"f:a", -1, b"y"),
        ],
    ),
    one(
        "check and put",
        "checkAndPut",
        {
            "row": b"r",
            "column": b"f:check",
            "value": b"old",
            "mput": put(b"f:a", b"new"),
            "attributes": ATTRIBUTES,
        },
        [(K.PUT, b"r", b"f:a", -1, b"new")],
        origins=(ORIGIN,),
        conditional=True,
    ),
    one(
        "check and put of what is marked as delete: it is put",
        "checkAndPut",
        {"row": b"r", "column": b"f:c", "mput": delete(b"f:a")},
        [(K.PUT, b"r", b"f:a", -1, b"")],
        conditional=True,
    ),
    one(
        "delete of a column",
        "deleteAll",
        {"row": b"r", "column": b"f:a", "attributes": ATTRIBUTES},
        [(K.DELETE_COLUMN, b"r", b"f:a", -1, None)],
        origins=(ORIGIN,),
    ),
    one(
        "delete of the column with the empty qualifier",
        "deleteAll",
        {"row": b"r", "column": b"f:"},
        [(K.DELETE_COLUMN, b"r", b"f:", -1, None)],
    ),
    one(
        "delete of a family up to a timestamp",
        "deleteAllTs",
        {"row": b"r", "column": b"f", "timestamp": 12},
        [(K.DELETE_FAMILY, b"r", b"f:", 12, None)],
    ),
    one("delete of a row", "deleteAllRow", {"row": b"r"}, [(K.DELETE_ROW, b"r", b"", -1, None)]),
    one(
        "delete of a row up to a timestamp",
        "deleteAllRowTs",
        {"row": b"r", "timestamp": 12, "attributes": {}},
        [(K.DELETE_ROW, b"r", b"", 12, None)],
    ),
    two(
        "put",
        "put",
        {
            "tput": TWO.TPut(
                row=b"r",
                columnValues=[value(b"a", b"1"), value(b"b", b"2", 44), value(b"", b"3", LATEST)],
                attributes=ATTRIBUTES,
                durability=TWO.TDurability.SKIP_WAL,
                cellVisibility=TWO.TCellVisibility(expression="secret"),
            )
        },
        [
            (K.PUT, b"r", b"f:a", -1, b"1"),
            (K.PUT, b"r", b"f:b", 44, b"2"),
            (K.PUT, b"r", b"f:", -1, b"3"),
        ],
        origins=(ORIGIN,),
    ),
    two(
        "put under the row's timestamp",
        "put",
        {
            "tput": TWO.TPut(
                row=b"r", columnValues=[value(b"a", b"1"), value(b"b", b"2", -5)], timestamp=7
            )
        },
        [(K.PUT, b"r", b"f:a", 7, b"1"), (K.PUT, b"r", b"f:b", -5, b"2")],
    ),
    two(
        "puts",
        "putMultiple",
        {
            "tputs": [
                TWO.TPut(row=b"r", columnValues=[value(b"a", b"1")]),
                TWO.TPut(row=b"s", columnValues=[value(b"a", b"2")], attributes=ATTRIBUTES),
            ]
        },
        [(K.PUT, b"r", b"f:a", -1, b"1"), (K.PUT, b"s", b"f:a", -1, b"2")],
        origins=(None, ORIGIN),
    ),
    two(
        "check and put",
        "checkAndPut",
        {
            "row": b"r",
            "family": b"f",
            "qualifier": b"check",
            "value": b"old",
            "tput": TWO.TPut(row=b"r", columnValues=[value(b"a", b"1")]),
        },
        [(K.PUT, b"r", b"f:a", -1, b"1")],
        conditional=True,
    ),
    two(
        "delete of a row",
        "deleteSingle",
        {"tdelete": TWO.TDelete(row=b"r", attributes=ATTRIBUTES)},
        [(K.DELETE_ROW, b"r", b"", -1, None)],
        origins=(ORIGIN,),
    ),
    two(
        "delete of a row up to a timestamp",
        "deleteSingle",
        {"tdelete": TWO.TDelete(row=b"r", timestamp=12)},
        [(K.DELETE_ROW, b"r", b"", 12, None)],
    ),
    two(
        "delete of an empty list of columns: the row, and as of now",
        "deleteSingle",
        {"tdelete": TWO.TDelete(row=b"r", columns=[], timestamp=12)},
        [(K.DELETE_ROW, b"r", b"", -1, None)],
    ),
    two(
        "delete of columns, with all their versions unless told otherwise",
        "deleteSingle",
        {
            "tdelete": TWO.TDelete(
                row=b"r",
                columns=[
                    TWO.TColumn(family=b"f", qualifier=b"a"),
                    TWO.TColumn(family=b"f", qualifier=b"b", timestamp=8),
                    TWO.TColumn(family=b"f"),
                ],
                timestamp=12,
            )
        },
        [
            (K.DELETE_COLUMN, b"r", b"f:a", -1, None),
            (K.DELETE_COLUMN, b"r", b"f:b", 8, None),
            (K.DELETE_COLUMN, b"r", b"f:", -1, None),
        ],
    ),
    two(
        "deletes of one version, a family and a family's version",
        "deleteMultiple",
        {
            "tdeletes": [
                TWO.TDelete(
                    row=b"r",
                    columns=[TWO.TColumn(family=b"f", qualifier=b"a")],
                    deleteType=TWO.TDeleteType.DELETE_COLUMN,
                ),
                TWO.TDelete(
                    row=b"s",
                    columns=[TWO.TColumn(family=b"f", qualifier=b"unused")],
                    deleteType=TWO.TDeleteType.DELETE_FAMILY,
                ),
                TWO.TDelete(
                    row=b"u",
                    columns=[TWO.TColumn(family=b"f", timestamp=3)],
                    deleteType=TWO.TDeleteType.DELETE_FAMILY_VERSION,
                ),
            ]
        },
        [
            (K.DELETE_CELL, b"r", b"f:a", -1, None),
            (K.DELETE_FAMILY, b"s", b"f:", -1, None),
            (K.DELETE_FAMILY_VERSION, b"u", b"f:", 3, None),
        ],
    ),
    two(
        "check and delete",
        "checkAndDelete",
        {
            "row": b"r",
            "family": b"f",
            "qualifier": b"check",
            "tdelete": TWO.TDelete(row=b"r", columns=[TWO.TColumn(family=b"f", qualifier=b"a")]),
        },
        [(K.DELETE_COLUMN, b"r", b"f:a", -1, None)],
        conditional=True,
    ),
    two(
        "increment",
        "increment",
        {
            "tincrement": TWO.TIncrement(
                row=b"r",
                columns=[
                    TWO.TColumnIncrement(family=b"f", qualifier=b"a", amount=5),
                    TWO.TColumnIncrement(family=b"f", qualifier=b"b"),
                ],
                attributes=ATTRIBUTES,
                returnResults=True,
            )
        },
        [
            (K.INCREMENT_DELTA, b"r", b"f:a", -1, _five()),
            (K.INCREMENT_DELTA, b"r", b"f:b", -1, (1).to_bytes(8, "big")),
        ],
        origins=(ORIGIN,),
    ),
    two(
        "append",
        "append",
        {"tappend": TWO.TAppend(row=b"r", columns=[value(b"a", b"x")], attributes=ATTRIBUTES)},
        [(K.APPEND_DELTA, b"r", b"f:a", -1, b"x")],
        origins=(ORIGIN,),
    ),
    two(
        "mutations of a row, in their order",
        "mutateRow",
        {
            "trowMutations": TWO.TRowMutations(
                row=b"r",
                mutations=[
                    TWO.TMutation(put=TWO.TPut(row=b"r", columnValues=[value(b"a", b"1")])),
                    TWO.TMutation(
                        deleteSingle=TWO.TDelete(
                            row=b"r",
                            columns=[TWO.TColumn(family=b"f", qualifier=b"b")],
                            attributes=ATTRIBUTES,
                        )
                    ),
                    TWO.TMutation(put=TWO.TPut(row=b"r", columnValues=[value(b"b", b"2")])),
                ],
            )
        },
        [
            (K.PUT, b"r", b"f:a", -1, b"1"),
            (K.DELETE_COLUMN, b"r", b"f:b", -1, None),
            (K.PUT, b"r", b"f:b", -1, b"2"),
        ],
        origins=(None, ORIGIN),
        ambiguous=(2,),
    ),
    two(
        "mutations of a row that is deleted too",
        "mutateRow",
        {
            "trowMutations": TWO.TRowMutations(
                row=b"r",
                mutations=[
                    TWO.TMutation(deleteSingle=TWO.TDelete(row=b"r")),
                    TWO.TMutation(put=TWO.TPut(row=b"r", columnValues=[value(b"a", b"1")])),
                ],
            )
        },
        [(K.DELETE_ROW, b"r", b"", -1, None), (K.PUT, b"r", b"f:a", -1, b"1")],
        ambiguous=(1,),
    ),
    two(
        "check and mutate",
        "checkAndMutate",
        {
            "row": b"r",
            "family": b"f",
            "qualifier": b"check",
            "compareOp": TWO.TCompareOp.EQUAL,
            "value": b"old",
            "rowMutations": TWO.TRowMutations(
                row=b"r",
                mutations=[
                    TWO.TMutation(put=TWO.TPut(row=b"r", columnValues=[value(b"a", b"1", 4)]))
                ],
            ),
        },
        [(K.PUT, b"r", b"f:a", 4, b"1")],
        conditional=True,
    ),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.dialect.value} {case.method}: {case.name}")
def case(request: pytest.FixtureRequest) -> Case:
    """Every request of the table, one after the other."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """The whole table."""
    return CASES


class Encoder:
    """The independent encoder, for messages that are not in the table."""

    one = ONE
    two = TWO

    def call(self, dialect: Dialect, method: str, **arguments: Any) -> bytes:
        return encode(dialect, method, arguments)

    def arguments(self, dialect: Dialect, method: str, fields: dict[str, Any]) -> Any:
        """Return a request's struct, for a writer of another protocol."""
        return getattr(_SERVICES[dialect], f"{method}_args")(**fields)

    def reply(self, dialect: Dialect, method: str, **result: Any) -> bytes:
        return encode(dialect, method, result, part="result", kind=TMessageType.REPLY)


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder()


@pytest.fixture
def services() -> dict[Dialect, Any]:
    """The interfaces as HBase defines them."""
    return dict(_SERVICES)
