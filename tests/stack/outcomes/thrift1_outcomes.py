"""Cases of Thrift1: its requests that change a row, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import happybase
import thriftpy2
from outcome_case import ALL_GONE, F_GONE, TOO_LARGE, A, Case, N, U, number

from headgate.hbase import Dialect, Verdict

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)


def put(column: bytes, value: bytes = b"new") -> Any:
    return ONE.Mutation(isDelete=False, column=column, value=value)


def delete(column: bytes) -> Any:
    return ONE.Mutation(isDelete=True, column=column)


def row_of(method: str, *mutations: Any, **more: Any) -> Callable[[bytes, bytes], dict[str, Any]]:
    if method == "mutateRow":
        return lambda table, row: {
            "tableName": table,
            "row": row,
            "mutations": list(mutations),
            **more,
        }
    return lambda table, row: {
        "tableName": table,
        "rowBatches": [ONE.BatchMutation(row=row, mutations=[one]) for one in mutations],
        **more,
    }


def one(
    method: str,
    name: str,
    arguments: Callable[..., dict[str, Any]],
    verdict: Verdict,
    after: Mapping[bytes, bytes | None] | None = None,
) -> Case:
    return Case(name, Dialect.THRIFT1, method, arguments, verdict, after or {})


THRIFT1_CASES = [
    one("mutateRow", "put", row_of("mutateRow", put(b"f:a")), A, {b"f:a": b"new"}),
    one(
        "mutateRow",
        "delete and put of two columns",
        row_of("mutateRow", put(b"f:a"), delete(b"f:b")),
        A,
        {b"f:a": b"new", b"f:b": None},
    ),
    one("mutateRow", "delete of a family", row_of("mutateRow", delete(b"f")), A, F_GONE),
    one("mutateRow", "put without a qualifier is ignored", row_of("mutateRow", put(b"f")), N),
    one(
        "mutateRow",
        "the later of two puts of a column stays",
        row_of("mutateRow", put(b"f:a", b"1"), put(b"f:a", b"2")),
        A,
        {b"f:a": b"2"},
    ),
    one(
        "mutateRow",
        "the delete is done although the put fails",
        row_of("mutateRow", delete(b"f:a"), put(b"none:a")),
        U,
        {b"f:a": None},
    ),
    one("mutateRow", "no such family", row_of("mutateRow", put(b"none:a")), U),
    one("mutateRow", "too large", row_of("mutateRow", put(b"f:a", TOO_LARGE)), N),
    one(
        "mutateRow",
        "the delete is done although the put is too large",
        row_of("mutateRow", delete(b"f:b"), put(b"f:a", TOO_LARGE)),
        U,
        {b"f:b": None},
    ),
    one(
        "mutateRowTs",
        "put in the past stays hidden",
        row_of("mutateRow", put(b"f:a"), timestamp=5),
        A,
    ),
    one("mutateRowTs", "no such family", row_of("mutateRow", put(b"none:a"), timestamp=5), U),
    one(
        "mutateRows",
        "the delete comes after the put",
        row_of("mutateRows", delete(b"f:a"), put(b"f:a"), put(b"f:b")),
        A,
        {b"f:a": None, b"f:b": b"new"},
    ),
    one(
        "mutateRows",
        "the put is done although the delete fails",
        row_of("mutateRows", put(b"f:a"), delete(b"none:a")),
        U,
        {b"f:a": b"new"},
    ),
    one(
        "mutateRows",
        "one put is done although the other fails",
        row_of("mutateRows", put(b"f:a"), put(b"none:a")),
        U,
        {b"f:a": b"new"},
    ),
    one(
        "mutateRows",
        "put without a qualifier fails as a whole",
        row_of("mutateRows", put(b"f:a"), put(b"f")),
        U,
    ),
    one(
        "mutateRows",
        "too large: the others are not done either",
        row_of("mutateRows", put(b"f:b"), put(b"f:a", TOO_LARGE)),
        N,
    ),
    one(
        "mutateRowsTs",
        "delete up to a timestamp in the past",
        row_of("mutateRows", delete(b"f:a"), timestamp=5),
        A,
    ),
    one("mutateRowsTs", "no such family", row_of("mutateRows", put(b"none:a"), timestamp=5), U),
    one(
        "atomicIncrement",
        "of a counter",
        lambda table, row: {"tableName": table, "row": row, "column": b"f:n", "value": 5},
        A,
        {b"f:n": number(12)},
    ),
    one(
        "atomicIncrement",
        "of a family's empty qualifier",
        lambda table, row: {"tableName": table, "row": row, "column": b"g", "value": 5},
        A,
        {b"g:": number(5)},
    ),
    one(
        "atomicIncrement",
        "of what is no counter",
        lambda table, row: {"tableName": table, "row": row, "column": b"f:a", "value": 5},
        U,
    ),
    one(
        "increment",
        "the reply proves nothing",
        lambda table, row: {
            "increment": ONE.TIncrement(table=table, row=row, column=b"f:n", ammount=5)
        },
        U,
        {b"f:n": number(12)},
    ),
    one(
        "increment",
        "no such family",
        lambda table, row: {
            "increment": ONE.TIncrement(table=table, row=row, column=b"none:n", ammount=5)
        },
        U,
    ),
    one(
        "incrementRows",
        "the first is done although the second fails",
        lambda table, row: {
            "increments": [
                ONE.TIncrement(table=table, row=row, column=name, ammount=5)
                for name in (b"f:n", b"none:n")
            ]
        },
        U,
        {b"f:n": number(12)},
    ),
    one(
        "append",
        "of columns in any order",
        lambda table, row: {
            "append": ONE.TAppend(
                table=table, row=row, columns=[b"g:a", b"f:b", b"f:a"], values=[b"1", b"2", b"3"]
            )
        },
        A,
        {b"g:a": b"g1", b"f:b": b"old22", b"f:a": b"old3"},
    ),
    one(
        "append",
        "the later of two of a column stays",
        lambda table, row: {
            "append": ONE.TAppend(
                table=table, row=row, columns=[b"f:a", b"f:a"], values=[b"1", b"2"]
            )
        },
        A,
        {b"f:a": b"old2"},
    ),
    one(
        "append",
        "no such family",
        lambda table, row: {
            "append": ONE.TAppend(table=table, row=row, columns=[b"none:a"], values=[b"1"])
        },
        U,
    ),
    *[
        one(
            "checkAndPut",
            name,
            lambda table, row, expected=expected, mput=mput: {
                "tableName": table,
                "row": row,
                "column": b"f:a",
                "value": expected,
                "mput": mput,
            },
            verdict,
            after,
        )
        for name, expected, mput, verdict, after in [
            ("holds", b"old", put(b"f:b"), A, {b"f:b": b"new"}),
            ("does not hold", b"other", put(b"f:b"), N, None),
            ("no such family", b"old", put(b"none:b"), U, None),
            ("of a delete puts an empty value", b"old", delete(b"f:b"), A, {b"f:b": b""}),
        ]
    ],
    *[
        one(
            method,
            name,
            lambda table, row, more=more: {"tableName": table, "row": row, **more},
            verdict,
            after,
        )
        for method, name, more, verdict, after in [
            ("deleteAll", "of a column", {"column": b"f:a"}, A, {b"f:a": None}),
            ("deleteAll", "of the empty qualifier", {"column": b"f:"}, A, {b"f:": None}),
            ("deleteAll", "of a family", {"column": b"f"}, A, F_GONE),
            ("deleteAll", "no such family", {"column": b"none:a"}, U, None),
            ("deleteAllTs", "in the past", {"column": b"f:a", "timestamp": 5}, A, None),
            ("deleteAllTs", "no such family", {"column": b"none:a", "timestamp": 5}, U, None),
            ("deleteAllRow", "of a row", {}, A, ALL_GONE),
            ("deleteAllRowTs", "in the past", {"timestamp": 5}, A, None),
        ]
    ],
    one(
        "deleteAllRow",
        "no such table",
        lambda table, row: {"tableName": table + b"_none", "row": row},
        U,
    ),
    one(
        "deleteAllRowTs",
        "no such table",
        lambda table, row: {"tableName": table + b"_none", "row": row, "timestamp": 5},
        U,
    ),
]
