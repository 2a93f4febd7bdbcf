"""Rows that two observers wrote at about one time: who wrote last is not known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from operator import attrgetter

from msgspec.structs import replace

from headgate.events import RequestPart, UpdateBatch

_TOGETHER = 2.0
"""Seconds within which two requests may have been under way at a time: what a request takes, and
what the observers' clocks differ."""
_LATE = 10.0
"""Seconds that an observer's messages may come behind another's and be told apart row by row."""
_MOST = 1_000_000
"""Rows in one generation: at 300,000 a second those of 3 seconds; 0.1 GB."""
_SILENT = 1200.0
"""Seconds for which an observer is remembered that publishes nothing. An observer that goes back by
more has had its clock set back."""
_ANYBODY = ""
"""Stands for the observers that may have been forgotten when a clock was set back."""
_NEVER = float("-inf")

_RECEIVED = attrgetter("received")
_CELLS = attrgetter("cells")

_Writer = tuple[str, float, float]
"""Who wrote a row last, when it received that, and the latest that another has received of it."""


class Rivals:
    """When the observers of one table received what they published.

    Each observer publishes in the order in which its requests ended; between two of them there is
    no order but their clocks'. As long as one observer alone publishes no row is remembered.
    Rows are remembered in two generations; of what was received before them every cell is in doubt.

    Args:
        newest: when each observer received its newest request, Unix seconds, where that is known.
    """

    def __init__(self, newest: Iterable[tuple[str, float]] = ()) -> None:
        self.newest = dict(newest)
        self._since = max(self.newest.values(), default=_NEVER)
        """Rows that were received up to then are not all remembered."""
        self._rows: dict[bytes, _Writer] = {}
        self._former: dict[bytes, _Writer] = {}
        self._begun = _NEVER
        """When the newest of what went before this generation was received."""

    def note(self, batch: UpdateBatch) -> None:
        """Note that an observer published, where no row is of interest."""
        newest = max(map(_RECEIVED, batch.requests))
        self._follow_clock(batch.observer, newest)
        self._note(batch.observer, newest)

    def changed(self, observer: str, received: float) -> bool:
        """Note a change of the whole table; return whether another may have written meanwhile."""
        self._follow_clock(observer, received)
        rivalled = self._others(observer) >= received - _TOGETHER
        self._hear(observer, received)
        self._since = max(self._since, received)
        return rivalled

    def doubtful(self, batch: UpdateBatch) -> list[int]:
        """Return the positions of cells that may have been written before what came before."""
        newest = max(map(_RECEIVED, batch.requests))
        self._follow_clock(batch.observer, newest)
        if len(self.newest) == 1 and batch.observer in self.newest:
            self._note(batch.observer, newest)
            return []
        others = self._others(batch.observer)
        # A message may hold requests of minutes, where Kafka was away for as long.
        times = list(map(_RECEIVED, batch.requests))
        oldest = min(times)
        if others < oldest - _TOGETHER - _LATE:
            self._note(batch.observer, newest)
            return []
        self._hear(batch.observer, newest)
        cells = list(map(_CELLS, batch.requests))
        if cells.count(1) < len(cells):
            times = list(chain.from_iterable(map(repeat, times, cells)))
        found = self._write(batch.observer, times, batch.rows)
        if oldest - _TOGETHER <= self._since and others >= oldest - _TOGETHER:
            latest = min(self._since, others) + _TOGETHER
            forgotten = (place for place, received in enumerate(times) if received <= latest)
            found = sorted({*found, *forgotten})
        if len(self._rows) > _MOST or newest - self._begun > _TOGETHER + _LATE:
            self._turn()
        return found

    def _write(self, observer: str, times: Iterable[float], rows: Iterable[bytes]) -> list[int]:
        """Remember rows; return the places of those of which another's write may be later."""
        current, former = self._rows, self._former
        found = []
        for place, (row, received) in enumerate(zip(rows, times, strict=True)):
            known = current.get(row) or former.get(row)
            if known is None:
                current[row] = (observer, received, _NEVER)
                continue
            who, when, other = known
            if who == observer:
                if when < received:
                    current[row] = (observer, received, other)
            else:
                if other < when:
                    other = when
                current[row] = (observer, received, other)
            if other >= received - _TOGETHER:
                found.append(place)
        return found

    def _follow_clock(self, observer: str, received: float) -> None:
        """Begin anew where an observer's clock was set back: all that comes now is in doubt.

        Times from before are later than those of now, and would say that others are gone.
        """
        if received < self.newest.get(observer, _NEVER) - _SILENT:
            self.newest = dict.fromkeys((*self.newest, _ANYBODY), received)
            self._rows, self._former = {}, {}
            self._since = self._begun = received

    def _note(self, observer: str, received: float) -> None:
        self._hear(observer, received)
        self._forget()

    def _hear(self, observer: str, received: float) -> None:
        self.newest[observer] = max(self.newest.get(observer, _NEVER), received)

    def _others(self, observer: str) -> float:
        return max((t for who, t in self.newest.items() if who != observer), default=_NEVER)

    def _turn(self) -> None:
        """Begin a generation of rows, and forget the one before the last."""
        newest = max(self.newest.values())
        self._since = max(self._since, self._begun)
        self._former, self._rows, self._begun = self._rows, {}, newest
        self._forget_silent(newest)

    def _forget(self) -> None:
        """Remember no rows of what was published until now."""
        newest = max(self.newest.values())
        if len(self.newest) > 1:
            self._rows, self._former = {}, {}
            self._forget_silent(newest)
        self._since = self._begun = newest

    def _forget_silent(self, newest: float) -> None:
        """Forget observers that nobody has heard for long: they are gone, or begin anew."""
        self.newest = {who: when for who, when in self.newest.items() if when >= newest - _SILENT}


def doubted(batch: UpdateBatch, positions: list[int]) -> UpdateBatch:
    """Return the batch with the cells at these positions, which ascend, marked as ambiguous."""
    requests: list[RequestPart] = []
    start = at = 0
    for request in batch.requests:
        stop = start + request.cells
        first = at
        while at < len(positions) and positions[at] < stop:
            at += 1
        if at > first:
            both = {*request.ambiguous, *(place - start for place in positions[first:at])}
            request = replace(request, ambiguous=tuple(sorted(both)))
        requests.append(request)
        start = stop
    return replace(batch, requests=tuple(requests))
