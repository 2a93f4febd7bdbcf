"""What each kind of reply says of each mutating method."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.events import TableChangeKind, UpdateKind
from headgate.hbase import (
    METHODS,
    Dialect,
    Effect,
    ResultKind,
    SchemaChange,
    Verdict,
    Write,
    decode_request,
    io_error_reply,
    is_void,
    judge,
    method_of,
)
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_exception,
    write_message,
    write_reply,
)

ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
APPLIED, NOTHING, UNKNOWN = Verdict.APPLIED, Verdict.NOTHING, Verdict.UNKNOWN


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


RESULTS: dict[ResultKind, list[tuple[dict[str, Any], Verdict]]] = {
    # without an error, by the kind of its result: result struct -> verdict
    ResultKind.DONE: [({}, APPLIED)],
    ResultKind.QUEUED: [({}, UNKNOWN)],
    ResultKind.FLAG: [({"success": True}, APPLIED), ({"success": False}, NOTHING), ({}, UNKNOWN)],
    ResultKind.COUNTER: [({"success": 12}, APPLIED), ({}, UNKNOWN)],
    ResultKind.CELLS: [({"success": []}, APPLIED), ({}, UNKNOWN)],
    ResultKind.UNDONE: [({"success": []}, APPLIED), ({}, UNKNOWN)],
    ResultKind.RESULT: [({}, UNKNOWN)],
}


def test_every_method_is_judged_by_what_it_answers(case, encoder):
    request = decode_request(case.dialect, read(case.encoded))
    for result, verdict in RESULTS[method_of(case.dialect, case.method).result]:
        reply = read(encoder.reply(case.dialect, case.method, **result))
        judgement = judge(case.dialect, request, reply)
        expected = verdict if case.cells else NOTHING
        assert judgement.verdict is expected
        assert bool(judgement.reason) is (expected is UNKNOWN)


VALUES = {
    ResultKind.FLAG: StructWriter().bool(0, False),
    ResultKind.COUNTER: StructWriter().i64(0, 0),
    ResultKind.CELLS: StructWriter().structs(0, []),
    ResultKind.RESULT: StructWriter().struct(0, StructWriter().end()),
    ResultKind.UNDONE: StructWriter().structs(0, []),
    ResultKind.OTHER: StructWriter().i32(0, 0),
}


def test_a_value_of_another_type_than_the_method_answers_is_unknown(case):
    message = read(case.encoded)
    request = decode_request(case.dialect, message)
    own = VALUES.get(method_of(case.dialect, case.method).result)
    for value in VALUES.values():
        if own is None or value.end() != own.end():
            judgement = judge(case.dialect, request, read(write_reply(message, value.end())))
            assert judgement.verdict is (UNKNOWN if case.cells else NOTHING)


def test_a_field_of_another_type_in_an_errors_place_is_no_error(case):
    message = read(case.encoded)
    request = decode_request(case.dialect, message)
    value = VALUES.get(method_of(case.dialect, case.method).result, StructWriter()).end()
    expected = judge(case.dialect, request, read(write_reply(message, value)))
    others = StructWriter().i64(1, 5).i64(2, 6).end()[:-1]
    found = judge(case.dialect, request, read(write_reply(message, others + value)))
    assert found == expected


def test_only_a_reply_that_holds_nothing_is_void(encoder):
    request = mutate(encoder, "mutateRow", False)
    nothing = StructWriter().end()
    for protocol in Protocol:
        asked = transcode(request, protocol, Transport.BUFFERED)
        assert is_void(read(write_reply(asked, nothing)))
        assert not is_void(read(io_error_reply(ONE, asked, "no")))
        assert not is_void(read(write_exception(asked, ApplicationError.INTERNAL_ERROR, "no")))
    assert not is_void(read(write_message(Transport.BUFFERED, "m", MessageType.CALL, 1, nothing)))


def test_an_io_error_leaves_every_method_unknown_and_says_why(case, encoder):
    request = decode_request(case.dialect, read(case.encoded))
    error = (encoder.one.IOError if case.dialect is ONE else encoder.two.TIOError)(message="boom")
    reply = read(encoder.reply(case.dialect, case.method, io=error))
    judgement = judge(case.dialect, request, reply)
    assert isinstance(request, Write)
    expected = (UNKNOWN, "boom") if case.cells else (NOTHING, "")
    assert (judgement.verdict, judgement.reason) == expected
    assert judgement.cells == request.cells


def test_a_broken_connection_leaves_every_method_unknown(case):
    request = decode_request(case.dialect, read(case.encoded))
    assert judge(case.dialect, request, None).verdict is (UNKNOWN if case.cells else NOTHING)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ApplicationError.UNKNOWN_METHOD, NOTHING),
        (ApplicationError.PROTOCOL_ERROR, NOTHING),
        (ApplicationError.INVALID_MESSAGE_TYPE, NOTHING),
        (ApplicationError.INTERNAL_ERROR, UNKNOWN),
        (ApplicationError.MISSING_RESULT, UNKNOWN),
    ],
)
def test_only_errors_from_before_the_handler_prove_that_nothing_was_done(case, error, verdict):
    message = read(case.encoded)
    request = decode_request(case.dialect, message)
    judgement = judge(case.dialect, request, read(write_exception(message, error, "said so")))
    expected = verdict if case.cells else NOTHING
    assert judgement.verdict is expected
    assert judgement.reason == ("said so" if expected is UNKNOWN else "")


@pytest.mark.parametrize("transport", Transport)
def test_headgates_own_refusal_is_an_io_error_of_the_method(case, transport, encoder):
    data = case.encoded
    request = read(len(data).to_bytes(4, "big") + data if transport is Transport.FRAMED else data)
    reply = read(io_error_reply(case.dialect, request, "blocked", can_retry=False))
    assert (reply.transport, reply.seqid, reply.name) == (transport, 7, case.method)
    error = StructWriter().binary(1, b"blocked").bool(2, False).end()
    assert reply.raw[reply.body :] == StructWriter().struct(1, error).end()


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("method", ["getThriftServerType", "getClusterId", "ofALaterVersion"])
def test_a_method_without_an_io_error_is_refused_by_thrifts_own(dialect, method):
    data = write_message(Transport.BUFFERED, method, MessageType.CALL, 1, StructWriter().end())
    reply = read(io_error_reply(dialect, read(data), "blocked"))
    assert reply.type is MessageType.EXCEPTION
    assert b"blocked" in reply.raw


def mutate(encoder, method: str, *deleted: bool) -> Message:
    one = encoder.one
    mutations = [one.Mutation(isDelete=gone, column=b"f:a") for gone in deleted]
    if method.startswith("mutateRows"):
        rows = [one.BatchMutation(row=b"r", mutations=mutations)]
        return read(encoder.call(ONE, method, tableName=b"t", rowBatches=rows))
    return read(encoder.call(ONE, method, tableName=b"t", row=b"r", mutations=mutations))


@pytest.mark.parametrize("method", ["mutateRow", "mutateRowTs", "mutateRows", "mutateRowsTs"])
@pytest.mark.parametrize(
    ("deleted", "verdict"),
    [((False, False), NOTHING), ((True, True), NOTHING), ((True, False), UNKNOWN)],
    ids=["puts", "deletes", "both"],
)
def test_an_illegal_argument_does_nothing_where_the_server_makes_one_call(
    encoder, method, deleted, verdict
):
    request = decode_request(ONE, mutate(encoder, method, *deleted))
    error = encoder.one.IllegalArgument(message="KeyValue size too large")
    reply = read(encoder.reply(ONE, method, ia=error))
    assert judge(ONE, request, reply).verdict is verdict


def test_a_put_that_the_server_ignores_did_nothing(encoder):
    mutation = encoder.one.Mutation(column=b"f", value=b"1")
    message = read(encoder.call(ONE, "mutateRow", tableName=b"t", row=b"r", mutations=[mutation]))
    request = decode_request(ONE, message)
    assert judge(ONE, request, read(encoder.reply(ONE, "mutateRow"))).verdict is NOTHING


def test_a_counter_is_read_from_its_reply(encoder):
    message = encoder.call(ONE, "atomicIncrement", tableName=b"t", row=b"r", column=b"f:c", value=2)
    request = decode_request(ONE, read(message))
    assert isinstance(request, Write)
    judgement = judge(ONE, request, read(encoder.reply(ONE, "atomicIncrement", success=-3)))
    assert list(judgement.cells.kinds) == [UpdateKind.INCREMENT]
    assert judgement.cells.values == [(-3).to_bytes(8, "big", signed=True)]
    assert list(request.cells.kinds) == [UpdateKind.INCREMENT_DELTA], "the request was changed"


def append(encoder, *columns: bytes):
    appended = encoder.one.TAppend(
        table=b"t", row=b"r", columns=list(columns), values=[b"+"] * len(columns)
    )
    return decode_request(ONE, read(encoder.call(ONE, "append", append=appended)))


def test_an_append_is_read_from_its_reply_in_the_order_of_the_columns(encoder):
    request = append(encoder, b"g:a", b"f:b", b"f:a")
    cells = [encoder.one.TCell(value=value, timestamp=9) for value in (b"fa", b"fb", b"ga")]
    judgement = judge(ONE, request, read(encoder.reply(ONE, "append", success=cells)))
    assert judgement.verdict is APPLIED
    assert judgement.cells.columns == [b"g:a", b"f:b", b"f:a"]
    assert judgement.cells.values == [b"ga", b"fb", b"fa"]
    assert judgement.cells.timestamps == [9, 9, 9]
    assert set(judgement.cells.kinds) == {UpdateKind.APPEND}


def test_a_cell_without_a_timestamp_in_the_reply_has_none(encoder):
    request = append(encoder, b"f:a")
    cells = [encoder.one.TCell(value=b"fa")]
    judgement = judge(ONE, request, read(encoder.reply(ONE, "append", success=cells)))
    assert (judgement.cells.values, judgement.cells.timestamps) == ([b"fa"], [-1])


def test_an_append_whose_reply_does_not_match_stays_a_delta(encoder):
    request = append(encoder, b"f:a", b"f:b")
    cells = [encoder.one.TCell(value=b"fa", timestamp=9)]
    judgement = judge(ONE, request, read(encoder.reply(ONE, "append", success=cells)))
    assert (judgement.verdict, judgement.cells) == (APPLIED, request.cells)


@pytest.mark.parametrize("method", ["increment", "append"])
def test_results_of_thrift2_are_read_from_their_reply_where_it_has_them(encoder, method):
    two = encoder.two
    if method == "increment":
        known, delta = UpdateKind.INCREMENT, UpdateKind.INCREMENT_DELTA
        columns = [two.TColumnIncrement(family=b"f", qualifier=q) for q in (b"a", b"b")]
        arguments = {"tincrement": two.TIncrement(row=b"r", columns=columns)}
    else:
        known, delta = UpdateKind.APPEND, UpdateKind.APPEND_DELTA
        columns = [two.TColumnValue(family=b"f", qualifier=q, value=b"+") for q in (b"a", b"b")]
        arguments = {"tappend": two.TAppend(row=b"r", columns=columns)}
    request = decode_request(TWO, read(encoder.call(TWO, method, table=b"t", **arguments)))
    cell = two.TColumnValue(family=b"f", qualifier=b"b", value=b"now", timestamp=9)
    result = two.TResult(row=b"r", columnValues=[cell], stale=False, partial=False)

    judgement = judge(TWO, request, read(encoder.reply(TWO, method, success=result)))

    assert judgement.verdict is APPLIED
    assert list(judgement.cells.kinds) == [delta, known]
    assert judgement.cells.values[1] == b"now"
    assert judgement.cells.timestamps == [-1, 9]


def test_deletes_that_were_not_done_leave_the_others_unknown(encoder):
    two = encoder.two
    deletes = [two.TDelete(row=b"r"), two.TDelete(row=b"s")]
    message = read(encoder.call(TWO, "deleteMultiple", table=b"t", tdeletes=deletes))
    request = decode_request(TWO, message)
    reply = read(encoder.reply(TWO, "deleteMultiple", success=deletes[:1]))
    assert judge(TWO, request, reply).verdict is UNKNOWN


def test_definitions_are_judged_like_writes(encoder):
    request = SchemaChange("deleteTable", "t", TableChangeKind.DROPPED)
    done = read(encoder.reply(TWO, "deleteTable"))
    failed = read(encoder.reply(TWO, "deleteTable", io=encoder.two.TIOError(message="enabled")))
    assert judge(TWO, request, done).verdict is APPLIED
    assert judge(TWO, request, failed).verdict is UNKNOWN
    assert judge(TWO, request, None).verdict is UNKNOWN


@pytest.mark.parametrize("body", [b"", b"\x0b\0", b"\x0c\0\1\x0b\0\1\0\0\0\x09half"])
def test_half_a_reply_is_unknown(encoder, body):
    request = append(encoder, b"f:a")
    reply = Message(body, 0, "append", MessageType.REPLY, 7, Transport.FRAMED)
    judgement = judge(ONE, request, reply)
    assert judgement.verdict is UNKNOWN
    assert "makes no sense" in judgement.reason


def test_a_call_in_the_place_of_a_reply_is_unknown(encoder):
    message = mutate(encoder, "mutateRow", False)
    assert judge(ONE, decode_request(ONE, message), message).verdict is UNKNOWN


def test_every_method_that_writes_or_defines_has_a_known_answer():
    changing = [
        method
        for methods in METHODS.values()
        for method in methods.values()
        if method.effect in (Effect.WRITE, Effect.DEFINE)
    ]
    assert all(
        method.result is not ResultKind.OTHER and method.io_error == 1 for method in changing
    )
