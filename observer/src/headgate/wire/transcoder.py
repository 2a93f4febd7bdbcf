"""From one protocol to the other without a schema: both say the type of all that they hold."""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final, final

from headgate.wire import binary
from headgate.wire.compact import compact_header
from headgate.wire.compacter import Compacter
from headgate.wire.expander import Expander
from headgate.wire.message import Limits, Message, MessageType, Protocol, Transport

_DEFAULT_LIMITS: Final = Limits()

_i32: Final = Layout(">i").pack
_strict: Final = Layout(">HBBi").pack


def write_header(protocol: Protocol, name: bytes, kind: MessageType, seqid: int) -> bytes:
    """Return the bytes of a message before its struct."""
    if protocol is Protocol.COMPACT:
        return compact_header(name, kind, seqid)
    if protocol is Protocol.OLD_BINARY:
        return _i32(len(name)) + name + bytes((kind,)) + _i32(seqid)
    return _strict(binary.VERSION, 0, kind, len(name)) + name + _i32(seqid)


def transcode(
    message: Message,
    protocol: Protocol,
    transport: Transport,
    limits: Limits = _DEFAULT_LIMITS,
) -> Message:
    """Return a message in another protocol or transport, or itself if it is in these already.

    Raises:
        MalformedMessage: its values make no sense.
        LimitExceeded: they are nested too deeply.
        FrameTooLarge: it would become longer than ``limits.max_frame``.
    """
    if message.protocol is protocol and message.transport is transport:
        return message
    if (message.protocol is Protocol.COMPACT) is (protocol is Protocol.COMPACT):
        body = message.raw[message.body :]
    elif protocol is Protocol.COMPACT:
        body = Compacter(message.raw, message.body, limits).whole()
    else:
        body = Expander(message.raw, message.body, limits).whole()
    head = write_header(protocol, message.name.encode(), message.type, message.seqid)
    if transport is Transport.FRAMED:
        head = _i32(len(head) + len(body)) + head
    return Message(
        head + body, len(head), message.name, message.type, message.seqid, transport, protocol
    )


def to_binary(message: Message, limits: Limits = _DEFAULT_LIMITS) -> Message:
    """Return a message whose struct can be read with a ``Cursor``: old binary's is as strict's.

    Raises:
        ProtocolError: see ``transcode``.
    """
    if message.protocol is not Protocol.COMPACT:
        return message
    return transcode(message, Protocol.BINARY, Transport.BUFFERED, limits)


@final
class Expansion:
    """``to_binary`` in as many parts as it takes."""

    def __init__(self, message: Message, limits: Limits = _DEFAULT_LIMITS) -> None:
        """Stand before a message, which is in compact."""
        self._message = message
        self._expander = Expander(message.raw, message.body, limits)
        self._parts = self._expander.in_parts()

    def go_on(self, size: int) -> Message | None:
        """Write so many bytes of it, or a little more, in binary; return the message when it is.

        Raises:
            ProtocolError: see ``transcode``.
        """
        self._expander.stop_after(size)
        for _ in self._parts:
            return None
        message = self._message
        head = write_header(Protocol.BINARY, message.name.encode(), message.type, message.seqid)
        return Message(
            head + self._expander.written(),
            len(head),
            message.name,
            message.type,
            message.seqid,
            Transport.BUFFERED,
            Protocol.BINARY,
        )
