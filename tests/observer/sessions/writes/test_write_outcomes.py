"""What each method that writes is told as, however its request ends: through a real session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import happybase
import pytest
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.events import Outcome, TableChange, UpdateBatch, UpdateKind
from headgate.hbase import METHODS, Dialect, Effect
from headgate.observer.sessions import session as session_module
from headgate.wire import MessageType, StructWriter, Transport, write_message

ONE_IDL = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)
TWO_IDL = thriftpy2.load(
    str(Path(__file__).parents[3] / "hbase" / "thrift2.thrift"), module_name="tests_two_thrift"
)
ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
SERVICES = {ONE: ONE_IDL.Hbase, TWO: TWO_IDL.THBaseService}

PUT = ONE_IDL.Mutation(isDelete=False, column=b"f:q", value=b"v")
DELETE = ONE_IDL.Mutation(isDelete=True, column=b"f:d")
COUNT = ONE_IDL.TIncrement(table=b"t", row=b"r", column=b"f:q", ammount=1)
VALUE = TWO_IDL.TColumnValue(family=b"f", qualifier=b"q", value=b"v")
TPUT = TWO_IDL.TPut(row=b"r", columnValues=[VALUE])
TDELETE = TWO_IDL.TDelete(row=b"r", columns=[TWO_IDL.TColumn(family=b"f", qualifier=b"q")])
TINCREMENT = TWO_IDL.TIncrement(
    row=b"r", columns=[TWO_IDL.TColumnIncrement(family=b"f", qualifier=b"q", amount=1)]
)
MUTATIONS = TWO_IDL.TRowMutations(row=b"r", mutations=[TWO_IDL.TMutation(put=TPUT)])
ROW = {"tableName": b"t", "row": b"r"}
CHECK = {"table": b"t", "row": b"r", "family": b"f", "qualifier": b"c", "value": b"x"}


def batch(*mutations: Any) -> dict[str, Any]:
    return {
        "tableName": b"t",
        "rowBatches": [ONE_IDL.BatchMutation(row=b"r", mutations=[each]) for each in mutations],
    }


EMPTY = StructWriter().end()
TRUE = StructWriter().bool(0, value=True).end()
FALSE = StructWriter().bool(0, value=False).end()
COUNTER = StructWriter().i64(0, 5).end()
TCELL = StructWriter().binary(1, b"v").i64(2, 9).end()
CELLS = StructWriter().structs(0, [TCELL]).end()
HELD = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").i64(4, 9).end()
RESULT = StructWriter().struct(0, StructWriter().structs(2, [HELD]).end()).end()
NONE_LEFT = StructWriter().structs(0, []).end()
ONE_LEFT = StructWriter().structs(0, [StructWriter().binary(1, b"r").end()]).end()

FATES = ("ok", "false", "IOError", "IllegalArgument", "cut before", "cut after", "half", "timeout")
TOLD = {"A": Outcome.APPLIED, "U": Outcome.UNKNOWN, "N": None}
"""Applied, unknown, no event."""

ARGUMENTS: dict[tuple[Dialect, str], dict[str, Any]] = {
    (ONE, "mutateRow"): {**ROW, "mutations": [PUT]},
    (ONE, "mutateRowTs"): {**ROW, "mutations": [PUT], "timestamp": 5},
    (ONE, "mutateRows"): batch(PUT),
    (ONE, "mutateRowsTs"): {**batch(PUT), "timestamp": 5},
    (ONE, "atomicIncrement"): {**ROW, "column": b"f:q", "value": 5},
    (ONE, "increment"): {"increment": COUNT},
    (ONE, "incrementRows"): {"increments": [COUNT]},
    (ONE, "append"): {
        "append": ONE_IDL.TAppend(table=b"t", row=b"r", columns=[b"f:q"], values=[b"v"])
    },
    (ONE, "checkAndPut"): {**ROW, "column": b"f:c", "value": b"x", "mput": PUT},
    (ONE, "deleteAll"): {**ROW, "column": b"f:q"},
    (ONE, "deleteAllTs"): {**ROW, "column": b"f:q", "timestamp": 5},
    (ONE, "deleteAllRow"): ROW,
    (ONE, "deleteAllRowTs"): {**ROW, "timestamp": 5},
    (TWO, "put"): {"table": b"t", "tput": TPUT},
    (TWO, "putMultiple"): {"table": b"t", "tputs": [TPUT]},
    (TWO, "checkAndPut"): {**CHECK, "tput": TPUT},
    (TWO, "deleteSingle"): {"table": b"t", "tdelete": TDELETE},
    (TWO, "deleteMultiple"): {"table": b"t", "tdeletes": [TDELETE]},
    (TWO, "checkAndDelete"): {**CHECK, "tdelete": TDELETE},
    (TWO, "increment"): {"table": b"t", "tincrement": TINCREMENT},
    (TWO, "append"): {"table": b"t", "tappend": TWO_IDL.TAppend(row=b"r", columns=[VALUE])},
    (TWO, "mutateRow"): {"table": b"t", "trowMutations": MUTATIONS},
    (TWO, "checkAndMutate"): {**CHECK, "compareOp": 0, "rowMutations": MUTATIONS},
}

# The reply that says ok, the one that says false, and what is told for each of FATES in order.
# A dash: the method has no such reply.
TABLE = [
    (ONE, "mutateRow", EMPTY, None, "A - U N N U U U"),
    (ONE, "mutateRowTs", EMPTY, None, "A - U N N U U U"),
    (ONE, "mutateRows", EMPTY, None, "A - U N N U U U"),
    (ONE, "mutateRowsTs", EMPTY, None, "A - U N N U U U"),
    (ONE, "atomicIncrement", COUNTER, None, "A - U N N U U U"),
    (ONE, "increment", EMPTY, None, "U - U U N U U U"),
    (ONE, "incrementRows", EMPTY, None, "U - U U N U U U"),
    (ONE, "append", CELLS, None, "A - U U N U U U"),
    (ONE, "checkAndPut", TRUE, FALSE, "A N U N N U U U"),
    (ONE, "deleteAll", EMPTY, None, "A - U U N U U U"),
    (ONE, "deleteAllTs", EMPTY, None, "A - U U N U U U"),
    (ONE, "deleteAllRow", EMPTY, None, "A - U U N U U U"),
    (ONE, "deleteAllRowTs", EMPTY, None, "A - U U N U U U"),
    (TWO, "put", EMPTY, None, "A - U U N U U U"),
    (TWO, "putMultiple", EMPTY, None, "A - U U N U U U"),
    (TWO, "checkAndPut", TRUE, FALSE, "A N U U N U U U"),
    (TWO, "deleteSingle", EMPTY, None, "A - U U N U U U"),
    (TWO, "deleteMultiple", NONE_LEFT, ONE_LEFT, "A U U U N U U U"),
    (TWO, "checkAndDelete", TRUE, FALSE, "A N U U N U U U"),
    (TWO, "increment", RESULT, None, "A - U U N U U U"),
    (TWO, "append", RESULT, None, "A - U U N U U U"),
    (TWO, "mutateRow", EMPTY, None, "A - U U N U U U"),
    (TWO, "checkAndMutate", TRUE, FALSE, "A N U U N U U U"),
]
CASES = [
    pytest.param(
        dialect,
        method,
        said_false if fate == "false" else said_ok,
        fate,
        TOLD[letter],
        id=f"{dialect.value} {method}: {fate}",
    )
    for dialect, method, said_ok, said_false, letters in TABLE
    for fate, letter in zip(FATES, letters.split(), strict=True)
    if letter != "-"
]


def request(dialect: Dialect, method: str, arguments: dict[str, Any]) -> bytes:
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(method, TMessageType.CALL, 0)
    protocol.write_struct(getattr(SERVICES[dialect], f"{method}_args")(**arguments))
    protocol.write_message_end()
    buffer.flush()
    return bytes(buffer.getvalue())


def reply(method: str, body: bytes) -> bytes:
    return write_message(Transport.BUFFERED, method, MessageType.REPLY, 0, body)


def failure(field: int) -> bytes:
    return StructWriter().struct(field, StructWriter().binary(1, b"boom").end()).end()


def told(messages: list[Any]) -> list[tuple[Outcome, list[tuple[UpdateKind, bytes]]]]:
    """The outcome of each request, with kind and column of its cells."""
    found = []
    for each in messages:
        assert isinstance(each, UpdateBatch), each
        cells = iter(zip(map(UpdateKind, each.kinds), each.columns, strict=True))
        found += [
            (part.outcome, [next(cells) for _ in range(part.cells)]) for part in each.requests
        ]
    return found


def test_the_table_has_every_method_that_writes() -> None:
    writes = [
        (dialect, method.name)
        for dialect, methods in METHODS.items()
        for method in methods.values()
        if method.effect is Effect.WRITE
    ]
    assert sorted((d.value, m) for d, m, *_ in TABLE) == sorted((d.value, m) for d, m in writes)
    assert len(TABLE) == 23


@pytest.mark.parametrize(("dialect", "method", "said", "fate", "outcome"), CASES)
def test_each_end_of_each_write_is_told_as_what_it_may_have_done(
    loopback, fates, monkeypatch, dialect, method, said, fate, outcome
) -> None:
    body = {"IOError": failure(1), "IllegalArgument": failure(2)}.get(fate, said)
    does = {
        "cut before": fates.ABSENT,
        "cut after": fates.CUT,
        "half": fates.HALF,
        "timeout": fates.SILENT,
    }.get(fate, fates.ANSWER)
    monkeypatch.setattr(session_module, "_ORPHAN_SECONDS", 0.02)
    sent, answer = request(dialect, method, ARGUMENTS[dialect, method]), reply(method, body)

    async def script(scene: Any) -> list[Any]:
        await scene.open(does, answer)
        reader, writer = await scene.connect()
        writer.write(sent)
        if does is fates.SILENT:
            await scene.until(lambda: len(scene.requests) == 1)
            writer.transport.abort()
        elif does is fates.ANSWER:
            assert await reader.readexactly(len(answer)) == answer
        else:
            received = await reader.read()
            if does is fates.HALF:
                assert received == answer[: len(answer) // 2]
            elif does is fates.CUT:
                assert received == b""
            else:
                assert b"cannot be reached" in received
        writer.close()
        messages = await scene.settled()
        assert scene.requests == ([] if does is fates.ABSENT else [sent])
        assert scene.journal.unsettled == 0
        return messages

    found = told(loopback(dialect).run(script))
    assert [outcome for outcome, _ in found] == ([] if outcome is None else [outcome])


def answered(
    loopback: Callable[[Dialect], Any], fates: Any, sent: bytes, answer: bytes
) -> list[Any]:
    """What is told of a Thrift1 request that is answered so."""

    async def script(scene: Any) -> list[Any]:
        await scene.open(fates.ANSWER, answer)
        reader, writer = await scene.connect()
        writer.write(sent)
        await reader.readexactly(len(answer))
        writer.close()
        return await scene.settled()

    return loopback(ONE).run(script)


def test_a_batch_that_failed_in_part_is_unknown_in_all_its_cells(loopback, fates) -> None:
    sent = request(ONE, "mutateRows", batch(PUT, DELETE))
    found = told(answered(loopback, fates, sent, reply("mutateRows", failure(1))))
    cells = [(UpdateKind.PUT, b"f:q"), (UpdateKind.DELETE_COLUMN, b"f:d")]
    assert found == [(Outcome.UNKNOWN, cells)]


def test_an_illegal_argument_after_the_first_of_two_calls_is_unknown(loopback, fates) -> None:
    sent = request(ONE, "mutateRow", {**ROW, "mutations": [PUT, DELETE]})
    found = told(answered(loopback, fates, sent, reply("mutateRow", failure(2))))
    assert [outcome for outcome, _ in found] == [Outcome.UNKNOWN]


def test_a_row_mutation_deletes_and_then_puts(loopback, fates) -> None:
    sent = request(ONE, "mutateRow", {**ROW, "mutations": [PUT, DELETE]})
    found = told(answered(loopback, fates, sent, reply("mutateRow", EMPTY)))
    cells = [(UpdateKind.DELETE_COLUMN, b"f:d"), (UpdateKind.PUT, b"f:q")]
    assert found == [(Outcome.APPLIED, cells)]


def test_a_column_without_qualifier_is_a_deleted_family_and_an_ignored_put(loopback, fates) -> None:
    family = ONE_IDL.Mutation(isDelete=True, column=b"f")
    ignored = ONE_IDL.Mutation(isDelete=False, column=b"g", value=b"v")
    sent = request(ONE, "mutateRow", {**ROW, "mutations": [family, ignored]})
    found = told(answered(loopback, fates, sent, reply("mutateRow", EMPTY)))
    assert found == [(Outcome.APPLIED, [(UpdateKind.DELETE_FAMILY, b"f:")])]


def test_an_increment_that_may_be_coalesced_asks_for_a_read(loopback, fates) -> None:
    sent = request(ONE, "incrementRows", {"increments": [COUNT, COUNT]})
    found = told(answered(loopback, fates, sent, reply("incrementRows", EMPTY)))
    assert found == [(Outcome.UNKNOWN, [(UpdateKind.INCREMENT_DELTA, b"f:q")] * 2)]


def test_a_table_that_was_dropped_while_the_connection_broke_is_unknown(loopback, fates) -> None:
    sent = request(ONE, "deleteTable", {"tableName": b"t"})

    async def script(scene: Any) -> list[Any]:
        await scene.open(fates.CUT, b"")
        reader, writer = await scene.connect()
        writer.write(sent)
        await reader.read()
        writer.close()
        return await scene.settled()

    (change,) = loopback(ONE).run(script)
    assert isinstance(change, TableChange)
    assert change.outcome is Outcome.UNKNOWN
