"""Rows, cells and ranges in the client's own words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

Columns = Mapping[bytes, bytes]
"""Values by ``family:qualifier``."""


class Cell(Struct, frozen=True, array_like=True):
    """One version of one column; the timestamp is in milliseconds."""

    row: bytes
    column: bytes
    timestamp: int
    value: bytes


class ScanRange(Struct, frozen=True):
    """What a scan returns: rows from ``start`` to before ``stop``, in all columns or some.

    A column is ``family:qualifier``, or ``family`` for a whole family. Only cells written at
    ``since`` or later and before ``until`` are seen (milliseconds; None is no limit).
    """

    start: bytes = b""
    stop: bytes | None = None
    columns: tuple[bytes, ...] = ()
    since: int | None = None
    until: int | None = None
    versions: int = 1
    filter: str | None = None
    """A filter in the language of HBase's ``ParseFilter``."""
    raw: bool = False
    """True if delete markers, and the versions that they hide, are returned too. HBase then takes
    families only, no columns."""


class Region(Struct, frozen=True):
    """A region of a table; ``stop`` is None in the last one."""

    start: bytes
    stop: bytes | None
    host: str


class FamilyOptions(Struct, frozen=True):
    """How a column family is created; None leaves the server's default."""

    versions: int | None = None
    seconds_to_live: int | None = None
    keep_deleted: bool = False


class DeleteKind(IntEnum):
    """What a delete of a column removes, with the number that Thrift2 gives it."""

    NEWEST_VERSION = 0
    ALL_VERSIONS = 1
    FAMILY = 2
    FAMILY_VERSION = 3


class Compare(IntEnum):
    """How the expected value must stand to the stored one, with the number that Thrift2 gives it.

    HBase asks ``expected OP stored``: ``GREATER`` holds where the expected value is greater.
    """

    LESS = 0
    LESS_OR_EQUAL = 1
    EQUAL = 2
    NOT_EQUAL = 3
    GREATER_OR_EQUAL = 4
    GREATER = 5
