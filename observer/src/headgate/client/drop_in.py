"""happybase's API, with writes that become events."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

import happybase
import happybase.connection
from happybase import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    Batch,
    NoConnectionsAvailable,
    Table,
    __version__,
)
from thriftpy2.thrift import TClient

from headgate.client.program import observer_of_process
from headgate.client.recorded import RecordingSocket

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "Batch",
    "Connection",
    "ConnectionPool",
    "NoConnectionsAvailable",
    "Table",
    "__version__",
    "swap_into",
]


class Connection(happybase.Connection):  # type: ignore[misc]
    """A happybase connection to HBase's Thrift server whose writes become events.

    Raises:
        ConfigurationError: the environment does not say where Kafka is.
        JournalError: no journal can be opened.
    """

    def _refresh_thrift_client(self) -> None:
        observer_of_process()
        super()._refresh_thrift_client()
        plain = self.client
        recording = RecordingSocket(host=self.host, port=self.port, socket_timeout=self.timeout)
        self.transport = self._transport_class(recording)
        protocol = self._protocol_class(self.transport, decode_response=False)
        self.client: TClient = TClient(plain._service, protocol)  # noqa: SLF001 - the service it loaded


def _with_our_connections(function: FunctionType) -> Any:
    """Return the function with ``Connection`` above in the place of the name's own meaning."""
    names = {**function.__globals__, "Connection": Connection}
    ours = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    ours.__kwdefaults__ = function.__kwdefaults__
    ours.__doc__ = function.__doc__
    return ours


class ConnectionPool(happybase.ConnectionPool):  # type: ignore[misc]
    """happybase's pool of such connections."""

    __init__ = _with_our_connections(happybase.ConnectionPool.__init__)


def swap_into(package: ModuleType) -> None:
    """Put headgate's classes into happybase, wherever it has its own."""
    for module in (package, package.connection, package.pool):
        for ours in (Connection, ConnectionPool):
            if hasattr(module, ours.__name__):
                setattr(module, ours.__name__, ours)
