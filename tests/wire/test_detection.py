"""What a peer speaks is said in words."""

from __future__ import annotations

import json
import struct

import pytest

from headgate.wire import (
    FrameTooLarge,
    Limits,
    MalformedMessage,
    MessageReader,
    MessageType,
    ProtocolError,
    StructWriter,
    Transport,
    TransportMismatch,
    UnsupportedProtocol,
    detect,
    write_message,
)

CALL = write_message(Transport.BUFFERED, "getTableNames", MessageType.CALL, 1, b"\0")
FRAMED = write_message(Transport.FRAMED, "getTableNames", MessageType.CALL, 1, b"\0")
COMPACT = bytes([0x82, 0x21, 0x01, 13]) + b"getTableNames\0"
OLD = struct.pack(">i", 13) + b"getTableNames\x01" + struct.pack(">i", 1) + b"\0"
SASL = b"\x01" + struct.pack(">i", 6) + b"GSSAPI" + b"\x02" + struct.pack(">i", 900)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


SPOKEN = {
    "buffered/binary": CALL,
    "framed/binary": FRAMED,
    "buffered/compact": COMPACT,
    "framed/compact": framed(COMPACT),
    "buffered/old binary": OLD,
    "framed/old binary": framed(OLD),
}


@pytest.mark.parametrize("spoken", SPOKEN)
def test_what_a_peer_speaks_is_recognised_from_its_first_bytes(spoken):
    data = SPOKEN[spoken]
    verdicts = [detect(data[:length]) for length in range(len(data))]
    known = [verdict for verdict in verdicts if verdict is not None]
    assert {str(verdict) for verdict in known} == {spoken}
    assert verdicts[6] is not None


OTHERS = {
    "JSON": b'[1,"getTableNames",1,0,{}]',
    "THeader": framed(b"\x0f\xff\0\0\0\0\0\1\0\1\0\0"),
    "HTTP": b"POST /hbase HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS": bytes([0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3]),
    "SASL": SASL,
}


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("spoken", OTHERS)
def test_other_protocols_are_refused_by_name_with_the_cure(spoken, whole):
    data = OTHERS[spoken]
    reader = MessageReader()

    def receive() -> None:
        for part in [data] if whole else [data[i : i + 1] for i in range(len(data))]:
            reader.feed(part)
            assert reader.next_message() is None

    with pytest.raises(UnsupportedProtocol, match=spoken) as caught:
        receive()
    assert caught.value.spoken == spoken
    assert ";" in str(caught.value), "no cure"


@pytest.mark.parametrize("state", [3, 4])
def test_a_servers_refusal_in_sasl_is_known_whatever_its_reason_says(state):
    for reason in (b"no", b"Unsupported mechanism type PLAIN", b" " * 4095):
        with pytest.raises(UnsupportedProtocol, match="SASL"):
            detect(bytes([state]) + struct.pack(">i", len(reason)) + reason)
    large = struct.pack(">i", state << 24 | 0x0C) + OLD
    assert str(detect(large)) == "framed/old binary", "a frame of 48 MiB"


def test_a_client_of_http_or_sasl_is_refused_in_its_own_words():
    for spoken, begin in (("HTTP", b"HTTP/1.1 400 Bad Request\r\n"), ("SASL", b"\x03\0\0\0")):
        with pytest.raises(UnsupportedProtocol) as caught:
            detect(OTHERS[spoken])
        assert caught.value.answer.startswith(begin)
        cure = str(caught.value).partition("; ")[2]
        assert caught.value.answer.strip().endswith(cure.encode())


@pytest.mark.parametrize("frames", [False, True])
def test_a_client_of_json_is_refused_in_json(frames):
    request = OTHERS["JSON"]
    with pytest.raises(UnsupportedProtocol) as caught:
        detect(framed(request) if frames else request)
    answer = caught.value.answer
    if frames:
        assert framed(answer[4:]) == answer
        answer = answer[4:]
    version, name, kind, seqid, error = json.loads(answer)
    assert (version, name, kind, seqid) == (1, "", 3, 0)
    assert error["1"]["str"] == "headgate: use TBinaryProtocol or TCompactProtocol in the client"
    assert error["2"] == {"i32": 7}


def test_a_client_of_theader_is_refused_in_a_frame_of_its_own():
    request = bytearray(OTHERS["THeader"])
    request[8:12] = b"\1\2\3\4"
    with pytest.raises(UnsupportedProtocol) as caught:
        detect(request)
    answer = caught.value.answer
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    magic, flags, sequence, words = struct.unpack_from(">HH4sH", answer, 4)
    assert (magic, flags, sequence, words) == (0x0FFF, 0, b"\1\2\3\4", 1)
    assert answer[14:16] == b"\0\0", "binary, and nothing transformed"
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(answer[14 + 4 * words :])
    message = reader.next_message()
    assert message is not None
    assert message.type is MessageType.EXCEPTION
    assert b"use TBinaryProtocol or TCompactProtocol" in message.raw


@pytest.mark.parametrize("data", [b"\x00" * 4 + b"\xff" * 4, b"\xde\xad\xbe\xef\xde\xad"])
def test_garbage_is_refused_with_its_first_bytes(data):
    with pytest.raises(MalformedMessage, match=data[:6].hex(" ")):
        detect(data)


@pytest.mark.parametrize(
    ("expected", "data"), [(Transport.FRAMED, CALL), (Transport.BUFFERED, FRAMED)]
)
def test_the_wrong_transport_is_said_with_both_names(expected, data):
    reader = MessageReader(transport=expected)
    reader.feed(data)
    with pytest.raises(TransportMismatch, match=f"transport that is {expected.value};"):
        reader.next_message()


def test_a_frame_beyond_the_limit_is_refused_by_its_length_alone():
    reader = MessageReader(Limits(max_frame=1000))
    reader.feed(struct.pack(">i", 1001) + CALL[:6])
    with pytest.raises(
        FrameTooLarge, match=r"1001 bytes; the limit is 1000: raise limits\.message_bytes"
    ):
        reader.next_message()


def test_a_buffered_message_beyond_the_limit_is_refused_before_it_is_there():
    body = StructWriter().binary(1, b"x" * 2000).end()
    data = write_message(Transport.BUFFERED, "get", MessageType.CALL, 1, body)
    reader = MessageReader(Limits(max_frame=1000))
    reader.feed(data[:40])
    with pytest.raises(FrameTooLarge, match=r"more than 1000 bytes; raise limits\.message_bytes"):
        reader.next_message()


def test_a_second_message_out_of_step_is_refused():
    reader = MessageReader()
    reader.feed(CALL + b"\x00\x01" + CALL)
    assert reader.next_message() is not None
    with pytest.raises(ProtocolError, match="out of step"):
        reader.next_message()


def test_a_frame_that_ends_in_its_header_is_malformed():
    reader = MessageReader()
    reader.feed(framed(CALL[:10]))
    with pytest.raises(MalformedMessage, match="ends inside its message's header"):
        reader.next_message()
