"""Whether the other end of a connection is still there and has all, asked without reading."""

from __future__ import annotations

import asyncio
import fcntl
import select
import struct
import termios
from typing import Final

# Linux reports when the peer ends its side; elsewhere only a connection that broke is noticed.
_ENDED: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


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
