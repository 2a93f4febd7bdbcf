"""Messages to bytes and back."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import msgspec

from headgate.events.control import ControlMessage
from headgate.events.origins import UNREADABLE
from headgate.events.updates import RequestPart, UpdateBatch, UpdateMessage

VERSION = 3
"""Version of the messages that this code writes. Readers accept every version from 1 on."""

_encoder = msgspec.msgpack.Encoder()
_updates = msgspec.msgpack.Decoder(UpdateMessage)
_control = msgspec.msgpack.Decoder(ControlMessage)


_CELLS: Callable[[RequestPart], int] = attrgetter("cells")
_TTLS: Callable[[RequestPart], tuple[int, ...]] = attrgetter("ttls")


class MalformedEvent(ValueError):
    """A message that no version of headgate wrote, or one that was damaged."""


def encode_update(message: UpdateMessage) -> bytes:
    """Return the value of a Kafka message for a table's topic."""
    return _encoder.encode(message)


def decode_update(data: bytes) -> UpdateMessage:
    """Return the message in the value of a record of a table's topic.

    Raises:
        MalformedEvent: the bytes are no such message, or the columns of a batch do not agree.
    """
    try:
        message: UpdateMessage = _updates.decode(data)
    except UNREADABLE as error:
        raise MalformedEvent(f"not an update message: {error}") from error
    if isinstance(message, UpdateBatch):
        _check_columns(message)
    return message


def _check_columns(batch: UpdateBatch) -> None:
    cells = sum(map(_CELLS, batch.requests))
    kinds, rows, columns = len(batch.kinds), len(batch.rows), len(batch.columns)
    timestamps, values = len(batch.timestamps), len(batch.values)
    if any(map(_TTLS, batch.requests)):
        _check_ttls(batch.requests)
    if cells == kinds == rows == columns == timestamps == values:
        return
    raise MalformedEvent(
        f"a batch of {cells} cells has {kinds} kinds, {rows} rows, {columns} columns, "
        f"{timestamps} timestamps and {values} values"
    )


def _check_ttls(requests: tuple[RequestPart, ...]) -> None:
    for request in requests:
        if len(request.ttls) not in (0, 1, request.cells):
            raise MalformedEvent(
                f"a request of {request.cells} cells has {len(request.ttls)} times to live"
            )


def encode_control(message: ControlMessage) -> bytes:
    """Return the value of a Kafka message for the control topic."""
    return _encoder.encode(message)


def decode_control(data: bytes) -> ControlMessage:
    """Return the message in the value of a record of the control topic.

    Raises:
        MalformedEvent: the bytes are no such message.
    """
    try:
        message: ControlMessage = _control.decode(data)
    except UNREADABLE as error:
        raise MalformedEvent(f"not a control message: {error}") from error
    return message
