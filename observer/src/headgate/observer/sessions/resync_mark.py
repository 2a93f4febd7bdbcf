"""The mark by which a buffered reply is recognised: a sequence number that nobody else knows.

A reply that went back unparsed may go on, with bytes that somebody stored: those may look like any
reply. No stored value contains the connection's own number, so bytes with it are the reply to the
marked call. The client gets the number that it gave.
"""

from __future__ import annotations

from os import urandom
from typing import Final, final

from headgate.wire import Message, MessageType, Protocol, Transport, transcode

_REPLY: Final = b"\x80\x01\x00\x02"
_EXCEPTION: Final = b"\x80\x01\x00\x03"
_POSITIVE: Final = 0x7FFFFFFF
_MOST: Final = 64
"""Beginnings of requests that are remembered: Thrift1 has 13 methods that write."""


@final
class ResyncMark:
    """One connection's number, and the reply that is sought by it: one at a time."""

    __slots__ = ("_bytes", "_client_head", "_exception", "_heads", "_number", "_reply", "_withheld")

    def __init__(self) -> None:
        """Draw the number."""
        self._number = int.from_bytes(urandom(4)) & _POSITIVE
        self._bytes = self._number.to_bytes(4)
        self._heads: dict[bytes, tuple[bytes, bytes]] = {}
        """Heads of reply and exception, by the request's bytes before its number."""
        self._reply = self._exception = b""
        """Heads of the two replies that are sought."""
        self._client_head = b""
        """What the client gets of the head, behind its version and type."""
        self._withheld = b""
        """Last bytes that came, where they may begin the reply."""

    def mark(self, raw: bytes, body: int, name: str, protocol: Protocol) -> bytes:
        """Return a request with the number; its reply is sought from now on.

        Args:
            raw: a whole message that is preceded by no length.
            body: where its struct begins.
            name: its method.
            protocol: its protocol; HBase answers old binary in strict binary.
        """
        if protocol is Protocol.COMPACT:
            # Behind two bytes with the type come the number, which is a varint, and the name.
            self._client_head = raw[2:body]
            self._reply = self._compact_head(name, MessageType.REPLY)
            self._exception = self._compact_head(name, MessageType.EXCEPTION)
            return self._compact_head(name, MessageType.CALL) + raw[body:]
        before = raw[: body - 4]
        heads = self._heads.get(before)
        if heads is None:
            # Strict binary begins with version and type, old binary ends with the type.
            named = before[4:] if protocol is Protocol.BINARY else before[:-1]
            if len(self._heads) >= _MOST:
                self._heads.clear()
            heads = _REPLY + named + self._bytes, _EXCEPTION + named + self._bytes
            self._heads[before] = heads
        self._reply, self._exception = heads
        self._client_head = heads[0][4:-4] + raw[body - 4 : body]
        return before + self._bytes + raw[body:]

    def _compact_head(self, name: str, kind: MessageType) -> bytes:
        empty = Message(b"\x00", 0, name, kind, self._number, Transport.BUFFERED)
        message = transcode(empty, Protocol.COMPACT, Transport.BUFFERED)
        return message.raw[: message.body]

    def search(self, data: bytes) -> tuple[bytes, int]:
        """Return the bytes that are certainly replies, and where among them the sought one begins.

        -1 where its head is not there. Bytes that may begin it are withheld until more come.
        """
        if self._withheld:
            data = self._withheld + data
            self._withheld = b""
        at = self._find(data)
        unfinished = self._unfinished(data) if at < 0 else 0
        if unfinished:
            self._withheld = data[-unfinished:]
            data = data[:-unfinished]
        return data, at

    def release(self) -> bytes:
        """Return the withheld bytes: no reply is sought any more."""
        withheld, self._withheld = self._withheld, b""
        return withheld

    def _find(self, data: bytes) -> int:
        """Return where the reply begins; -1 where its head is not there, or not whole."""
        if data.startswith(self._reply):
            return 0
        at = data.find(self._reply)
        return at if at >= 0 else data.find(self._exception)

    def _unfinished(self, data: bytes) -> int:
        """Return how many of the last bytes may be the beginning of the head."""
        for head in (self._reply, self._exception):
            for length in range(min(len(head) - 1, len(data)), 0, -1):
                if data.endswith(head[:length]):
                    return length
        return 0

    def unmarked(self, data: bytes, at: int) -> bytes:
        """Return the bytes from the reply on, with the client's number."""
        head = self._reply if data.startswith(self._reply, at) else self._exception
        begin = head[:2] if head[0] != _REPLY[0] else head[:4]
        return begin + self._client_head + data[at + len(head) :]
