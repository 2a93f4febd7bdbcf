"""The log: structured lines on standard error, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum

import structlog


class LogLevel(StrEnum):
    """What is written: lines of this weight and above."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_log(*, as_json: bool, level: LogLevel = LogLevel.INFO) -> None:
    """Send the log to standard error; may be called again to change the level."""
    renderer: structlog.typing.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # A logger that were kept would keep its level too.
        cache_logger_on_first_use=False,
    )
