"""The messages between the process that supervises workers and a worker.

Each message is a length and a tagged struct. A channel that ends says that the other side has: a
worker without its supervisor ends too.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TypeVar

import msgspec
from msgspec import Struct

from headgate.observer.admin import ObserverHealth
from headgate.observer.config import ObserverConfig
from headgate.observer.upstreams.pool import UpstreamView

_LENGTH = 4  # bytes of a message's length


class Begin(Struct, frozen=True, tag=True):
    """To a worker, once: what it is."""

    number: int
    config: ObserverConfig
    admin: str
    """The supervisor's admin address, which answers for all workers."""
    as_json: bool


class Reconfigure(Struct, frozen=True, tag=True):
    """To a worker: its configuration from now on."""

    config: ObserverConfig


class StatusRequest(Struct, frozen=True, tag=True):
    """To a worker: a request for its status."""

    number: int


class Ready(Struct, frozen=True, tag=True):
    """From a worker: clients are accepted."""


class Changed(Struct, frozen=True, tag=True):
    """From a worker: the configuration that is in effect."""

    config: ObserverConfig


class WorkerStatus(Struct, frozen=True, tag=True):
    """From a worker: its status, by the ``number`` of the request."""

    number: int
    metrics: bytes
    health: ObserverHealth
    upstreams: dict[str, tuple[UpstreamView, ...]]


ToWorker = Begin | Reconfigure | StatusRequest
FromWorker = Ready | Changed | WorkerStatus
Message = TypeVar("Message", ToWorker, FromWorker)

TO_WORKER: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
"""What a worker hears."""
FROM_WORKER: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
"""What its supervisor hears."""


class Channel:
    """One end of a pair of connected sockets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak over the streams; ``Channel.over`` makes them."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, connection: socket.socket) -> Channel:
        """Take one end of a pair."""
        return cls(*await asyncio.open_connection(sock=connection))

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message; to a side that has ended, nothing."""
        if not self._writer.is_closing():
            data = msgspec.msgpack.encode(message)
            self._writer.write(len(data).to_bytes(_LENGTH, "big") + data)

    async def receive(self, decoder: msgspec.msgpack.Decoder[Message]) -> Message | None:
        """Return the next message of a side; None when it has ended."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
            data = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return decoder.decode(data)

    def close(self) -> None:
        """End the channel."""
        self._writer.close()
