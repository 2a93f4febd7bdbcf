"""Clients of HBase's Thrift servers, and of observers in front of them."""

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

__all__ = [
    "TIMEOUT",
    "Cell",
    "ClientError",
    "Columns",
    "Compare",
    "ConnectionFailed",
    "DeleteKind",
    "FamilyOptions",
    "Region",
    "RequestRefused",
    "ScanRange",
    "Thrift2Connection",
]
