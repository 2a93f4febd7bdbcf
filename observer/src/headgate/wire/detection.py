"""What a peer speaks, detected from the first bytes of its connection."""

from __future__ import annotations

from typing import Final

from headgate.wire.compact import PROTOCOL_ID, VERSION, VERSION_BITS
from headgate.wire.errors import MalformedMessage, UnsupportedProtocol
from headgate.wire.message import MessageType, Protocol, Transport, WireFormat
from headgate.wire.writer import ApplicationError, StructWriter, write_message

_ENOUGH = 6  # bytes: a frame's length and the two that name the protocol inside it
_HEADED = 12  # bytes of a frame of THeader, to where its sequence number ends

_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")
_SASL_STATES = (1, 2, 3, 4, 5)  # START, OK, BAD, ERROR, COMPLETE
_LONGEST_MECHANISM = 20  # characters: RFC 4422, section 3.1
_SASL_BAD = 3
_SASL_REFUSALS = (_SASL_BAD, 4)  # of a server, with a reason
_LONGEST_REASON = 4095  # bytes: more than any that HBase gives
_JSON = 0x5B  # the bracket that opens a message of TJSONProtocol
_TLS_RECORDS = (0x15, 0x16)  # an alert, a handshake: RFC 8446, section 5.1
_TLS_ALERT = bytes((0x15, 3, 1, 0, 2, 2, 10))  # fatal, unexpected_message: RFC 8446, section 6

_SETTING = "use TBinaryProtocol or TCompactProtocol in the client"

_FORMATS: Final = {
    (transport, protocol): WireFormat(transport, protocol)
    for transport in Transport
    for protocol in Protocol
}


def detect(head: bytes | bytearray) -> WireFormat | None:
    """Return what the peer of a connection that begins with ``head`` speaks.

    None when more bytes are needed to know.

    Raises:
        UnsupportedProtocol: HTTP, TLS, SASL, JSON or THeader.
        MalformedMessage: nothing that is known.
    """
    if len(head) < 2:
        return None
    first, second = head[0], head[1]
    if first == 0x80 and second == 0x01:
        return _FORMATS[Transport.BUFFERED, Protocol.BINARY]
    if first == PROTOCOL_ID and second & VERSION_BITS == VERSION:
        return _FORMATS[Transport.BUFFERED, Protocol.COMPACT]
    if first in _TLS_RECORDS and second == 0x03:
        cure = "this port takes plain connections: turn TLS off in the client"
        raise UnsupportedProtocol("TLS", cure, _TLS_ALERT)
    if len(head) < 4:
        return None
    if bytes(head[:4]) in _HTTP:
        cure = "use a socket transport instead of THttpClient (hbase.regionserver.thrift.http)"
        raise UnsupportedProtocol("HTTP", cure, _http_answer(cure))
    if len(head) < _ENOUGH:
        return None
    third, fourth = head[4], head[5]
    if third == 0x80 and fourth == 0x01:
        return _FORMATS[Transport.FRAMED, Protocol.BINARY]
    if third == PROTOCOL_ID and fourth & VERSION_BITS == VERSION:
        return _FORMATS[Transport.FRAMED, Protocol.COMPACT]
    length = int.from_bytes(head[1:5], "big")
    if (first in _SASL_STATES and 0 < length <= _LONGEST_MECHANISM and _is_capital(fourth)) or (
        first in _SASL_REFUSALS and 0 < length <= _LONGEST_REASON and _is_printable(fourth)
    ):
        cure = "this port has no SASL: unset hbase.thrift.security.qop and connect without Kerberos"
        raise UnsupportedProtocol("SASL", cure, _sasl_answer(cure))
    if first == 0 and second == 0 and _is_letter(third) and _is_letter(fourth):
        return _FORMATS[Transport.BUFFERED, Protocol.OLD_BINARY]
    if third == 0x0F and fourth == 0xFF:
        if len(head) < _HEADED:
            return None
        raise UnsupportedProtocol("THeader", _SETTING, _header_answer(bytes(head[8:_HEADED])))
    if first == _JSON or third == _JSON:
        raise UnsupportedProtocol("JSON", _SETTING, _json_answer(framed=first != _JSON))
    if first < 0x80 and third == 0 and fourth == 0:
        return _FORMATS[Transport.FRAMED, Protocol.OLD_BINARY]
    found = bytes(head[:_ENOUGH]).hex(" ")
    raise MalformedMessage(
        f"a connection that begins with {found} speaks no Thrift that is known here"
    )


def _http_answer(cure: str) -> bytes:
    text = f"headgate: this port speaks Thrift over a socket, not HTTP; {cure}\n"
    head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()


def _json_answer(*, framed: bool) -> bytes:
    """Return the exception that TJSONProtocol reads: version, name, type, number, struct."""
    error = (
        f'{{"1":{{"str":"headgate: {_SETTING}"}},"2":{{"i32":{ApplicationError.PROTOCOL_ERROR}}}}}'
    )
    answer = f'[1,"",{MessageType.EXCEPTION.value},0,{error}]'.encode()
    return len(answer).to_bytes(4, "big") + answer if framed else answer


def _header_answer(sequence: bytes) -> bytes:
    """Return the exception in a frame of THeader: strict binary, without transforms."""
    error = StructWriter().binary(1, f"headgate: {_SETTING}".encode())
    body = error.i32(2, ApplicationError.PROTOCOL_ERROR).end()
    message = write_message(Transport.BUFFERED, "", MessageType.EXCEPTION, 0, body)
    # Magic and flags, the sequence number, the header's length in words, and the header: number of
    # the protocol and of the transforms, padded to a word.
    frame = b"\x0f\xff\0\0" + sequence + b"\0\1" + bytes(4) + message
    return len(frame).to_bytes(4, "big") + frame


def _sasl_answer(cure: str) -> bytes:
    text = f"headgate: {cure}".encode()
    return bytes((_SASL_BAD,)) + len(text).to_bytes(4, "big") + text


def _is_capital(byte: int) -> bool:
    return 0x41 <= byte <= 0x5A


def _is_letter(byte: int) -> bool:
    return _is_capital(byte & 0xDF)


def _is_printable(byte: int) -> bool:
    return 0x20 <= byte < 0x7F
