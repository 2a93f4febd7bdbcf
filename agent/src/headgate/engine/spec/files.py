"""Files that a stage reads or writes instead of containers: plain data about a directory."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

DEFAULT_LATE: Final = 3600.0
"""Seconds: longer than uploads take and clocks differ, and the names of so much time are kept."""


class FileFormat(StrEnum):
    """What is in files."""

    PARQUET = "parquet"
    CSV = "csv"
    """With a line of column names."""
    JSON = "json"
    """One object a line."""


class FilesSpec(Struct, frozen=True, tag="files"):
    """A directory whose files are a flow of a stage."""

    location: str
    """A path, or a URI that ``pyarrow.fs`` takes."""
    format: FileFormat = FileFormat.PARQUET
    columns: dict[str, str] = {}
    """Of files that are read, with the names of Arrow's types; those that are written have the
    columns of their flow."""
    late: float = DEFAULT_LATE
    """Seconds by which a file that comes may be older than the newest that was read."""
