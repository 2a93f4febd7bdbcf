"""Bytes in, messages out."""

from __future__ import annotations

from typing import final

from headgate.wire.binary import read_header, read_old_header, u32_at
from headgate.wire.compact import read_compact_header
from headgate.wire.compact_walker import CompactWalker
from headgate.wire.detection import detect
from headgate.wire.errors import FrameTooLarge, MalformedMessage, TransportMismatch
from headgate.wire.message import Header, Limits, Message, Protocol, Transport
from headgate.wire.walker import StructWalker

_DEFAULT_LIMITS = Limits()
_ALL = 1 << 60


@final
class MessageReader:
    """One direction of one connection.

    Give it what arrives with ``feed`` and take messages with ``next_message`` until there is None.
    After a ``ProtocolError`` the stream has no known border any more: close the connection.

    Attributes:
        transport: what the peer uses; None until its first bytes have come.
        protocol: likewise, and strict binary until then.
        header: that of the message that is being read; None between messages, and before it is
            whole. After an error it is that of the wrong message.
    """

    __slots__ = (
        "_checked",
        "_compact_walker",
        "_data",
        "_expected",
        "_frame",
        "_limits",
        "_most",
        "_needed",
        "_start",
        "_strict",
        "_walker",
        "header",
        "protocol",
        "transport",
    )

    def __init__(
        self,
        limits: Limits = _DEFAULT_LIMITS,
        transport: Transport | None = None,
        most: int = _ALL,
    ) -> None:
        """Begin a connection.

        Args:
            limits: the most that the peer may send.
            transport: what the peer must use; None takes what it is found to use.
            most: bytes of one message that one call of ``next_message`` walks, so that others have
                a turn.
        """
        self._most = most
        self._frame: Message | None = None
        """A frame that is not walked to its end."""
        self.transport: Transport | None = transport
        self.protocol = Protocol.BINARY
        self._strict = True
        self._limits = limits
        self._expected = transport
        self._checked = False
        self._data: bytes | bytearray = b""
        self._start = 0
        self._needed = 1
        self.header: Header | None = None
        self._walker = StructWalker(limits)
        self._compact_walker: CompactWalker | None = None

    @property
    def buffered(self) -> int:
        """Bytes received that belong to no message returned so far."""
        frame = self._frame
        return len(self._data) - self._start + (0 if frame is None else len(frame.raw))

    @property
    def unfinished(self) -> bool:
        """Whether ``next_message`` returned None only to give others a turn."""
        if self._frame is not None:
            return True
        return self.header is not None and len(self._data) - self._start >= self._needed

    @property
    def between_messages(self) -> bool:
        """Whether the next bytes begin a message, of a peer whose transport is known."""
        return self._checked and self._start == len(self._data) and self._frame is None

    def drop(self) -> None:
        """Forget what was received and not returned: the connection is to be closed."""
        self._data = b""
        self._start = 0
        self._needed = 1
        self._frame = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream, of any length."""
        if self._start == len(self._data):
            self._data = data
            self._start = 0
            return
        self._compact()
        self._data += data

    def _compact(self) -> None:
        """Drop what was taken, and keep the rest where it can grow."""
        if isinstance(self._data, bytearray):
            del self._data[: self._start]
        else:
            self._data = bytearray(memoryview(self._data)[self._start :])
        self._start = 0

    def next_message(self) -> Message | None:
        """Return the next whole message, or None when more bytes are needed.

        None is returned, too, when one has been walked for long enough (see ``unfinished``).

        Raises:
            ProtocolError: one of its kinds, which say what the peer sent.
        """
        if self._frame is not None:
            return self._walk_on(self._frame)
        there = len(self._data) - self._start
        if there < self._needed:
            return None
        if not self._checked and not self._check_transport():
            return None
        if self.transport is Transport.FRAMED:
            return self._next_framed(there)
        return self._next_buffered(there)

    def _check_transport(self) -> bool:
        found = detect(self._data[self._start : self._start + 16])
        if found is None:
            return False
        if self._expected is not None and found.transport is not self._expected:
            raise TransportMismatch(
                f"the peer speaks {found}, expected is a transport that is {self._expected.value}; "
                "set both to the same transport (HBase: hbase.regionserver.thrift.framed or -f)"
            )
        self.transport = found.transport
        self.protocol = found.protocol
        self._strict = found.protocol is Protocol.BINARY
        if found.protocol is Protocol.COMPACT:
            self._compact_walker = CompactWalker(self._limits)
        self._checked = True
        return True

    def _next_framed(self, there: int) -> Message | None:
        if there < 4:
            return None
        length = u32_at(self._data, self._start)[0]
        if length > self._limits.max_frame:
            raise FrameTooLarge(
                f"a frame of {length} bytes; the limit is {self._limits.max_frame}: raise "
                "limits.message_bytes or send smaller batches"
            )
        end = self._start + 4 + length
        if end > len(self._data):
            self._needed = 4 + length
            return None
        begin = self._start + 4
        if self._strict:
            header = read_header(self._data, begin, end)
        else:
            header = self._read_other_header(begin, end)
        if header is None or header.body >= end:
            raise MalformedMessage(f"a frame of {length} bytes ends inside its message's header")
        self.header = header
        if length > self._most:
            self._frame = frame = self._take(header, end)
            self.header = Header(header.name, header.type, header.seqid, frame.body)
            if self._compact_walker is None:
                self._walker.begin(frame.body - 4)
            else:
                self._compact_walker.begin(frame.body - 4)
            return self._walk_on(frame)
        self._walk_frame(header.body, end)
        return self._take(header, end)

    def _walk_on(self, frame: Message) -> Message | None:
        """Walk some more of a frame; return it when it is one message, wholly."""
        end = len(frame.raw)
        compact = self._compact_walker
        if compact is None:
            found = self._walker.walk(frame.raw, 4, self._most)
            needed = self._walker.needed
        else:
            found = compact.walk(frame.raw, 4, self._most)
            needed = compact.needed
        if found < 0 and 4 + needed <= end:
            return None
        self._frame = None
        if found < end:
            raise _not_one_message(found, end)
        self.header = None
        return frame

    def _walk_frame(self, body: int, end: int) -> None:
        """Raise unless a frame holds one message, wholly, that keeps the limits."""
        start = self._start + 4
        data: bytes | bytearray = self._data
        if end < len(data):
            # The walker must not look beyond the frame: what is there is another's.
            data = data[start:end]
            body -= start
            end -= start
            start = 0
        compact = self._compact_walker
        if compact is None:
            self._walker.begin(body - start)
            found = self._walker.walk(data, start)
        else:
            compact.begin(body - start)
            found = compact.walk(data, start)
        if found < end:
            raise _not_one_message(found, end)

    def _next_buffered(self, there: int) -> Message | None:
        header = self.header
        compact = self._compact_walker
        begun = header is not None
        if header is None:
            if self._strict:
                header = read_header(self._data, self._start, len(self._data))
            else:
                header = self._read_other_header(self._start, len(self._data))
            if header is None:
                self._needed = there + 1
                return None
            self.header = header
            if compact is None:
                self._walker.begin(header.body - self._start)
            else:
                compact.begin(header.body - self._start)
        if compact is None:
            end = self._walker.walk(self._data, self._start, self._most)
        else:
            end = compact.walk(self._data, self._start, self._most)
        if end >= 0:
            return self._take(header, end)
        if not begun:
            # What is there moves to the front of the buffer with the next bytes.
            body = header.body - self._start
            self.header = Header(header.name, header.type, header.seqid, body)
            self._compact()
        self._needed = self._walker.needed if compact is None else compact.needed
        return None

    def _read_other_header(self, start: int, end: int) -> Header | None:
        if self.protocol is Protocol.COMPACT:
            return read_compact_header(self._data, start, end)
        return read_old_header(self._data, start, end)

    def _take(self, header: Header, end: int) -> Message:
        start = self._start
        data = self._data
        self.header = None
        if isinstance(data, bytes):
            raw = data if start == 0 and end == len(data) else data[start:end]
        else:
            raw = bytes(memoryview(data)[start:end])
        self._start = end
        self._needed = 1
        if end == len(data):
            self._data = b""
            self._start = 0
        assert self.transport is not None  # noqa: S101 - known since the first bytes
        return Message(
            raw,
            header.body - start,
            header.name,
            header.type,
            header.seqid,
            self.transport,
            self.protocol,
        )


def _not_one_message(found: int, end: int) -> MalformedMessage:
    if found < 0:
        return MalformedMessage("a frame ends in the middle of its message")
    # To some servers it is the next request, to others nothing.
    return MalformedMessage(f"{end - found} bytes behind the message in its frame")
