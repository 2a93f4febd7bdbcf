"""Writing to a connection at once, not when the event loop comes round."""

from __future__ import annotations

import asyncio
import os
from typing import Final, final

_write: Final = os.write


@final
class WriteBuffer:
    """One connection's way out.

    A transport sends when the callback that wrote to it has returned, so the peer would wait for
    whatever is done after the write. Here the bytes are with the kernel when ``write`` returns, as
    far as it takes them; the transport sends the rest, and applies its flow control. Whoever has an
    write_buffer writes to the transport by it only.
    """

    __slots__ = ("_behind", "_descriptor", "_is_closing", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Write to a transport's connection."""
        self._transport = transport
        self._is_closing = transport.is_closing
        self._behind = True
        """Whether the transport may have bytes that the kernel has not taken yet."""
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
        if self._is_closing():
            return False
        if self._descriptor < 0 or not data:
            transport.write(data)
            return True
        if self._behind:
            if transport.get_write_buffer_size():
                transport.write(data)
                return True
            self._behind = False
        try:
            sent = _write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            # The transport meets the same error, and ends the connection in its own order.
            self._behind = True
            transport.write(data)
            return True
        if sent < len(data):
            self._behind = True
            transport.write(memoryview(data)[sent:])
        return True
