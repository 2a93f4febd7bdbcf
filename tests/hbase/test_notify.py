"""Notify cells in requests: as the independent encoder would have put them there, or not at all."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.events import UpdateKind
from headgate.hbase import (
    METHODS,
    NOTIFIABLE,
    Dialect,
    Effect,
    Room,
    Write,
    decode_request,
    lacks_notify_family,
    with_notify,
)
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    StructWriter,
    Transport,
    transcode,
    write_message,
)

CELLS = ((b"all", b"1735689600000"), (b"flow", b"1735689600000 run-1"))

names = st.binary(min_size=1, max_size=6).map(lambda name: name.replace(b":", b"_"))
columns = names | st.tuples(names | st.just(b"hg"), st.binary(max_size=6)).map(b":".join)
timestamps = st.integers(0, 2**62)
mutations = st.lists(
    st.tuples(st.booleans(), columns | st.just(b"hg"), st.binary(max_size=20), st.booleans()),
    max_size=4,
)


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def check(dialect: Dialect, before: bytes, after: bytes) -> None:
    """Notify cells make the one message of the other, however it is sent; equal: there are none."""
    for transport in Transport:
        for protocol in Protocol:
            message = with_notify(dialect, sent(before, protocol, transport), CELLS)
            assert message == (None if before == after else sent(after, protocol, transport))


def sent(data: bytes, protocol: Protocol, transport: Transport) -> Message:
    """Return a message of strict binary as a client of that protocol and transport sends it."""
    message = transcode(read(data), protocol, transport)
    reader = MessageReader()
    reader.feed(message.raw)
    assert reader.next_message() == message
    return message


def one_marked(one, wanted: list) -> list:
    """The row's mutations in Thrift1, with those that set its notify cells where they belong."""
    written = any(is_delete or b":" in column for is_delete, column, _, _ in wanted)
    hidden = any(is_delete and column == b"hg" for is_delete, column, _, _ in wanted)
    added = [(False, b"hg:" + qualifier, value, True) for qualifier, value in CELLS]
    return one_mutations(one, (added if written and not hidden else []) + wanted)


def one_mutations(one, wanted: list) -> list:
    return [
        one.Mutation(isDelete=is_delete, column=column, value=value, writeToWAL=to_wal)
        for is_delete, column, value, to_wal in wanted
    ]


@settings(deadline=None)
@given(row=names, wanted=mutations, timestamp=timestamps)
def test_a_row_of_thrift1_gets_its_cells_before_its_own(encoder, row, wanted, timestamp):
    one = encoder.one
    for method, more in (("mutateRow", {}), ("mutateRowTs", {"timestamp": timestamp})):
        before, after = (
            encoder.call(
                Dialect.THRIFT1,
                method,
                tableName=b"t",
                row=row,
                mutations=made(one, wanted),
                attributes={b"a": b"b"},
                **more,
            )
            for made in (one_mutations, one_marked)
        )
        check(Dialect.THRIFT1, before, after)


@settings(deadline=None)
@given(batch=st.lists(st.tuples(names, mutations), max_size=4), timestamp=timestamps)
def test_each_row_of_a_batch_of_thrift1_gets_its_cells(encoder, batch, timestamp):
    one = encoder.one
    for method, more in (("mutateRows", {}), ("mutateRowsTs", {"timestamp": timestamp})):
        before, after = (
            encoder.call(
                Dialect.THRIFT1,
                method,
                tableName=b"t",
                rowBatches=[
                    one.BatchMutation(row=row, mutations=made(one, wanted)) for row, wanted in batch
                ],
                **more,
            )
            for made in (one_mutations, one_marked)
        )
        check(Dialect.THRIFT1, before, after)


values = st.lists(
    st.tuples(names, st.binary(max_size=6), st.binary(max_size=9), st.none() | timestamps),
    max_size=3,
)
puts = st.tuples(values, st.none() | timestamps)


def two_put(two, row: bytes, put: tuple, *, marked: bool):
    wanted, timestamp = put
    if marked and wanted:
        wanted = [(b"hg", qualifier, value, None) for qualifier, value in CELLS] + wanted
    return two.TPut(
        row=row,
        timestamp=timestamp,
        columnValues=[
            two.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=own)
            for family, qualifier, value, own in wanted
        ],
        attributes={b"a": b"b"},
        durability=two.TDurability.ASYNC_WAL,
    )


@settings(deadline=None)
@given(put=puts)
def test_a_put_of_thrift2_gets_its_cells_before_its_own(encoder, put):
    two = encoder.two
    check_fields = {"row": b"r", "family": b"f", "qualifier": b"q", "value": b"v"}
    for method, name, more in (("put", "tput", {}), ("checkAndPut", "tput", check_fields)):
        before, after = (
            encoder.call(
                Dialect.THRIFT2,
                method,
                table=b"t",
                **{name: two_put(two, b"r", put, marked=marked)},
                **more,
            )
            for marked in (False, True)
        )
        check(Dialect.THRIFT2, before, after)


@settings(deadline=None)
@given(batch=st.lists(st.tuples(names, puts), max_size=4))
def test_each_put_of_a_batch_of_thrift2_gets_its_cells(encoder, batch):
    two = encoder.two
    before, after = (
        encoder.call(
            Dialect.THRIFT2,
            "putMultiple",
            table=b"t",
            tputs=[two_put(two, row, put, marked=marked) for row, put in batch],
        )
        for marked in (False, True)
    )
    check(Dialect.THRIFT2, before, after)


