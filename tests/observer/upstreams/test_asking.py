"""What an upstream is asked in each format, and what its reply says."""

import pytest

from headgate.observer.upstreams.asking import FORMATS, PING, ReplyKind, call, reply_kind
from headgate.wire import (
    ApplicationError,
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    WireFormat,
    transcode,
    write_exception,
    write_message,
)


def read(raw: bytes) -> Message:
    reader = MessageReader()
    reader.feed(raw)
    message = reader.next_message()
    assert message is not None
    assert not reader.buffered
    return message


def reply(format_: WireFormat, body: bytes) -> Message:
    raw = write_message(format_.transport, PING, MessageType.REPLY, 1, body)
    return transcode(read(raw), format_.protocol, format_.transport)


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_a_call_is_whole_in_each_format(format_: WireFormat) -> None:
    message = read(call(format_, PING))
    assert (message.name, message.type, message.format) == (PING, MessageType.CALL, format_)


def test_what_cannot_be_misread_is_tried_first() -> None:
    assert list(map(str, FORMATS)) == [
        "buffered/binary",
        "buffered/compact",
        "framed/binary",
        "framed/compact",
    ]


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_replies_say_what_became_of_the_call(format_: WireFormat) -> None:
    error = StructWriter().struct(1, StructWriter().binary(1, b"no").end()).end()
    assert reply_kind(reply(format_, StructWriter().i32(0, 1).end())) is ReplyKind.RESULT
    assert reply_kind(reply(format_, error)) is ReplyKind.ERROR
    asked = read(call(format_, PING))
    refused = read(write_exception(asked, ApplicationError.UNKNOWN_METHOD, "no"))
    assert reply_kind(refused) is ReplyKind.EXCEPTION
