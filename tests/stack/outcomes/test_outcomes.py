"""The real servers' replies, judged, against what the table then holds."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import happybase
import pytest
import thriftpy2
from msgspec import Struct
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.events import UpdateKind
from headgate.hbase import (
    METHODS,
    Definition,
    Dialect,
    Effect,
    Judgement,
    Verdict,
    Write,
    decode_request,
    judge,
)
from headgate.wire import Message, MessageReader

pytestmark = pytest.mark.stack

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="outcomes_one_thrift"
)
TWO = thriftpy2.load(
    str(Path(__file__).parents[2] / "hbase" / "thrift2.thrift"),
    module_name="outcomes_two_thrift",
)
SERVICES = {Dialect.THRIFT1: ONE.Hbase, Dialect.THRIFT2: TWO.THBaseService}

SEED = {b"f:a": b"old", b"f:b": b"old2", b"f:": b"empty", b"f:n": bytes(7) + b"\x07", b"g:a": b"g"}
"""What every row holds before its case."""

TOO_LARGE = b"x" * 11_000_000  # HBase's client refuses cells above 10 MiB
SECONDS = 60.0


class Case(Struct, frozen=True):
    """A request to one row, what must be judged of it, and how the row then differs from SEED."""

    name: str
    dialect: Dialect
    method: str
    arguments: Callable[[bytes, bytes], dict[str, Any]]
    verdict: Verdict
    after: dict[bytes, bytes | None]


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


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


def value(
    qualifier: bytes, content: bytes = b"new", family: bytes = b"f", at: int | None = None
) -> Any:
    return TWO.TColumnValue(family=family, qualifier=qualifier, value=content, timestamp=at)


def column(qualifier: bytes | None, family: bytes = b"f", at: int | None = None) -> Any:
    return TWO.TColumn(family=family, qualifier=qualifier, timestamp=at)


def one(
    method: str,
    name: str,
    arguments: Callable[[bytes, bytes], dict[str, Any]],
    verdict: Verdict,
    after: dict[bytes, bytes | None] | None = None,
) -> Case:
    return Case(name, Dialect.THRIFT1, method, arguments, verdict, after or {})


def two(
    method: str,
    name: str,
    arguments: Callable[[bytes], dict[str, Any]],
    verdict: Verdict,
    after: dict[bytes, bytes | None] | None = None,
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


A, N, U = Verdict.APPLIED, Verdict.NOTHING, Verdict.UNKNOWN
ALL_GONE: dict[bytes, bytes | None] = dict.fromkeys(SEED)
F_GONE = {name: None for name in SEED if name.startswith(b"f:")}

CASES = [
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
            ("of a column", {"columns": [column(b"a")]}, A, {b"f:a": None}),
            (
                "does not use its own timestamp",
                {"columns": [column(b"a")], "timestamp": 5},
                A,
                {b"f:a": None},
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
        {b"f:a": None},
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
        {b"f:a": None},
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
            ("a delete hides a later put", [column(b"a"), value(b"a")], A, {b"f:a": None}),
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


class Servers:
    """The two Thrift servers, spoken to in bytes, and a table that both reach."""

    def __init__(self, stack: Any) -> None:
        self._addresses = {Dialect.THRIFT1: stack.thrift1, Dialect.THRIFT2: stack.thrift2}
        self._connection = stack.happybase()
        self._rows = itertools.count()
        self.name = stack.table("outcomes", families=("f", "g"), versions=3)
        self.table = self._connection.table(self.name)

    def fresh_row(self) -> bytes:
        row = b"row-%04d" % next(self._rows)
        self.table.put(row, SEED)
        return row

    def ask(
        self, dialect: Dialect, method: str, arguments: dict[str, Any]
    ) -> tuple[Message, Message]:
        buffer = TCyMemoryBuffer()
        protocol = TCyBinaryProtocol(buffer)
        protocol.write_message_begin(method, TMessageType.CALL, 1)
        protocol.write_struct(getattr(SERVICES[dialect], method + "_args")(**arguments))
        protocol.write_message_end()
        buffer.flush()
        data = bytes(buffer.getvalue())
        request, reply = MessageReader(), MessageReader()
        request.feed(data)
        sent = request.next_message()
        assert sent is not None
        with socket.create_connection(self._addresses[dialect], timeout=SECONDS) as connection:
            connection.sendall(data)
            while (received := reply.next_message()) is None:
                part = connection.recv(65536)
                assert part, "the server closed the connection"
                reply.feed(part)
        return sent, received

    def judged(
        self, dialect: Dialect, method: str, arguments: dict[str, Any]
    ) -> tuple[Write | Definition, Judgement]:
        sent, received = self.ask(dialect, method, arguments)
        request = decode_request(dialect, sent)
        return request, judge(dialect, request, received)

    def close(self) -> None:
        self._connection.delete_table(self.name, disable=True)
        self._connection.close()


@pytest.fixture(scope="module")
def servers(stack: Any) -> Iterator[Servers]:
    servers = Servers(stack)
    yield servers
    servers.close()


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.dialect.value} {case.method}: {case.name}"
)
def test_what_is_judged_is_what_the_table_holds(servers, case):
    row = servers.fresh_row()
    write, judgement = servers.judged(
        case.dialect, case.method, case.arguments(servers.name.encode(), row)
    )
    after = servers.table.row(row)

    assert judgement.verdict is case.verdict, judgement.reason
    expected = {name: text for name, text in {**SEED, **case.after}.items() if text is not None}
    assert after == expected
    if case.verdict is Verdict.APPLIED:
        check_cells(write, judgement, after)
    if case.verdict is Verdict.NOTHING:
        assert after == SEED


def check_cells(write: Write, judgement: Judgement, after: dict[bytes, bytes]) -> None:
    """Compare what the cells say, in their order, with the row; those in the past are not seen."""
    cells = judgement.cells
    said: dict[bytes, bytes | None] = {}
    for i, kind in enumerate(cells.kinds):
        if i in write.ambiguous:
            said.pop(cells.columns[i], None)
        elif kind in (UpdateKind.INCREMENT, UpdateKind.APPEND):
            assert cells.timestamps[i] != 5
            said[cells.columns[i]] = cells.values[i]
        elif cells.timestamps[i] == -1 and kind == UpdateKind.PUT:
            said[cells.columns[i]] = cells.values[i]
        elif cells.timestamps[i] == -1 and kind in (
            UpdateKind.DELETE_COLUMN,
            UpdateKind.DELETE_CELL,
        ):
            said[cells.columns[i]] = None
    assert {name: after.get(name) for name in said} == said


def test_every_mutating_method_is_asked_for_real():
    for dialect, methods in METHODS.items():
        mutators = {name for name, method in methods.items() if method.effect is Effect.WRITE}
        asked = {case.method for case in CASES if case.dialect is dialect}
        assert asked == mutators
        for method in mutators:
            verdicts = {
                case.verdict for case in CASES if (case.dialect, case.method) == (dialect, method)
            }
            assert Verdict.UNKNOWN in verdicts, f"{method} is never refused"


def test_requests_that_lack_a_required_field_are_refused_before_the_handler(servers):
    row = servers.fresh_row()
    sent, received = servers.ask(
        Dialect.THRIFT2, "put", {"tput": TWO.TPut(row=row, columnValues=[value(b"a")])}
    )
    whole, _ = servers.ask(
        Dialect.THRIFT2,
        "put",
        {"table": b"t", "tput": TWO.TPut(row=row, columnValues=[value(b"a")])},
    )
    assert sent.name == received.name == "put"
    judgement = judge(Dialect.THRIFT2, decode_request(Dialect.THRIFT2, whole), received)
    assert judgement.verdict is Verdict.NOTHING
    assert servers.table.row(row) == SEED


def test_destructive_definitions_are_judged(servers, stack):
    table = stack.table("outcomes_gone")
    one = {"tableName": table.encode()}
    name = {"tableName": TWO.TTableName(qualifier=table.encode())}
    steps = [
        (Dialect.THRIFT1, "deleteTable", one, Verdict.UNKNOWN),  # it is not disabled
        (Dialect.THRIFT2, "disableTable", name, Verdict.APPLIED),
        (Dialect.THRIFT1, "disableTable", one, Verdict.UNKNOWN),  # it is already
        (Dialect.THRIFT2, "truncateTable", {**name, "preserveSplits": True}, Verdict.APPLIED),
        (Dialect.THRIFT1, "disableTable", one, Verdict.APPLIED),
        (Dialect.THRIFT2, "deleteTable", name, Verdict.APPLIED),
        (Dialect.THRIFT2, "deleteTable", name, Verdict.UNKNOWN),  # it is gone
    ]
    for dialect, method, arguments, verdict in steps:
        definition, judgement = servers.judged(dialect, method, arguments)
        assert definition.table == table
        assert judgement.verdict is verdict, (method, judgement.reason)
