"""Messages as they are passed on: the bytes, and the few facts that their header holds."""

from __future__ import annotations

from enum import Enum, IntEnum

from msgspec import Struct


class Transport(Enum):
    """How messages are delimited in the stream."""

    FRAMED = "framed"
    """Each message is preceded by its length in 4 bytes."""
    BUFFERED = "buffered"
    """Messages follow one another; the end is found by walking the values."""


class Protocol(Enum):
    """How values are written."""

    BINARY = "binary"
    """Strict binary: each message begins with its version."""
    OLD_BINARY = "old binary"
    """Values as in strict binary, but messages without a version; HBase answers in strict."""
    COMPACT = "compact"


class WireFormat(Struct, frozen=True):
    """What a peer speaks; as text ``framed/compact``."""

    transport: Transport
    protocol: Protocol

    def __str__(self) -> str:
        return f"{self.transport.value}/{self.protocol.value}"


class MessageType(IntEnum):
    """Thrift's message types, as they stand in the header."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


class Limits(Struct, frozen=True):
    """The most that a peer may send. An honest user may meet each of them, so all are settings."""

    max_frame: int = 128 * 1024 * 1024
    """Bytes of one message. HBase's own clients send batches of up to tens of MiB."""
    max_string: int = 64 * 1024 * 1024
    """Bytes of one string or binary; HBase refuses cells above 10 MiB by default."""
    max_container: int = 4 * 1024 * 1024
    """Elements of one list, set or map."""
    max_depth: int = 32
    """Structs and containers within one another. HBase's own requests need 6."""


class Header(Struct, frozen=True):
    """A message's header. ``body`` is where its struct begins, counted from the message's start."""

    name: str
    type: MessageType
    seqid: int
    body: int


class Message(Struct, frozen=True):
    """One whole message. ``raw`` is exactly what was on the wire, the frame's length included.

    ``body`` is the offset in ``raw`` of the struct of arguments, or of the result.
    """

    raw: bytes
    body: int
    name: str
    type: MessageType
    seqid: int
    transport: Transport
    protocol: Protocol = Protocol.BINARY

    @property
    def format(self) -> WireFormat:
        """What it is written in."""
        return WireFormat(self.transport, self.protocol)
