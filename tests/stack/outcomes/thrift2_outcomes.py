"""Cases of Thrift2: its requests that change a row, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import thriftpy2
from outcome_case import A_GONE, ALL_GONE, F_GONE, TOO_LARGE, A, Case, N, U, number

from headgate.hbase import Dialect, Verdict

TWO = thriftpy2.load(
    str(Path(__file__).parents[2] / "hbase" / "thrift2.thrift"),
    module_name="tests_two_thrift",
)


def value(
    qualifier: bytes, content: bytes = b"new", family: bytes = b"f", at: int | None = None
) -> Any:
    return TWO.TColumnValue(family=family, qualifier=qualifier, value=content, timestamp=at)


def column(qualifier: bytes | None, family: bytes = b"f", at: int | None = None) -> Any:
    return TWO.TColumn(family=family, qualifier=qualifier, timestamp=at)


def two(
    method: str,
    name: str,
    arguments: Callable[..., dict[str, Any]],
    verdict: Verdict,
    after: Mapping[bytes, bytes | None] | None = None,
) -> Case:
    return Case(
        name,
        Dialect.THRIFT2,
        method,
        lambda table, row: {"table": table, **arguments(row)},
        verdict,
        after or {},
    )


def check(row: bytes, expected: bytes, **more: Any) -> dict[str, Any]:
    return {"row": row, "family": b"f", "qualifier": b"a", "value": expected, **more}


def mutations(row: bytes, *parts: Any) -> Any:
    """Return Thrift2's row mutations: puts of column values, deletes of columns, in their order."""
    made = [
        TWO.TMutation(put=TWO.TPut(row=row, columnValues=[part]))
        if isinstance(part, TWO.TColumnValue)
        else TWO.TMutation(deleteSingle=TWO.TDelete(row=row, columns=[part]))
        for part in parts
    ]
    return TWO.TRowMutations(row=row, mutations=made)


