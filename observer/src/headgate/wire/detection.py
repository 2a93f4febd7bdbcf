"""What a peer speaks, told from the first bytes of its connection."""

from __future__ import annotations

from headgate.wire.errors import MalformedMessage, UnsupportedProtocol
from headgate.wire.message import Transport

_ENOUGH = 6  # bytes: a frame's length and the two that name the protocol inside it

_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")
_SASL_STATES = (1, 2, 3, 4, 5)  # START, OK, BAD, ERROR, COMPLETE
_LONGEST_MECHANISM = 20  # characters: RFC 4422, section 3.1

_SETTING = "use TBinaryProtocol on both sides (HBase: hbase.regionserver.thrift.compact off)"


def detect(head: bytes | bytearray) -> Transport | None:
    """Return the transport of a connection that begins with ``head``; None: needs more bytes.

    Raises:
        UnsupportedProtocol: compact, old binary, HTTP, TLS or SASL.
        MalformedMessage: nothing that is known.
    """
    if len(head) < 2:
        return None
    first, second = head[0], head[1]
    if first == 0x80 and second == 0x01:
        return Transport.BUFFERED
    if first == 0x82 and second & 0x1F == 1:
        raise UnsupportedProtocol("buffered/compact", _SETTING)
    if first == 0x16 and second == 0x03:
        cure = "this port takes plain connections: turn TLS off in the client"
        raise UnsupportedProtocol("TLS", cure)
    if len(head) < 4:
        return None
    if bytes(head[:4]) in _HTTP:
        cure = "use a socket transport instead of THttpClient (hbase.regionserver.thrift.http)"
        raise UnsupportedProtocol("HTTP", cure)
    if len(head) < _ENOUGH:
        return None
    third, fourth = head[4], head[5]
    if third == 0x80 and fourth == 0x01:
        return Transport.FRAMED
    if third == 0x82 and fourth & 0x1F == 1:
        raise UnsupportedProtocol("framed/compact", _SETTING)
    length = int.from_bytes(head[1:5], "big")
    if first in _SASL_STATES and 0 < length <= _LONGEST_MECHANISM and _is_capital(fourth):
        cure = "this port has no SASL: unset hbase.thrift.security.qop and connect without Kerberos"
        raise UnsupportedProtocol("SASL", cure)
    if first == 0 and second == 0 and _is_letter(third) and _is_letter(fourth):
        raise UnsupportedProtocol("buffered/old binary", f"{_SETTING}, with strict write")
    if first < 0x80 and third == 0 and fourth == 0:
        raise UnsupportedProtocol("framed/old binary", f"{_SETTING}, with strict write")
    found = bytes(head[:_ENOUGH]).hex(" ")
    raise MalformedMessage(
        f"a connection that begins with {found} speaks no Thrift that is known here"
    )


def _is_capital(byte: int) -> bool:
    return 0x41 <= byte <= 0x5A


def _is_letter(byte: int) -> bool:
    return _is_capital(byte & 0xDF)
