"""The log: structured lines on standard error, for people or as JSON."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping
from types import MappingProxyType

import structlog

from headgate.settings.log_choices import LogLevel
from headgate.settings.log_rate import LogRate

_MOST_EVENTS = 1_000
"""Events that are counted apart; what comes after so many counts as one."""
_ANY_OTHER = ""
_TEMPLATE = "template"
"""The field with the text of a library's line before its values were put into it."""


class FloodGuard:
    """A processor that lets so many lines of each event through in each period.

    The next line of the event says how many were left out, as ``left_out``.

    Args:
        clock: any time in seconds.
        always: events of which every line is written.
    """

    def __init__(self, clock: Callable[[], float], always: Collection[str] = ()) -> None:
        self._clock = clock
        self._always = frozenset(always)
        self._rates: dict[str, LogRate] = {}

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        """Return the line, or have it left out.

        Raises:
            DropEvent: there were too many of this event.
        """
        name = str(event.pop(_TEMPLATE, event.get("event")))
        if method == "critical" or name in self._always:
            return event
        if name not in self._rates and len(self._rates) >= _MOST_EVENTS:
            name = _ANY_OTHER
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = LogRate(self._clock)
        left_out = rate.admit()
        if left_out is None:
            raise structlog.DropEvent
        if left_out:
            known = event.get("left_out")
            event["left_out"] = left_out + (known if isinstance(known, int) else 0)
        return event


class LibraryLines(logging.Handler):
    """Writes warnings of libraries, such as of a server's about its clients, as lines of the log.

    Without it Python prints each of them as it is, however many strangers cause.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        log = structlog.get_logger(record.name)
        fields = {"logger": record.name, _TEMPLATE: f"{record.name} {record.msg}"}
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # libraries have levels between
        try:
            log.log(level, record.getMessage(), exc_info=record.exc_info, **fields)
        except (TypeError, ValueError):
            self.handleError(record)  # its values do not fit its text


def configure_log(
    *,
    as_json: bool,
    level: LogLevel = LogLevel.INFO,
    fields: Mapping[str, str | int] = MappingProxyType({}),
    always: Collection[str] = (),
) -> None:
    """Send the log to standard error, of each event no more lines than people can read.

    Args:
        as_json: whether lines are JSON.
        level: of the lightest lines that are written.
        fields: put into every line.
        always: events of which every line is written, such as those of an audit.
    """
    renderer: structlog.typing.Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            FloodGuard(time.monotonic, always),
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
    root = logging.getLogger()
    root.handlers = [one for one in root.handlers if not isinstance(one, LibraryLines)]
    root.addHandler(LibraryLines(logging.WARNING))


def set_log_level(level: LogLevel) -> None:
    """Write lines of this weight and above from now on."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        )
    )
