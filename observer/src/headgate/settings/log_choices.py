"""What a configuration may say of the log."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """What is written: lines of this weight and above."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"
    """One object for each line."""
