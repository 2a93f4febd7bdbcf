"""The end of a process, which a signal or one of its threads asks for."""

from __future__ import annotations

import select
import signal
import socket
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final

ASKING: Final = (signal.SIGTERM, signal.SIGINT)
_BY_ITSELF: Final = b"\0"  # no signal has this number


class Ending:
    """What the main thread waits for until the process is to end.

    While it is entered, SIGTERM and SIGINT ask for the end. A handler in Python would not do: it
    runs on the main thread between any two steps of it, so that a lock which the thread holds
    just then is never released, and not before that thread goes on, which may be never where the
    system handed the signal to another thread. The interpreter itself writes each signal's number
    to a socket, from whichever thread, and the main thread waits for that.

    Raises:
        ValueError: entered on a thread other than the main one.
    """

    def __init__(self) -> None:
        self._heard, self._told = socket.socketpair()
        for end in (self._heard, self._told):
            end.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self._heard, select.POLLIN)
        self._descriptor = -1  # where signals were told before, and who handled them
        self._handlers: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Ending:
        # All that is told twice says nothing new, so it may be lost where there is no more space.
        self._descriptor = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        for number in ASKING:
            self._handlers[number] = signal.signal(number, _note_nothing)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        self._heard.close()
        self._told.close()

    def begin(self) -> None:
        """Ask for the end from a thread, where something ended by itself."""
        # Where there is no more space, so much was told that nobody can miss it.
        with suppress(BlockingIOError):
            self._told.send(_BY_ITSELF)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the end is asked for, or for so long, and return whether it is."""
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    @property
    def signalled(self) -> bool:
        """Whether a signal came first; once :meth:`wait` has returned True."""
        return self._heard.recv(1, socket.MSG_PEEK) != _BY_ITSELF


def _note_nothing(number: int, frame: FrameType | None) -> None:
    """Have the interpreter tell of a signal instead of ending the process."""
