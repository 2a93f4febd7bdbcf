"""The threads that carry the dataflows of an agent: a few for all, one at a time for each."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from enum import Enum
from itertools import count
from typing import Protocol

from headgate.agent.supervision import Supervision, ThreadKind


class Member(Protocol):
    """Something that is carried by taking turns."""

    def turn(self) -> float | None:
        """Do what waits or is due; return when the next turn is due, None once it has ended.

        The time is that of ``time.monotonic``. Nothing is raised.
        """


class _Stage(Enum):
    RESTING = "resting"
    READY = "ready"
    ON_TURN = "on turn"
    WOKEN = "woken on its turn"
    ENDED = "ended"


class Place:
    """A member's place in a pool. Its first turn comes once ``wake`` is called with it."""

    __slots__ = ("alarm", "due", "member", "stage")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.stage = _Stage.RESTING
        self.due = 0.0
        """When its next turn is due, as its last one returned it."""
        self.alarm: float | None = None
        """When the pool looks at it by itself: not later than ``due``; None while it does not."""


class DataflowPool:
    """Gives each member a turn when it was woken or is due.

    Threads are started as they are needed: as long as there may be more, one always waits, so that
    a member is held up by others only when as many are on turn as there may be threads.

    Args:
        threads: most threads; a member on turn may wait for HBase or Kafka and keep its thread.
        supervision: owner of the threads.
    """

    def __init__(self, threads: int, supervision: Supervision) -> None:
        self._most = threads
        self._supervision = supervision
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._clock = threading.Condition(self._lock)
        """Condition of the one waiting thread that wakes when the first member is due."""
        self._closing = threading.Event()
        self._ready: deque[Place] = deque()
        self._alarms: list[tuple[float, int, Place]] = []
        """A heap. Of several entries of a place only the one that is its ``alarm`` counts."""
        self._order = count()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        """Threads that wait for work, the one that waits for the first due not among them."""
        self._watched = False
        """True while a thread waits for the first due."""

    @property
    def threads(self) -> int:
        """How many threads have been started."""
        return len(self._threads)

    def wake(self, place: Place) -> None:
        """Give a member a turn soon; one turn for all calls before it begins."""
        with self._lock:
            if place.stage is _Stage.ON_TURN:
                place.stage = _Stage.WOKEN
            elif place.stage is _Stage.RESTING:
                self._enqueue(place)
                self._call_a_thread()

    def close(self) -> None:
        """End the threads; members have ended by now."""
        with self._lock:
            self._closing.set()
            self._work.notify_all()
            self._clock.notify_all()
        for thread in self._threads:
            thread.join()

    def _enqueue(self, place: Place) -> None:
        place.stage = _Stage.READY
        self._ready.append(place)

    def _call_a_thread(self) -> None:
        """Have a thread look at what is ready, the lock held; start one if none waits."""
        if self._waiting:
            self._work.notify()
        elif self._watched:
            self._clock.notify()
        elif len(self._threads) < self._most and not self._closing.is_set():
            name = f"flows-{len(self._threads)}"
            thread = self._supervision.thread(ThreadKind.FLOW, name, self._carry, self._closing)
            self._threads.append(thread)
            thread.start()

    def _carry(self) -> None:
        while (place := self._next()) is not None:
            due = place.member.turn()
            with self._lock:
                self._rest(place, due)

    def _next(self) -> Place | None:
        """Wait for a member that is to take its turn; None once the pool closes."""
        with self._lock:
            while not self._closing.is_set():
                self._ring(time.monotonic())
                if self._ready:
                    place = self._ready.popleft()
                    place.stage = _Stage.ON_TURN
                    if self._ready or not self._watched:
                        self._call_a_thread()
                    return place
                if self._watched:
                    self._waiting += 1
                    self._work.wait()
                    self._waiting -= 1
                else:
                    self._watched = True
                    first = self._alarms[0][0] - time.monotonic() if self._alarms else None
                    self._clock.wait(None if first is None else max(0.0, first))
                    self._watched = False
        return None

    def _ring(self, now: float) -> None:
        """Have members that are due by now take their turns."""
        while self._alarms and self._alarms[0][0] <= now:
            alarm, _, place = heapq.heappop(self._alarms)
            if place.alarm != alarm:
                continue
            place.alarm = None
            if place.stage is _Stage.RESTING:
                if place.due <= now:
                    self._enqueue(place)
                else:
                    self._set_alarm(place)

    def _set_alarm(self, place: Place) -> None:
        place.alarm = place.due
        heapq.heappush(self._alarms, (place.due, next(self._order), place))

    def _rest(self, place: Place, due: float | None) -> None:
        if due is None:
            place.stage = _Stage.ENDED
        elif place.stage is _Stage.WOKEN:
            self._enqueue(place)  # whoever woke it on its turn will not do so again
        else:
            place.stage = _Stage.RESTING
            place.due = due
            if place.alarm is None or due < place.alarm:
                first = not self._alarms or due < self._alarms[0][0]
                self._set_alarm(place)
                if first and self._watched:
                    self._clock.notify()
