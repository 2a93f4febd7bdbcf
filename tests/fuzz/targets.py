"""What is fuzzed, and what must hold for every input whatever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from good_messages import (
    BATCHES,
    alike_rows,
    bodies,
    conversations,
    read,
    repeated,
    requests,
    samples,
    streams,
)
from watch import Target

from headgate.events import (
    MalformedEvent,
    decode_control,
    decode_update,
    encode_control,
    encode_update,
)
from headgate.hbase import (
    Cells,
    Dialect,
    Effect,
    Patterns,
    SchemaChange,
    Write,
    decode_request,
    dialect_of,
    io_error_reply,
    judge,
    lacks_notify_family,
    method_of,
    read_request,
    with_notify,
)
from headgate.observer import LineFormatter, control_line, update_lines
from headgate.observer.sessions.replies import KnownReplies
from headgate.wire import (
    STRUCT,
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

LIMITS: Final = Limits(max_frame=1 << 16, max_string=1 << 14, max_container=1 << 12, max_depth=16)
_COMPACT_HEAD: Final = b"\x82\x21\x01\x01x"
_CELLS: Final = ((b"all", b"1"),)


# -- one struct


def walked(walker: StructWalker | CompactWalker, data: bytes, sizes: tuple[int, ...]) -> int:
    """Return where the struct ends if it comes in pieces of these sizes; -1: not there."""
    walker.begin(0)
    end, there = -1, 0
    for size in sizes:
        there += size
        end = walker.walk(data[:there], 0)
        if end >= 0:
            return end
    return walker.walk(data, 0)


def in_pieces(walker: StructWalker | CompactWalker, data: bytes) -> int:
    """Walk a struct whole, and in pieces: the pieces must not matter."""
    try:
        end = walked(walker, data, ())
    except ProtocolError:
        with suppress(ProtocolError):
            walked(walker, data, (1,) * min(len(data), 64))
        raise
    assert walked(walker, data, (1,) * min(len(data), 64)) == end
    assert walked(walker, data, (len(data) // 2,)) == end
    return end


def strict_binary(data: bytes) -> None:
    end = in_pieces(StructWalker(LIMITS), data)
    cursor = Cursor(data, 0)
    try:
        cursor.skip(STRUCT)
    except MalformedMessage:
        assert end == -1, "the cursor refuses what the walker has found whole"
        raise
    # The cursor has no limits; what exceeds them ends above.
    assert end == cursor.pos


def old_binary(data: bytes) -> None:
    for message in messages(data):
        assert message.raw in data
        if message.protocol is Protocol.OLD_BINARY:
            strict = transcode(message, Protocol.BINARY, message.transport, LIMITS)
            assert strict.raw[strict.body :] == message.raw[message.body :]
            again = transcode(strict, Protocol.OLD_BINARY, message.transport, LIMITS)
            assert (again.name, again.type, again.seqid) == (
                message.name,
                message.type,
                message.seqid,
            )


def compact(data: bytes) -> None:
    end = in_pieces(CompactWalker(LIMITS), data)
    if end < 0:
        return
    raw = _COMPACT_HEAD + data[:end]
    message = Message(
        raw,
        len(_COMPACT_HEAD),
        "x",
        MessageType.CALL,
        1,
        Transport.BUFFERED,
        Protocol.COMPACT,
    )
    plain = to_binary(message, LIMITS)
    cursor = Cursor(plain.raw, plain.body)
    cursor.skip(STRUCT)
    assert cursor.pos == len(plain.raw), "what was expanded is not what a cursor reads"


# -- connections


def messages(data: bytes) -> Iterator[Message]:
    """Yield the messages of a stream."""
    reader = MessageReader(LIMITS)
    reader.feed(data)
    while (message := reader.next_message()) is not None:
        yield message


def arrived(data: bytes, size: int) -> tuple[list[Message], bool, int]:
    """Return messages, whether the stream was refused, and what is left over."""
    reader = MessageReader(LIMITS)
    found: list[Message] = []
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        try:
            while (message := reader.next_message()) is not None:
                found.append(message)
        except ProtocolError:
            return found, True, 0
        assert reader.buffered <= start + size
    return found, False, reader.buffered


def framer(data: bytes) -> None:
    """Detection, frames and walking: how the network cuts the stream must not matter."""
    if not data:
        return
    whole = arrived(data, len(data))
    for size in (1, 7, 61):
        assert arrived(data, size) == whole, f"in pieces of {size} it says something else"
    found, refused, left = whole
    sent = b"".join(each.raw for each in found)
    assert data.startswith(sent)
    assert refused or len(sent) + left == len(data)
    if refused:
        raise MalformedMessage("the stream is refused, whole and in pieces")


# -- transcoding


def decoded(dialect: Dialect, message: Message) -> Write | SchemaChange | None:
    """Return what a request writes; None where that cannot be read."""
    if method_of(dialect, message.name).effect not in (Effect.WRITE, Effect.DEFINE):
        return None
    try:
        return decode_request(dialect, message)
    except ProtocolError:
        return None


def transcoder(data: bytes) -> None:
    for message in messages(data):
        compacted = transcode(
            to_binary(message, LIMITS), Protocol.COMPACT, Transport.BUFFERED, LIMITS
        )
        assert read(compacted.raw) == compacted
        plain = to_binary(compacted, LIMITS)
        assert read(plain.raw) == plain
        # Once through compact, nothing is left that it writes in another way.
        again = transcode(plain, Protocol.COMPACT, Transport.FRAMED, LIMITS)
        assert again.raw[again.body :] == compacted.raw[compacted.body :]
        for dialect in Dialect:
            assert decoded(dialect, message) == decoded(dialect, plain)
            assert decoded(dialect, message) == decoded(dialect, compacted)


# -- requests and replies of HBase


def follow(dialect: Dialect, data: bytes) -> None:
    """Do to each message all that a session does; a reply is taken for that to all after it."""
    reply: Message | None = None
    for message in messages(data):
        if message.type in (MessageType.REPLY, MessageType.EXCEPTION):
            lacks_notify_family(message)
            reply = message
            continue
        dialect_of(message)
        io_error_reply(dialect, message, "no")
        request = read_request(dialect, message).change
        if request is None:
            continue
        judge(dialect, request, reply)
        if isinstance(request, Write):
            marked(dialect, message, request)


def marked(dialect: Dialect, message: Message, request: Write) -> None:
    """A request with notify cells still writes what it wrote."""
    spliced = with_notify(dialect, message, _CELLS)
    if spliced is None:
        return
    after = decode_request(dialect, spliced)
    assert isinstance(after, Write)
    assert set(rows_and_columns(request)) <= set(rows_and_columns(after))
    assert after.table == request.table


def rows_and_columns(request: Write) -> list[tuple[int, bytes, bytes]]:
    cells = request.cells
    return list(zip(cells.kinds, cells.rows, cells.columns, strict=True))


def recognition(data: bytes) -> None:
    """What is recognised by its bytes says what reading it says."""
    dialect = Dialect.THRIFT2 if data[:1] == b"\x02" else Dialect.THRIFT1
    patterns, replies = Patterns(dialect), KnownReplies()
    sample = decode_request(dialect, requests_of(dialect)[0])
    for message in messages(data[1:]):
        pattern = patterns.find(message.raw)
        if pattern is not None:
            assert pattern.message(message.raw) == message
            asked = read_request(dialect, message)
            assert pattern.tables == asked.tables
            if pattern.writes:
                put = pattern.put(message.raw)
                assert put is None or put == asked.change
        known = replies.find(message.raw)
        if known is not None:
            assert judge(dialect, sample, known) == judge(dialect, sample, message)
        replies.remember(message)
        if message.type is MessageType.CALL:
            asked = read_request(dialect, message)
            for _ in range(2):
                patterns.consider(asked)


def batches(data: bytes) -> None:
    """A batch writes what its rows write one by one; those that are alike are read together.

    The data are rows behind the mark of their method. The first is taken many times, each with
    another byte in the place of every ``#``.
    """
    if len(data) < 2:
        return
    dialect, method = BATCHES[data[0] % len(BATCHES)]
    first, *others = structs(data[1:])
    many = b"".join(first.replace(b"#", b"%c" % (97 + number)) for number in range(20))
    rows = [*structs(many), *others]
    apart = Cells.empty()
    for row in rows:
        with_one = written(dialect, method, [row])
        for column in apart.__struct_fields__:
            getattr(apart, column).extend(getattr(with_one, column))
    if dialect is Dialect.THRIFT1:
        # Its server puts all that a batch puts before it deletes.
        apart = apart.taken(sorted(range(len(apart)), key=lambda at: bool(apart.kinds[at])))
    assert written(dialect, method, rows) == apart


def structs(data: bytes) -> list[bytes]:
    cursor = Cursor(data, 0)
    found = []
    while cursor.pos < len(data):
        begin = cursor.pos
        cursor.skip(STRUCT)
        found.append(data[begin : cursor.pos])
    return found


def written(dialect: Dialect, method: str, rows: list[bytes]) -> Cells:
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    message = read(write_message(Transport.BUFFERED, method, MessageType.CALL, 1, body))
    write = decode_request(dialect, message)
    assert isinstance(write, Write)
    compacted = transcode(message, Protocol.COMPACT, Transport.BUFFERED)
    assert read(compacted.raw) == compacted
    assert decode_request(dialect, compacted) == write
    return write.cells


_requests: dict[Dialect, list[Message]] = {}


def requests_of(dialect: Dialect) -> list[Message]:
    if dialect not in _requests:
        _requests[dialect] = requests(dialect)
    return _requests[dialect]


# -- events


def updates(data: bytes) -> None:
    written = encode_update(decode_update(data))
    assert encode_update(decode_update(written)) == written


def controls(data: bytes) -> None:
    written = encode_control(decode_control(data))
    assert encode_control(decode_control(written)) == written


def event_lines(data: bytes) -> None:
    formatter = LineFormatter()
    try:
        lines = list(update_lines(decode_update(data), "t", (0, 1), 1e9, values=True))
    except MalformedEvent:
        lines = [control_line(decode_control(data), 1e9)]
    for line in lines:
        assert formatter.line(line).isprintable(), "a line moves the terminal's cursor"
        msgspec.json.encode(line)


THRIFT: Final = (ProtocolError,)
EVENTS: Final = (MalformedEvent,)
BUFFERED, FRAMED = Transport.BUFFERED, Transport.FRAMED
OLD: Final = ((BUFFERED, Protocol.OLD_BINARY), (FRAMED, Protocol.OLD_BINARY))
EVERY: Final = tuple((transport, protocol) for transport in Transport for protocol in Protocol)

TARGETS: Final = {
    target.name: target
    for target in (
        Target("strict-binary", strict_binary, THRIFT, partial(bodies, Protocol.BINARY)),
        Target("old-binary", old_binary, THRIFT, partial(streams, *OLD)),
        Target("compact", compact, THRIFT, partial(bodies, Protocol.COMPACT)),
        Target("framer", framer, THRIFT, partial(streams, *EVERY)),
        Target("transcoder", transcoder, THRIFT, partial(streams, *EVERY)),
        Target(
            "thrift1",
            partial(follow, Dialect.THRIFT1),
            THRIFT,
            partial(conversations, Dialect.THRIFT1),
        ),
        Target(
            "thrift2",
            partial(follow, Dialect.THRIFT2),
            THRIFT,
            partial(conversations, Dialect.THRIFT2),
        ),
        Target(
            "recognition",
            recognition,
            THRIFT,
            lambda: [each for dialect in Dialect for each in repeated(dialect)],
        ),
        Target("batches", batches, THRIFT, alike_rows),
        Target("updates", updates, EVENTS, samples("UPDATES")),
        Target("controls", controls, EVENTS, samples("CONTROLS")),
        Target(
            "event-lines",
            event_lines,
            EVENTS,
            lambda: samples("UPDATES")() + samples("CONTROLS")(),
        ),
    )
}
