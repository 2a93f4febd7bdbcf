"""Who wrote: the run whose step sent a request, or whom its connection belongs to."""

from __future__ import annotations

import msgspec
from msgspec import Struct

ORIGIN_ATTRIBUTE = b"headgate.origin"
"""Name of the Thrift2 attribute that carries an encoded origin on puts, deletes and the like."""


class Origin(Struct, frozen=True, array_like=True):
    """A run's attempt, an action whose run is not known, or a writer outside of all dataflows.

    ``run`` is empty where only the connection tells who writes: its listener or its certificate.
    ``dataflow`` is empty for a writer that belongs to none, and ``action`` then too.
    """

    dataflow: str
    action: str
    run: str
    token: int
    """The run's fencing token: an observer refuses one below the fence."""
    writer: str = ""

    @property
    def name(self) -> str:
        """``dataflow/action``, or the writer's name: what rules and metrics call it."""
        return self.writer or f"{self.dataflow}/{self.action}"


# msgspec lets two through: text that is no UTF-8, and endless lists in lists in a skipped field.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no message."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Origin)


def encode_origin(origin: Origin) -> bytes:
    """Return the value of the origin attribute."""
    return _encoder.encode(origin)


def decode_origin(data: bytes) -> Origin:
    """Return the origin in an attribute's value.

    Raises:
        ValueError: the bytes are no origin.
    """
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        message = f"attribute {ORIGIN_ATTRIBUTE.decode()} holds no origin: {error}"
        raise ValueError(message) from error
