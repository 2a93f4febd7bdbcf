"""Requests of HBase's first Thrift service, with what each says to HBase."""

from __future__ import annotations

from typing import Any

from headgate.events import UpdateKind
from headgate.hbase import Dialect
from request_table.case import ATTRIBUTES, FIVE, LATEST, ORIGIN, Case, Cell
from request_table.encoder import ONE

K = UpdateKind


def put(column: bytes, value: bytes) -> Any:
    return ONE.Mutation(isDelete=False, column=column, value=value)


def delete(column: bytes) -> Any:
    return ONE.Mutation(isDelete=True, column=column)


def one(name: str, method: str, arguments: dict[str, Any], cells: list[Cell], **more: Any) -> Case:
    return Case(name, Dialect.THRIFT1, method, {"tableName": b"t", **arguments}, cells, **more)


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
        [(K.INCREMENT_DELTA, b"r", b"f:c", -1, FIVE)],
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
            (K.INCREMENT_DELTA, b"r", b"f:c", -1, FIVE),
            (K.INCREMENT_DELTA, b"s", b"f:c", -1, FIVE),
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
]