def test_a_mutation_without_a_qualifier_that_does_not_say_it_deletes_writes_nothing() -> None:
    ignored = StructWriter().binary(2, b"f").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [ignored]).end()
    raw = write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 1, body)
    assert with_notify(Dialect.THRIFT1, read(raw), CELLS) is None


@pytest.mark.parametrize("field", [1, 2])
def test_a_field_of_another_type_is_no_mutation(field: int) -> None:
    cell = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    put = StructWriter().binary(1, b"r").structs(2, [cell]).end()

    def marked(mutation: bytes) -> bytes:
        row = StructWriter().binary(1, b"r").structs(2, [mutation]).end()
        body = StructWriter().binary(1, b"t").struct(2, row).end()
        raw = write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 1, body)
        found = with_notify(Dialect.THRIFT2, read(raw), CELLS)
        assert found is not None
        return found.raw

    other = StructWriter().i64(field, 5).end()[:-1]
    begin = StructWriter().struct(1, put).end()
    assert marked(other + begin).replace(other, b"") == marked(begin)


deletes = st.lists(st.sampled_from([b"f", b"g", b"hg"]), max_size=2)


def row_mutations(two, wanted: list, *, marked: bool):
    """Mutations of row r in Thrift2: the last put that puts something gets the cells."""
    hidden = any(not families or b"hg" in families for kind, families in wanted if kind == "delete")
    able = [at for at, (kind, put) in enumerate(wanted) if kind == "put" and put[0]]
    found = []
    for at, (kind, what) in enumerate(wanted):
        if kind == "put":
            mark = marked and not hidden and at == able[-1:][0] if able else False
            found.append(two.TMutation(put=two_put(two, b"r", what, marked=mark)))
        else:
            listed = [two.TColumn(family=family) for family in what]
            found.append(two.TMutation(deleteSingle=two.TDelete(row=b"r", columns=listed)))
    if marked and wanted and not hidden and not able:
        cells = [
            two.TColumnValue(family=b"hg", qualifier=qualifier, value=value)
            for qualifier, value in CELLS
        ]
        found.insert(0, two.TMutation(put=two.TPut(row=b"r", columnValues=cells)))
    return two.TRowMutations(row=b"r", mutations=found)


@settings(deadline=None)
@given(
    wanted=st.lists(
        st.tuples(st.just("put"), puts) | st.tuples(st.just("delete"), deletes), max_size=4
    )
)
def test_mutations_of_a_row_of_thrift2_get_its_cells_into_a_put(encoder, wanted):
    two = encoder.two
    check_fields = {
        "row": b"r",
        "family": b"f",
        "qualifier": b"q",
        "compareOp": two.TCompareOp.EQUAL,
        "value": b"v",
    }
    for method, name, more in (
        ("mutateRow", "trowMutations", {}),
        ("checkAndMutate", "rowMutations", check_fields),
    ):
        before, after = (
            encoder.call(
                Dialect.THRIFT2,
                method,
                table=b"t",
                **{name: row_mutations(two, wanted, marked=marked)},
                **more,
            )
            for marked in (False, True)
        )
        check(Dialect.THRIFT2, before, after)


def test_what_a_request_writes_stays_the_same_but_for_its_notify_cells(case):
    message = read(case.encoded)
    marked = with_notify(case.dialect, message, CELLS)
    if marked is None:
        return
    before = decode_request(case.dialect, message)
    after = decode_request(case.dialect, marked)
    assert isinstance(before, Write)
    assert isinstance(after, Write)
    own = [at for at, column in enumerate(after.cells.columns) if not column.startswith(b"hg:")]
    assert after.cells.taken(own) == before.cells
    assert (after.origins, after.conditional) == (before.origins, before.conditional)
    assert len(after.cells) > len(before.cells)
    kinds = {after.cells.kinds[at] for at in range(len(after.cells)) if at not in own}
    assert kinds == {UpdateKind.PUT}
    assert set(after.cells.rows) == set(before.cells.rows)


def test_a_method_with_no_room_is_left_alone_and_says_why(case):
    place = NOTIFIABLE[case.dialect][case.method]
    if place.room is Room.NONE:
        assert place.reason
        assert with_notify(case.dialect, read(case.encoded), CELLS) is None


def test_each_method_that_writes_has_a_place_or_a_reason():
    for dialect, methods in METHODS.items():
        writing = {name for name, method in methods.items() if method.effect is Effect.WRITE}
        assert set(NOTIFIABLE[dialect]) == writing


def test_without_cells_there_is_nothing_to_add(cases):
    assert all(with_notify(case.dialect, read(case.encoded), ()) is None for case in cases)


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_a_damaged_request_is_refused_or_marked_but_breaks_nothing(cases, data):
    case = data.draw(st.sampled_from(cases))
    message = read(case.encoded)
    raw = bytearray(message.raw)
    at = data.draw(st.integers(message.body, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    damaged = Message(
        bytes(raw), message.body, message.name, message.type, message.seqid, message.transport
    )
    with suppress(ProtocolError):
        with_notify(case.dialect, damaged, CELLS)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("NoSuchColumnFamilyException: Column family hg does not exist in region t,,1", True),
        ("NoSuchColumnFamilyException: Column family f does not exist in region t,,1", False),
        ("Column family hg does not exist", False),
    ],
)
def test_a_missing_family_is_told_from_other_refusals(encoder, text, lacks):
    error = encoder.one.IOError(message=text.encode())
    reply = encoder.reply(Dialect.THRIFT1, "mutateRow", io=error)
    assert lacks_notify_family(read(reply)) is lacks
