"""Log lines about clients: each says which connection and which request it is about.

``listener``, ``epoch`` and ``connection`` name a connection for good, ``client`` its address. Of a
request a line says ``method``, ``table``, ``request`` (Thrift's sequence number, which the client
chose) and, where it is a watched write, ``intent``: with the epoch the identity of its events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from headgate.observer.monitoring.excerpts import FIELD, excerpt, excerpts
from headgate.settings import LogRate, write_address

_log = structlog.get_logger("headgate.observer.clients")


class ListenerLog:
    """What the logs of one listener's connections share: clients cannot make them a flood."""

    def __init__(self, listener: str, epoch: int, clock: Callable[[], float]) -> None:
        """Take the listener's name; ``clock`` is any time in seconds."""
        self._fields = {"listener": listener, "epoch": epoch}
        self._warnings = LogRate(clock)
        self._infos = LogRate(clock)

    def warning(self, event: str, fields: dict[str, Any]) -> None:
        """Write a line of something wrong."""
        left_out = self._warnings.admit()
        if left_out is not None:
            _log.warning(event, **self._fields, **_bounded(fields), left_out=left_out)

    def error(self, event: str, error: Exception, fields: dict[str, Any]) -> None:
        """Write a line of a fault of our own, with where it came from."""
        left_out = self._warnings.admit()
        if left_out is not None:
            _log.error(event, **self._fields, **fields, left_out=left_out, exc_info=error)

    def info(self, event: str, fields: dict[str, Any]) -> None:
        """Write a line of something that happens."""
        left_out = self._infos.admit()
        if left_out is not None:
            _log.info(event, **self._fields, **_bounded(fields), left_out=left_out)


class ClientLog:
    """The log of one client's connection."""

    __slots__ = ("_listener", "connection", "peer")

    def __init__(self, listener: ListenerLog) -> None:
        """Begin before it is known who the client is."""
        self._listener = listener
        self.connection = 0
        """Number of the connection in its observer's epoch; 0 for one that was not accepted."""
        self.peer: Any = None
        """The client's address, as sockets have it."""

    def warning(self, event: str, **fields: Any) -> None:
        """Write a line of something wrong with the connection or a request of it."""
        self._listener.warning(event, {**self._who(), **fields})

    def error(self, event: str, error: Exception) -> None:
        """Write a line of a fault of our own that the connection's bytes have met."""
        self._listener.error(event, error, self._who())

    def info(self, event: str, **fields: Any) -> None:
        """Write a line of what happens to the connection."""
        self._listener.info(event, {**self._who(), **fields})

    def _who(self) -> dict[str, Any]:
        peer = self.peer
        named = isinstance(peer, tuple) and len(peer) >= 2
        return {
            "connection": self.connection,
            "client": write_address(str(peer[0]), int(peer[1])) if named else "",
        }


def _bounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields as they may stand in a line: clients choose the names in them."""
    bounded = fields.copy()
    for name, value in fields.items():
        if isinstance(value, str):
            bounded[name] = excerpt(value, FIELD)
        elif isinstance(value, list):
            bounded[name] = excerpts(value)
    return bounded
