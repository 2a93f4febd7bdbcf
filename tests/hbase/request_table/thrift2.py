"""Requests of HBase's second Thrift service, with what each says to HBase."""

from __future__ import annotations

from typing import Any

from headgate.events import UpdateKind
from headgate.hbase import Dialect
from request_table.case import ATTRIBUTES, FIVE, LATEST, ORIGIN, Case, Cell
from request_table.encoder import TWO

K = UpdateKind


def value(qualifier: bytes, content: bytes, timestamp: int | None = None) -> Any:
    return TWO.TColumnValue(family=b"f", qualifier=qualifier, value=content, timestamp=timestamp)


def two(name: str, method: str, arguments: dict[str, Any], cells: list[Cell], **more: Any) -> Case:
    return Case(name, Dialect.THRIFT2, method, {"table": b"t", **arguments}, cells, **more)


CASES = [
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
            (K.INCREMENT_DELTA, b"r", b"f:a", -1, FIVE),
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
