"""Messages to bytes and back."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from headgate.events.control import ControlMessage
from headgate.events.formats import NewerFormat, StoredFormat
from headgate.events.origins import UNREADABLE
from headgate.events.updates import RequestPart, UpdateBatch, UpdateMessage

MESSAGES: Final = StoredFormat("messages")
"""Format of update messages, control messages and machines' loads."""
VERSION: Final = MESSAGES.version
"""Version of the messages that this code writes."""


class _ArrayHead(Struct, array_like=True):
    kind: str
    version: int


class _MapHead(Struct):
    version: int


_encoder = msgspec.msgpack.Encoder()
_updates = msgspec.msgpack.Decoder(UpdateMessage)
_control = msgspec.msgpack.Decoder(ControlMessage)
_heads: Final = (msgspec.msgpack.Decoder(_ArrayHead), msgspec.msgpack.Decoder(_MapHead))
"""Decode the version of a message that cannot be decoded otherwise."""


_CELLS: Callable[[RequestPart], int] = attrgetter("cells")
_TTLS: Callable[[RequestPart], tuple[int, ...]] = attrgetter("ttls")


class MalformedEvent(ValueError):
    """A message that no headgate wrote, or a newer one, or one that was damaged."""


def check_version(version: int) -> None:
    """Accept the version of a message.

    Raises:
        MalformedEvent: this release does not read it.
    """
    if version != VERSION:
        try:
            MESSAGES.check(version)
        except ValueError as error:
            raise MalformedEvent(str(error)) from error


def malformed(what: str, data: bytes, error: Exception) -> MalformedEvent:
    """Return the error for bytes that cannot be decoded: a newer headgate may have made them."""
    for head in _heads:
        try:
            MESSAGES.check(head.decode(data).version)
        except NewerFormat as newer:
            return MalformedEvent(str(newer))
        except (ValueError, *UNREADABLE):
            continue  # it does not even begin like a message
    return MalformedEvent(f"not {what}: {error}")


def encode_update(message: UpdateMessage) -> bytes:
    """Return the value of a Kafka message for a table's topic."""
    return _encoder.encode(message)


def decode_update(data: bytes) -> UpdateMessage:
    """Return the message in the value of a record of a table's topic.

    Raises:
        MalformedEvent: the bytes are no such message, a newer headgate wrote it, or the columns of
            a batch do not agree.
    """
    try:
        message: UpdateMessage = _updates.decode(data)
    except UNREADABLE as error:
        raise malformed("an update message", data, error) from error
    check_version(message.version)
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
        MalformedEvent: the bytes are no such message, or a newer headgate wrote it.
    """
    try:
        message: ControlMessage = _control.decode(data)
    except UNREADABLE as error:
        raise malformed("a control message", data, error) from error
    check_version(message.version)
    return message
