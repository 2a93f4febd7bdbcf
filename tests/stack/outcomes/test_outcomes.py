"""The real servers' replies, judged, against what the table then holds."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from outcome_case import SEED
from thrift1_outcomes import ONE, THRIFT1_CASES
from thrift2_outcomes import THRIFT2_CASES, TWO, value
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.events import UpdateKind
from headgate.hbase import (
    METHODS,
    Dialect,
    Effect,
    Judgement,
    SchemaChange,
    Verdict,
    Write,
    decode_request,
    judge,
)
from headgate.wire import Message, MessageReader

pytestmark = pytest.mark.stack

SERVICES = {Dialect.THRIFT1: ONE.Hbase, Dialect.THRIFT2: TWO.THBaseService}
SECONDS = 60.0

CASES = [*THRIFT1_CASES, *THRIFT2_CASES]


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
    ) -> tuple[Write | SchemaChange, Judgement]:
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
