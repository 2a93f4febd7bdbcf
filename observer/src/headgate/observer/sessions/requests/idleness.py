"""A client that is quiet, and the calls that keep its connection to HBase meanwhile."""

from __future__ import annotations

from time import perf_counter
from typing import Final, Protocol

from headgate.observer.upstreams.scanners import OpenScanners

_clock: Final = perf_counter


class Forwarded(Protocol):
    """The requests of a connection that were forwarded."""

    touched: float
    own_touched: float

    def make_own_call(self) -> bool:
        """Make a call of the observer's own; False: it is not possible."""

    def is_over(self) -> bool:
        """Return whether it is certain that nothing can still come of what was forwarded."""

    def waits_for_reply(self) -> bool:
        """Return whether there is a request of whose reply nothing has come."""


class Idleness:
    """How long a client has been quiet, and the calls that keep its connection to HBase meanwhile.

    HBase's Thrift servers close a connection on which nothing came for 60 seconds. Where a scanner
    may be open the connection is kept awake. Where the end of the last reply is only believed, one
    call makes it certain: then the connection can be replaced once HBase has closed it.
    """

    def __init__(self, forwarded: Forwarded, scanners: OpenScanners) -> None:
        """Begin with a client that has not sent anything yet."""
        self._forwarded = forwarded
        self._scanners = scanners
        self._before = 0.0
        """Time of the last reply to the client, before replies to calls of our own."""

    @property
    def since(self) -> float:
        """Time at which bytes of a reply to the client came last."""
        touched = self._forwarded.touched
        return self._before if touched == self._forwarded.own_touched else touched

    def stay_awake(self, seconds: float) -> None:
        """Make a call if the connection was quiet for so many seconds and it is needed as it is."""
        forwarded = self._forwarded
        if not seconds or _clock() - forwarded.touched < seconds or forwarded.waits_for_reply():
            return
        if self._scanners.count or not forwarded.is_over():
            before = self.since
            if forwarded.make_own_call():
                self._before = before
