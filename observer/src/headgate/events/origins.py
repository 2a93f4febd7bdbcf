"""Who wrote: the run whose step sent a request."""

from __future__ import annotations

import msgspec
from msgspec import Struct

ORIGIN_ATTRIBUTE = b"headgate.origin"
"""Name of the Thrift2 attribute that carries an encoded origin on puts, deletes and the like."""


class Origin(Struct, frozen=True, array_like=True):
    """A run's attempt. ``token`` is its fencing token: an observer refuses one below the fence."""

    dataflow: str
    action: str
    run: str
    token: int


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
