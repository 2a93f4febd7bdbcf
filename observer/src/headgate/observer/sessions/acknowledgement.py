"""Replies that wait until Kafka has the events of the writes that they answer.

Made only where the configuration says so. A client that is answered then knows that its write's
events survive the loss of the observer's host. One that waits for longer than the limit has its
connection closed: answering without the events would say what is not so, and an error would say
that nothing was written. It sees a broken connection, after which a write may or may not be done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from headgate.observer.monitoring.client_log import ClientLog

_NAMED: Final = 100  # intents that one line of the log may name
_HELD_BYTES: Final = 64 << 20  # per connection; only requests sent ahead have replies so large


class Acknowledgements:
    """Which connections wait for which intents."""

    def __init__(self, *, seconds: float, clock: Callable[[], float]) -> None:
        """Hold replies for ``seconds`` at most; ``clock`` is any time in seconds."""
        self._seconds = seconds
        self._clock = clock
        self._waiting: dict[int, HeldReplies] = {}
        self.expired = 0
        """Connections that were closed because Kafka did not have the events in time."""

    def __len__(self) -> int:
        """Return how many writes wait for Kafka."""
        return len(self._waiting)

    def guard(self, transport: asyncio.Transport, log: ClientLog) -> HeldReplies:
        """Return the client's connection as its session is to use it; ``log`` is its log."""
        return HeldReplies(self, transport, log)

    def wait(self, intent: int, connection: HeldReplies) -> float:
        """Note that a connection waits for an intent; return since when."""
        self._waiting[intent] = connection
        return self._clock()

    def settled(self, intent: int) -> None:
        """Note that all events of an intent are on Kafka, or that it has none."""
        connection = self._waiting.pop(intent, None)
        if connection is not None:
            connection.release(intent)

    def forget(self, intents: list[int]) -> None:
        """Wait no more for what a connection that is gone waited for."""
        for intent in intents:
            self._waiting.pop(intent, None)

    def tend(self) -> None:
        """Close the connections that have waited for too long."""
        limit = self._clock() - self._seconds
        late = {each for each in self._waiting.values() if each.since < limit}
        for connection in late:
            self.expired += 1
            connection.give_up(
                f"Kafka did not take a write's events within {self._seconds:g} s "
                "(kafka.acknowledge_seconds)"
            )


class HeldReplies(asyncio.Transport):
    """A client's connection whose replies go out in order, none before its write's events."""

    def __init__(
        self, acknowledgements: Acknowledgements, transport: asyncio.Transport, log: ClientLog
    ) -> None:
        """Stand in front of the connection."""
        super().__init__()
        self._acknowledgements = acknowledgements
        self._transport = transport
        self._log = log
        # In the order of the connection: intents that are not settled, and bytes behind them.
        self._queue: deque[int | bytes] = deque()
        self._settled: set[int] = set()
        self._times: deque[tuple[int, float]] = deque()
        self._held = 0
        self._closing = False

    @property
    def since(self) -> float:
        """When the oldest wait began; infinite without one."""
        return self._times[0][1] if self._times else float("inf")

    def hold(self, intent: int) -> None:
        """Hold what is written from now on until the intent is settled."""
        self._queue.append(intent)
        self._times.append((intent, self._acknowledgements.wait(intent, self)))

    def release(self, intent: int) -> None:
        """Let go what waited for the intent only."""
        self._settled.add(intent)
        queue = self._queue
        while queue:
            head = queue[0]
            if isinstance(head, int):
                if head not in self._settled:
                    return
                self._settled.remove(head)
                self._times.popleft()
            else:
                self._held -= len(head)
                self._pass(head)
            queue.popleft()
        if self._closing:
            self._transport.close()

    def give_up(self, reason: str) -> None:
        """Break the connection."""
        intents = [intent for intent, _ in islice(self._times, _NAMED)]
        self._log.warning(
            "connection closed with a write unanswered", intents=intents, reason=reason
        )
        self.abort()

    def _pass(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    # -- the connection as sessions know it

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes once everything before them is settled."""
        if not self._queue:
            self._transport.write(data)
            return
        self._queue.append(bytes(data))
        self._held += len(data)
        if self._held > _HELD_BYTES:
            self.give_up(f"more than {_HELD_BYTES >> 20} MiB of replies wait for Kafka")

    def close(self) -> None:
        """Close once everything is sent."""
        self._closing = True
        if not self._queue:
            self._transport.close()

    def abort(self) -> None:
        """Close now; what is held is never sent."""
        self._closing = True
        self.clear()
        self._transport.abort()

    def clear(self) -> None:
        """Hold nothing any more: nobody is there to answer."""
        self._acknowledgements.forget([intent for intent, _ in self._times])
        self._queue.clear()
        self._times.clear()
        self._settled.clear()
        self._held = 0

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are held or not sent."""
        return self._held + self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether no more requests are read."""
        return self._closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Read no requests."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read requests again."""
        self._transport.resume_reading()

    def can_write_eof(self) -> bool:
        """Return whether the connection can be closed by halves: TLS cannot."""
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        """Not used: replies end with the connection."""
        self._transport.write_eof()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the connection knows of itself."""
        return self._transport.get_extra_info(name, default)
