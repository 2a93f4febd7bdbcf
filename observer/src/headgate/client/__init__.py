"""Clients of HBase's Thrift servers, and of observers in front of them.

``from headgate import client as happybase`` gives a program happybase's own API with writes that
become events; what that needs is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headgate.client.connection import TIMEOUT, Thrift2Connection
from headgate.client.errors import ClientError, ConnectionFailed, RequestRefused
from headgate.client.rows import (
    Cell,
    Columns,
    Compare,
    DeleteKind,
    FamilyOptions,
    Region,
    ScanRange,
)
from headgate.client.sparse_rows import read_rows, sparse_rows
from headgate.client.swap import swapped_environment
from headgate.settings import ConfigurationError

if TYPE_CHECKING:
    from headgate.client.configuration import load_client_config
    from headgate.client.drop_in import (
        DEFAULT_HOST,
        DEFAULT_PORT,
        Batch,
        Connection,
        ConnectionPool,
        NoConnectionsAvailable,
        Table,
        __version__,
        swap_into,
    )

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "TIMEOUT",
    "Batch",
    "Cell",
    "ClientError",
    "Columns",
    "Compare",
    "ConfigurationError",
    "Connection",
    "ConnectionFailed",
    "ConnectionPool",
    "DeleteKind",
    "FamilyOptions",
    "NoConnectionsAvailable",
    "Region",
    "RequestRefused",
    "ScanRange",
    "Table",
    "Thrift2Connection",
    "__version__",
    "load_client_config",
    "read_rows",
    "sparse_rows",
    "swap_into",
    "swapped_environment",
]

_LATER = {
    "DEFAULT_HOST": "drop_in",
    "DEFAULT_PORT": "drop_in",
    "Batch": "drop_in",
    "Connection": "drop_in",
    "ConnectionPool": "drop_in",
    "NoConnectionsAvailable": "drop_in",
    "Table": "drop_in",
    "__version__": "drop_in",
    "load_client_config": "configuration",
    "swap_into": "drop_in",
}
"""Names by the module that they come from, which needs Kafka's client as the others do not."""


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"headgate.client.{module}"), name)
