"""Writing to a connection at once, not when the event loop comes round."""

from __future__ import annotations

import asyncio
import os
from typing import Final, final

_write: Final = os.write


@final
class Outlet:
    """One connection's way out.

    A transport sends when the callback that wrote to it has returned, so the peer would wait for
    whatever is done after the write. Here the bytes are with the kernel when ``write`` returns, as
    far as it takes them; the transport sends the rest, and applies its flow control.
    """

    __slots__ = ("_descriptor", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to a transport's connection."""
        self._transport = transport
        self._descriptor = -1
        # What is written to a TLS connection has to pass its encryption.
        if transport.get_extra_info("sslcontext") is None:
            connection = transport.get_extra_info("socket")
            if connection is not None:
                self._descriptor = connection.fileno()

    def write(self, data: bytes) -> bool:
        """Send the bytes, after all that was written before; False: the connection is over."""
        transport = self._transport
        # A transport that is closing has given its descriptor back.
        if transport.is_closing():
            return False
        if self._descriptor < 0 or transport.get_write_buffer_size() or not data:
            transport.write(data)
            return True
        try:
            sent = _write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The transport meets the same error, and ends the connection in its own order.
            transport.write(data)
            return True
        if sent < len(data):
            transport.write(memoryview(data)[sent:])
        return True
