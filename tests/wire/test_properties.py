"""Any struct survives any cutting of the stream; no bytes whatever do more than raise."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.wire import (
    Cursor,
    Limits,
    MalformedMessage,
    Message,
    MessageReader,
    MessageType,
    Protocol,
    ProtocolError,
    StructWalker,
    StructWriter,
    Transport,
    to_binary,
    transcode,
    write_message,
)
from headgate.wire.compact_walker import CompactWalker

LIMITS = Limits(max_frame=100_000, max_string=10_000, max_container=1_000, max_depth=16)

fields = st.integers(min_value=-(2**15), max_value=2**15 - 1)


def written(parts: list[tuple]) -> bytes:
    writer = StructWriter()
    for kind, field, value in parts:
        getattr(writer, kind)(field, value)
    return writer.end()


flat = st.one_of(
    st.tuples(st.just("bool"), fields, st.booleans()),
    st.tuples(st.just("i32"), fields, st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("i64"), fields, st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("binary"), fields, st.binary(max_size=40)),
    st.tuples(st.just("binaries"), fields, st.lists(st.binary(max_size=5), max_size=5)),
    st.tuples(
        st.just("mapping"),
        fields,
        st.dictionaries(st.binary(max_size=5), st.binary(max_size=5), max_size=4),
    ),
)

structs = st.recursive(
    st.lists(flat, max_size=4).map(written),
    lambda inner: st.lists(
        st.one_of(
            flat,
            st.tuples(st.just("struct"), fields, inner),
            st.tuples(st.just("structs"), fields, st.lists(inner, max_size=4)),
        ),
        max_size=4,
    ).map(written),
    max_leaves=12,
)


def batch(like: bytes, other: bytes) -> bytes:
    """Return a struct with a list long enough for the walker to learn its rows, one of them odd."""
    return StructWriter().structs(1, [like] * 10 + [other] + [like] * 2).i32(2, 1).end()


rows = st.lists(flat, max_size=3).map(written)
bodies_of_any_kind = st.one_of(structs, st.builds(batch, rows, rows))


@settings(deadline=None)
@given(
    bodies=st.lists(bodies_of_any_kind, min_size=1, max_size=4),
    transport=st.sampled_from(Transport),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
)
def test_messages_come_out_as_they_went_in(bodies, transport, cuts):
    sent = [
        write_message(transport, f"m{i}", MessageType.CALL, i, body)
        for i, body in enumerate(bodies)
    ]
    data = b"".join(sent)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = MessageReader(LIMITS)
    received = []
    for begin, end in pairwise(edges):
        reader.feed(data[begin:end])
        while (message := reader.next_message()) is not None:
            received.append(message)
    assert [message.raw for message in received] == sent
    assert [message.raw[message.body :] for message in received] == bodies


alike = st.lists(
    st.tuples(
        st.integers(1, 90),
        st.sampled_from([b"row-%03d", b"r%d", b"r", b"%0300d"]),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def runs_of_rows(described: list[tuple[int, bytes, int, bool]]) -> bytes:
    """Return a struct with a list of rows of which some have the same bytes but for strings."""
    rows = []
    for count, key, cells, flag in described:
        for number in range(count):
            name = key % number if b"%" in key else key
            values = [StructWriter().bool(1, flag).binary(3, name).end() for _ in range(cells)]
            rows.append(StructWriter().binary(1, name).structs(2, values).end())
    return StructWriter().structs(1, rows).structs(2, rows[::-1]).i32(3, 1).end()


def compacted(body: bytes) -> Message:
    head = Message(body, 0, "m", MessageType.CALL, 1, Transport.BUFFERED)
    return transcode(head, Protocol.COMPACT, Transport.BUFFERED)


@settings(deadline=None)
@given(body=alike.map(runs_of_rows))
def test_a_struct_comes_back_from_compact_as_it_was(body):
    again = to_binary(compacted(body))
    assert again.raw[again.body :] == body


@settings(deadline=None)
@given(
    body=st.one_of(bodies_of_any_kind, alike.map(runs_of_rows)),
    trailing=st.sampled_from([b"", b"\x18\x01r"]),
    cuts=st.lists(st.integers(0, 20_000), max_size=8),
)
def test_a_struct_in_compact_ends_at_one_place_however_it_comes(body, trailing, cuts):
    message = compacted(body)
    data = message.raw + trailing
    walker = CompactWalker(Limits())
    walker.begin(message.body)
    for cut in sorted(min(cut, len(message.raw) - 1) for cut in cuts):
        assert walker.walk(data[:cut], 0) == -1
        assert walker.needed > cut
    assert walker.walk(data, 0) == len(message.raw)


@settings(deadline=None)
@given(body=bodies_of_any_kind)
def test_walker_and_cursor_find_the_same_end(body):
    walker = StructWalker(LIMITS)
    walker.begin(0)
    cursor = Cursor(body, 0)
    cursor.skip(12)
    assert walker.walk(body + b"\x0b", 0) == cursor.pos == len(body)


@settings(deadline=None)
@given(body=bodies_of_any_kind, data=st.data())
def test_damaged_structs_are_walked_read_or_refused(body, data):
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    walker = StructWalker(LIMITS)
    walker.begin(0)
    try:
        end = walker.walk(bytes(damaged), 0)
    except ProtocolError:
        return
    try:
        cursor = Cursor(bytes(damaged), 0)
        cursor.skip(12)
    except MalformedMessage:
        assert end == -1, "the cursor refuses what the walker has found whole"
    else:
        assert end == cursor.pos


@settings(deadline=None, max_examples=300)
@given(
    head=st.sampled_from(
        [
            b"",
            write_message(Transport.BUFFERED, "get", MessageType.CALL, 1, b""),
            struct.pack(">i", 200)
            + write_message(Transport.BUFFERED, "get", MessageType.CALL, 1, b""),
        ]
    ),
    garbage=st.lists(st.binary(max_size=200), max_size=5),
)
def test_garbage_is_refused_or_waits_for_more_and_is_never_stored_beyond_the_limit(head, garbage):
    reader = MessageReader(LIMITS)
    fed = 0
    with suppress(ProtocolError):
        for part in [head, *garbage]:
            reader.feed(part)
            fed += len(part)
            while (message := reader.next_message()) is not None:
                fed -= len(message.raw)
        assert reader.buffered == fed