THRIFT2_CASES = [
    *[
        two(
            "put",
            name,
            lambda row, values=values: {"tput": TWO.TPut(row=row, columnValues=values)},
            verdict,
            after,
        )
        for name, values, verdict, after in [
            ("of columns", [value(b"a"), value(b"", b"1")], A, {b"f:a": b"new", b"f:": b"1"}),
            ("in the past stays hidden", [value(b"a", at=5)], A, None),
            ("no such family", [value(b"a"), value(b"a", family=b"none")], U, None),
            ("of nothing", [], N, None),
            ("too large", [value(b"a", TOO_LARGE)], U, None),
        ]
    ],
    two(
        "putMultiple",
        "one put is done although the other fails",
        lambda row: {
            "tputs": [
                TWO.TPut(row=row, columnValues=[value(b"a")]),
                TWO.TPut(row=row, columnValues=[value(b"b", family=b"none")]),
            ]
        },
        U,
        {b"f:a": b"new"},
    ),
    two(
        "putMultiple",
        "the later of two puts of a column stays",
        lambda row: {
            "tputs": [TWO.TPut(row=row, columnValues=[value(b"a", text)]) for text in (b"1", b"2")]
        },
        A,
        {b"f:a": b"2"},
    ),
    *[
        two(
            "checkAndPut",
            name,
            lambda row, expected=expected, family=family: check(
                row, expected, tput=TWO.TPut(row=row, columnValues=[value(b"b", family=family)])
            ),
            verdict,
            after,
        )
        for name, expected, family, verdict, after in [
            ("holds", b"old", b"f", A, {b"f:b": b"new"}),
            ("does not hold", b"other", b"f", N, None),
            ("no such family", b"old", b"none", U, None),
        ]
    ],
    *[
        two(
            "deleteSingle",
            name,
            lambda row, fields=fields: {"tdelete": TWO.TDelete(row=row, **fields)},
            verdict,
            after,
        )
        for name, fields, verdict, after in [
            ("of a row", {}, A, ALL_GONE),
            ("of a row in the past", {"timestamp": 5}, A, None),
            ("of no columns is of the row as of now", {"columns": [], "timestamp": 5}, A, ALL_GONE),
            ("of a column", {"columns": [column(b"a")]}, A, A_GONE),
            (
                "does not use its own timestamp",
                {"columns": [column(b"a")], "timestamp": 5},
                A,
                A_GONE,
            ),
            ("of the empty qualifier", {"columns": [column(None)]}, A, {b"f:": None}),
            ("of a family", {"columns": [column(b"a")], "deleteType": 2}, A, F_GONE),
            ("of a family's version", {"columns": [column(None, at=5)], "deleteType": 3}, A, None),
            ("of no family's version", {"columns": [column(None)], "deleteType": 3}, U, None),
            ("no such family", {"columns": [column(b"a", b"none")]}, U, None),
        ]
    ],
    two(
        "deleteMultiple",
        "of a column's newest version",
        lambda row: {"tdeletes": [TWO.TDelete(row=row, columns=[column(b"a")], deleteType=0)]},
        A,
        A_GONE,
    ),
    two(
        "deleteMultiple",
        "one is done although the other fails",
        lambda row: {
            "tdeletes": [
                TWO.TDelete(row=row, columns=[column(b"a", family)]) for family in (b"f", b"none")
            ]
        },
        U,
        A_GONE,
    ),
    *[
        two(
            "checkAndDelete",
            name,
            lambda row, expected=expected, family=family: check(
                row, expected, tdelete=TWO.TDelete(row=row, columns=[column(b"b", family)])
            ),
            verdict,
            after,
        )
        for name, expected, family, verdict, after in [
            ("holds", b"old", b"f", A, {b"f:b": None}),
            ("does not hold", b"other", b"f", N, None),
            ("no such family", b"old", b"none", U, None),
        ]
    ],
    *[
        two(
            "increment",
            name,
            lambda row, names=names, returned=returned: {
                "tincrement": TWO.TIncrement(
                    row=row,
                    columns=[
                        TWO.TColumnIncrement(family=b"f", qualifier=name, amount=i)
                        for i, name in enumerate(names, 3)
                    ],
                    returnResults=returned,
                )
            },
            verdict,
            after,
        )
        for name, names, returned, verdict, after in [
            ("of counters", [b"n", b"m"], True, A, {b"f:n": number(10), b"f:m": number(4)}),
            ("without results", [b"n"], False, A, {b"f:n": number(10)}),
            ("the later of two of a column stays", [b"n", b"n"], None, A, {b"f:n": number(11)}),
            ("of what is no counter does nothing at all", [b"n", b"a"], None, U, None),
        ]
    ],
    *[
        two(
            "append",
            name,
            lambda row, parts=parts, returned=returned: {
                "tappend": TWO.TAppend(row=row, columns=parts, returnResults=returned)
            },
            verdict,
            after,
        )
        for name, parts, returned, verdict, after in [
            (
                "of columns",
                [value(b"b", b"+"), value(b"a", b"-")],
                None,
                A,
                {b"f:b": b"old2+", b"f:a": b"old-"},
            ),
            ("without results", [value(b"a", b"+")], False, A, {b"f:a": b"old+"}),
            ("no such family", [value(b"a", b"+", b"none")], None, U, None),
        ]
    ],
    *[
        two(
            "mutateRow",
            name,
            lambda row, parts=parts: {"trowMutations": mutations(row, *parts)},
            verdict,
            after,
        )
        for name, parts, verdict, after in [
            ("put and delete", [value(b"a"), column(b"b")], A, {b"f:a": b"new", b"f:b": None}),
            ("a delete hides a later put", [column(b"a"), value(b"a")], A, A_GONE),
            ("fails as a whole", [value(b"a"), value(b"a", family=b"none")], U, None),
        ]
    ],
    *[
        two(
            "checkAndMutate",
            name,
            lambda row, expected=expected, family=family: check(
                row,
                expected,
                compareOp=TWO.TCompareOp.EQUAL,
                rowMutations=mutations(row, value(b"a", family=family), column(b"b")),
            ),
            verdict,
            after,
        )
        for name, expected, family, verdict, after in [
            ("holds", b"old", b"f", A, {b"f:a": b"new", b"f:b": None}),
            ("does not hold", b"other", b"f", N, None),
            ("no such family", b"old", b"none", U, None),
        ]
    ],
]
