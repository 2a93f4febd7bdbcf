"""The log: structured lines on standard error, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType

import structlog

from headgate.settings.log_choices import LogLevel


def configure_log(
    *,
    as_json: bool,
    level: LogLevel = LogLevel.INFO,
    fields: Mapping[str, str | int] = MappingProxyType({}),
) -> None:
    """Send the log to standard error; ``fields`` are put into every line."""
    renderer: structlog.typing.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            lambda _logger, _method, event: {**event, **fields},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        # Not the one that prints: unbuffered, it writes a line's end by itself, and what others
        # write to the same file comes between.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        # A logger that were kept would keep its level too.
        cache_logger_on_first_use=False,
    )
    set_log_level(level)


def set_log_level(level: LogLevel) -> None:
    """Write lines of this weight and above from now on."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        )
    )
