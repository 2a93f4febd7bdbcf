"""A client's connection and the one to HBase that it is pinned to: flow control and their end.

Two functions ask the kernel about the other end of a connection without reading from it.
"""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
import termios
from typing import Final, final

from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.sessions.acknowledgement import Acknowledgements, HeldReplies
from headgate.observer.sessions.write_buffer import WriteBuffer
from headgate.observer.upstreams.scanners import OpenScanners

# Why no requests are read, as bits.
HELD: Final = 1
UPSTREAM_FULL: Final = 2
PIPELINE_FULL: Final = 4
OTHERS: Final = 8
CLIENT_FULL: Final = 16
TURN: Final = 32
STOPPED: Final = HELD | CLIENT_FULL | TURN
"""Neither are those taken that have been read."""
# Linux reports when the peer ends its side; elsewhere only a connection that broke is noticed.
_ENDED: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


@final
class ConnectionPair:
    """Both connections of a session: what is written to them, paused, closed and broken."""

    def __init__(self, metrics: Metrics, log: ClientLog) -> None:
        """Have neither."""
        self._metrics = metrics
        self._log = log
        self.client: asyncio.Transport | None = None
        self.held_replies: HeldReplies | None = None
        """The client's connection where replies are held."""
        self._to_client: WriteBuffer | None = None
        """The way of replies back; None where they are held."""
        self.upstream: asyncio.Transport | None = None
        self.to_upstream: WriteBuffer | None = None
        self.straight: WriteBuffer | None = None
        """The way of requests that go on unread; None where they are read further on."""
        self.had_upstream = False
        """True once there was a connection to HBase."""
        self.unreachable = ""
        """Why there is no connection to HBase, where none can be made."""
        self.paused = 0
        self.closing = False
        """Whether no more requests are taken."""
        self.eof = False
        """Whether the client sends nothing any more."""
        self.scanners = OpenScanners()
        """Those that the client may have open."""
        self.requests_ended = False
        """Whether the end of the requests was passed on to HBase."""

    # -- the client's connection

    def client_made(
        self, transport: asyncio.Transport, acknowledgements: Acknowledgements | None
    ) -> None:
        """Take the client's connection; ``acknowledgements`` hold its replies, where there are."""
        if acknowledgements is None:
            self.client = transport
            self._to_client = WriteBuffer(transport)
        else:
            self.client = self.held_replies = acknowledgements.guard(transport, self._log)

    def client_lost(self) -> None:
        """Have no client any more."""
        self.client = self._to_client = None
        if self.held_replies is not None:
            self.held_replies.clear()

    def send(self, data: bytes) -> None:
        """Send bytes to the client, if there is still one."""
        write_buffer = self._to_client
        if write_buffer is not None:
            write_buffer.write(data)
        elif self.client is not None:
            self.client.write(data)

    # -- the connection to HBase

    def upstream_made(self, transport: asyncio.Transport) -> None:
        """Take the connection to HBase, or what stands for it."""
        self.upstream = transport
        self.had_upstream = True
        self.to_upstream = WriteBuffer(transport)

    def upstream_settled(self, transport: asyncio.Transport) -> None:
        """Take the connection itself: HBase understands what the client sends."""
        self.upstream = transport
        self.to_upstream = self.straight = WriteBuffer(transport)

    def upstream_gone(self) -> None:
        """Have no connection to HBase, or none any more."""
        self.upstream = self.to_upstream = self.straight = None

    def send_on(self, call: bytes) -> bool:
        """Send a call of the observer's own behind what was forwarded; False: HBase is gone."""
        return self.to_upstream is not None and self.to_upstream.write(call)

    def abort_upstream(self) -> None:
        """Break the connection to HBase."""
        if self.upstream is not None:
            self.upstream.abort()

    # -- flow control

    def pause(self, reason: int) -> None:
        """Read no requests."""
        if not self.paused and self.client is not None:
            self.client.pause_reading()
        self.paused |= reason

    def resume(self, reason: int) -> None:
        """Read requests again, unless there is another reason not to."""
        if self.paused & reason:
            self.paused &= ~reason
            if not self.paused and self.client is not None and not self.client.is_closing():
                self.client.resume_reading()

    def lift(self, reason: int) -> None:
        """Let requests be taken that have been read; no more are read until ``resume``."""
        self.paused &= ~reason

    def restore(self, reason: int) -> None:
        """Take back what ``lift`` did."""
        self.paused |= reason

    def pause_replies(self) -> None:
        """Read no replies."""
        if self.upstream is not None and not self.upstream.is_closing():
            self.upstream.pause_reading()

    def resume_replies(self) -> None:
        """Read replies again."""
        if self.upstream is not None and not self.upstream.is_closing():
            self.upstream.resume_reading()

    # -- the end

    def all_answered(self) -> None:
        """Come to an end that had to wait for replies."""
        if self.closing:
            self.end()

    def end(self) -> None:
        """Close the connection that is left, the client's first: what is written is still sent."""
        if self.client is not None:
            self.client.close()
        elif self.upstream is not None:
            self.upstream.close()

    def close(self) -> None:
        """Close at once, in order: what is written is still sent."""
        self.closing = True
        self.end()

    def abort(self) -> None:
        """Break both connections: requests under way end as unknown."""
        self.closing = True
        self.abort_upstream()
        if self.client is not None:
            self.client.abort()

    def give_up_on(self, error: Exception) -> None:
        """Break both over a fault of the observer's own that the client's bytes have met."""
        self._metrics.count_refusal("fault")
        self._log.error("connection broken: its bytes met a fault of the observer", error)
        self.abort()


def has_left(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer has closed the connection or its half of it.

    A transport that is not read from, so that its peer must wait, hears nothing of that.
    """
    socket = transport.get_extra_info("socket")
    if socket is None:
        return False
    poll = select.poll()
    poll.register(socket.fileno(), _ENDED)
    return bool(poll.poll(0))


def has_taken_all(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer's host has all that was given to the kernel for it."""
    socket = transport.get_extra_info("socket")
    if socket is None:
        return True
    try:
        answer = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):
        return True  # the connection is over
    return struct.unpack("i", answer) == (0,)
