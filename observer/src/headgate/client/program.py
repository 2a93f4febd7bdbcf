"""The observer of this process: begun with the first connection, ended with the program."""

from __future__ import annotations

import atexit
import os
import sys
import threading

import structlog

from headgate.client.configuration import load_client_config, observer_config, program_origin
from headgate.observer import EmbeddedObserver

_AFTER_EVERYTHING = -100  # of multiprocessing's finalizers, which run from high to low


class _Program:
    """What there is once in a process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.observer: EmbeddedObserver | None = None
        self.held: EmbeddedObserver | None = None
        """The observer that a fork under way holds still."""


_program = _Program()


def observer_of_process() -> EmbeddedObserver:
    """Return the observer of this process, begun where there is none.

    Raises:
        ConfigurationError: the environment does not say what is needed, or not rightly.
        JournalError: no journal can be opened.
    """
    observer = _program.observer
    if observer is not None and not observer.ended:
        return observer
    with _program.lock:
        observer = _program.observer
        if observer is None or observer.ended:
            config = load_client_config(os.environ)
            _set_log_up()
            observer = EmbeddedObserver(
                observer_config(config, os.environ),
                patience_seconds=config.start_seconds,
                origin=program_origin(config, os.environ),
                strict=config.order.strict,
            )
            _program.observer = observer
            _end_with_worker()
    return observer


def _set_log_up() -> None:
    """Log as libraries do, through ``logging``, unless the program has said otherwise."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def _stop() -> None:
    observer = _program.observer
    if observer is not None:
        observer.stop()


def _end_with_worker() -> None:
    """End cleanly with a process of multiprocessing, which calls no ``atexit``."""
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:
        multiprocessing.Finalize(None, _stop, exitpriority=_AFTER_EVERYTHING)


def _before_fork() -> None:
    _program.lock.acquire()
    observer = _program.held = _program.observer
    if observer is not None:
        observer.before_fork()


def _after_fork_in_parent() -> None:
    if _program.held is not None:
        _program.held.after_fork_in_parent()
        _program.held = None
    _program.lock.release()


def _after_fork_in_child() -> None:
    if _program.held is not None:
        _program.held.after_fork_in_child()
    _program.__init__()  # type: ignore[misc]


atexit.register(_stop)
os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
