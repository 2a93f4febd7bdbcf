"""Random writes survive the independent encoder; damaged ones are refused, never guessed at."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.events import ORIGIN_ATTRIBUTE, Origin, UpdateKind, encode_origin, encode_origin_text
from headgate.hbase import Dialect, Write, decode_request, judge
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    ProtocolError,
    Transport,
)

names = st.binary(min_size=1, max_size=6).map(lambda name: name.replace(b":", b"_"))
columns = st.tuples(names, st.binary(max_size=6)).map(b":".join)
timestamps = st.integers(0, 2**62)


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def written(dialect: Dialect, message: Message) -> Write:
    request = decode_request(dialect, message)
    assert isinstance(request, Write)
    return request


puts = st.lists(
    st.tuples(names, st.lists(st.tuples(columns, st.binary(max_size=20)), max_size=4)), max_size=5
)


@settings(deadline=None)
@given(batch=puts, timestamp=timestamps)
def test_batches_of_thrift1_come_out_as_they_went_in(encoder, batch, timestamp):
    one = encoder.one
    rows = [
        one.BatchMutation(
            row=row,
            mutations=[one.Mutation(column=column, value=value) for column, value in cells],
        )
        for row, cells in batch
    ]
    data = encoder.call(
        Dialect.THRIFT1, "mutateRowsTs", tableName=b"t", rowBatches=rows, timestamp=timestamp
    )
    cells = written(Dialect.THRIFT1, read(data)).cells
    expected = [(row, column, value) for row, pairs in batch for column, value in pairs]
    assert list(zip(cells.rows, cells.columns, cells.values, strict=True)) == expected
    assert cells.kinds == bytes(len(expected))
    assert cells.timestamps == [timestamp] * len(expected)


runs = st.lists(
    st.tuples(
        st.integers(1, 24),
        st.sampled_from([b"row-%03d", b"r%03d", b"r"]),
        st.sampled_from([b"%05d", b"", b"12.5"]),
        st.lists(st.sampled_from([b"f:a", b"f:b", b"f", b":"]), max_size=2),
    ),
    max_size=5,
)


@given(described=runs)
def test_runs_of_alike_rows_of_thrift1_come_out_as_they_went_in(encoder, described):
    one = encoder.one
    batch, expected = [], []
    for count, key, content, into in described:
        for number in range(count):
            row = key % number if b"%" in key else key
            value = content % number if b"%" in content else content
            mutations = [one.Mutation(column=column, value=value) for column in into]
            batch.append(one.BatchMutation(row=row, mutations=mutations))
            expected += [(row, column, value) for column in into if b":" in column]
    data = encoder.call(Dialect.THRIFT1, "mutateRows", tableName=b"t", rowBatches=batch)
    cells = written(Dialect.THRIFT1, read(data)).cells
    assert list(zip(cells.rows, cells.columns, cells.values, strict=True)) == expected
    assert cells.kinds == bytes(len(expected))
    assert cells.timestamps == [-1] * len(expected)


@given(
    lengths=st.lists(st.integers(0, 3), min_size=8, max_size=40),
    into=st.lists(
        st.tuples(st.sampled_from([b"f:a", b"f:b", b"f"]), st.booleans()), min_size=1, max_size=3
    ),
)
@example(lengths=[0, 1, 2, 3] * 3, into=[(b"f:a", False), (b"f", True)])
def test_rows_alike_but_for_lengths_come_out_as_they_went_in(encoder, lengths, into):
    """Some puts have no value, some no qualifier: then HBase ignores them."""
    one = encoder.one
    batch, expected = [], []
    for length in lengths:
        row, value = b"r" * length, b"v" * length
        mutations = [
            one.Mutation(column=column, value=value if valued else None) for column, valued in into
        ]
        batch.append(one.BatchMutation(row=row, mutations=mutations))
        expected += [
            (row, column, value if valued else b"") for column, valued in into if b":" in column
        ]
    data = encoder.call(Dialect.THRIFT1, "mutateRows", tableName=b"t", rowBatches=batch)
    cells = written(Dialect.THRIFT1, read(data)).cells
    assert list(zip(cells.rows, cells.columns, cells.values, strict=True)) == expected


alike = st.lists(
    st.tuples(
        st.integers(1, 24),
        st.sampled_from([b"row-%03d", b"r%03d", b"r"]),
        st.sampled_from([b"%05d", b"", b"12.5"]),
        st.lists(st.tuples(st.sampled_from([b"a", b""]), st.none() | st.just(7)), max_size=2),
        st.none() | st.just(9),
    ),
    max_size=5,
)


@settings(deadline=None)
@given(
    described=alike,
    named=st.sampled_from([0, 5, 20]),
    form=st.sampled_from([encode_origin, lambda origin: encode_origin_text(origin).encode()]),
)
def test_runs_of_alike_puts_of_thrift2_come_out_as_they_went_in(encoder, described, named, form):
    two = encoder.two
    origin = Origin("aqhi", "zones", "zones-17", 3)
    batch: list[Any] = []
    expected = []
    for count, key, content, into, of_row in described:
        for number in range(count):
            row = key % number if b"%" in key else key
            value = content % number if b"%" in content else content
            values = [
                two.TColumnValue(family=b"f", qualifier=name, value=value, timestamp=own)
                for name, own in into
            ]
            told = {ORIGIN_ATTRIBUTE: form(origin)} if len(batch) >= named else None
            batch.append(two.TPut(row=row, columnValues=values, timestamp=of_row, attributes=told))
            for name, own in into:
                stamp = next((stamp for stamp in (own, of_row) if stamp is not None), -1)
                expected.append((row, b"f:" + name, stamp, value))
    data = encoder.call(Dialect.THRIFT2, "putMultiple", table=b"t", tputs=batch)
    write = written(Dialect.THRIFT2, read(data))
    cells = write.cells
    found = zip(cells.rows, cells.columns, cells.timestamps, cells.values, strict=True)
    assert list(found) == expected
    assert cells.kinds == bytes(len(expected))
    told_by_all = named == 0 and bool(batch)
    assert write.writer(None) == (origin if told_by_all else None)
    assert (origin in write.origins) == (len(batch) > named)


@settings(deadline=None)
@given(
    described=st.lists(
        st.tuples(
            st.integers(1, 24),
            st.sampled_from([b"row-%03d", b"r"]),
            st.none() | st.lists(st.sampled_from([b"a", b"b", None]), max_size=2),
        ),
        max_size=5,
    )
)
def test_runs_of_alike_deletes_of_thrift2_come_out_as_they_went_in(encoder, described):
    two = encoder.two
    batch, expected = [], []
    for count, key, qualifiers in described:
        for number in range(count):
            row = key % number if b"%" in key else key
            columns = None
            if qualifiers is not None:
                columns = [two.TColumn(family=b"f", qualifier=name) for name in qualifiers]
            batch.append(two.TDelete(row=row, columns=columns))
            expected += [
                (UpdateKind.DELETE_COLUMN, row, b"f:" + (name or b"")) for name in qualifiers or ()
            ] or [(UpdateKind.DELETE_ROW, row, b"")]
    data = encoder.call(Dialect.THRIFT2, "deleteMultiple", table=b"t", tdeletes=batch)
    cells = written(Dialect.THRIFT2, read(data)).cells
    assert list(zip(cells.kinds, cells.rows, cells.columns, strict=True)) == expected
    assert cells.values == [None] * len(expected)
    assert cells.timestamps == [-1] * len(expected)


@settings(deadline=None)
@given(
    batch=st.lists(
        st.tuples(
            names,
            st.lists(
                st.tuples(names, st.binary(max_size=6), st.binary(), st.none() | timestamps),
                max_size=4,
            ),
            st.none() | timestamps,
        ),
        max_size=5,
    )
)
def test_batches_of_thrift2_come_out_as_they_went_in(encoder, batch):
    two = encoder.two
    rows = [
        two.TPut(
            row=row,
            timestamp=of_row,
            columnValues=[
                two.TColumnValue(family=family, qualifier=qualifier, value=value, timestamp=own)
                for family, qualifier, value, own in cells
            ],
        )
        for row, cells, of_row in batch
    ]
    data = encoder.call(Dialect.THRIFT2, "putMultiple", table=b"t", tputs=rows)
    cells = written(Dialect.THRIFT2, read(data)).cells
    expected = [
        (
            row,
            family + b":" + qualifier,
            next((stamp for stamp in (own, of_row) if stamp is not None), -1),
            value,
        )
        for row, parts, of_row in batch
        for family, qualifier, value, own in parts
    ]
    found = zip(cells.rows, cells.columns, cells.timestamps, cells.values, strict=True)
    assert list(found) == expected
    assert cells.kinds == bytes(len(expected))


@settings(deadline=None)
@given(
    mutations=st.lists(
        st.tuples(st.booleans(), st.sampled_from([b"f:a", b"f:b", b"f", b"g"])), max_size=8
    )
)
def test_every_mutation_of_a_row_is_told_once_with_deletes_before_puts(encoder, mutations):
    one = encoder.one
    data = encoder.call(
        Dialect.THRIFT1,
        "mutateRow",
        tableName=b"t",
        row=b"r",
        mutations=[one.Mutation(isDelete=gone, column=column) for gone, column in mutations],
    )
    write = written(Dialect.THRIFT1, read(data))
    cells = write.cells
    deletes = [column for gone, column in mutations if gone]
    puts = [column for gone, column in mutations if not gone and b":" in column]
    assert [column.rstrip(b":") for column in cells.columns] == deletes + puts
    assert [kind == UpdateKind.PUT for kind in cells.kinds] == [False] * len(deletes) + [
        True
    ] * len(puts)
    hidden = {
        position
        for position, column in enumerate(puts, len(deletes))
        if column in deletes or column.partition(b":")[0] in deletes
    }
    assert set(write.ambiguous) == hidden


@settings(deadline=None, max_examples=400)
@given(data=st.data())
def test_damaged_requests_are_decoded_or_refused(cases, data):
    case = data.draw(st.sampled_from(cases))
    whole = case.encoded
    message = read(whole)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(message.body, len(whole) - 1))] = data.draw(
            st.integers(0, 255)
        )
    again = Message(bytes(damaged), message.body, message.name, message.type, 7, Transport.BUFFERED)
    with suppress(ProtocolError):
        cells = written(case.dialect, again).cells
        columns = (cells.rows, cells.columns, cells.timestamps, cells.values)
        assert {len(column) for column in columns} == {len(cells.kinds)}


@settings(deadline=None, max_examples=400)
@given(data=st.data(), body=st.binary(max_size=60))
def test_a_reply_of_garbage_is_judged_all_the_same(cases, data, body):
    case = data.draw(st.sampled_from(cases))
    request = written(case.dialect, read(case.encoded))
    kind = data.draw(st.sampled_from(MessageType))
    reply = Message(b"head" + body, 4, case.method, kind, 7, Transport.BUFFERED)
    judgement = judge(case.dialect, request, reply)
    assert len(judgement.cells.values) == len(request.cells.values)
