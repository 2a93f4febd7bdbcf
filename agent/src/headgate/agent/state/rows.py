"""Rows of the state table: a narrow interface, and HBase behind it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

import structlog

from headgate.agent.errors import HBaseRefused, Unreachable
from headgate.client import (
    ClientError,
    ConnectionFailed,
    RequestRefused,
    ScanRange,
    Thrift2Connection,
)
from headgate.events import Origin, agent_origin
from headgate.settings import write_address
from headgate.spark import LEDGER_FAMILY

log = structlog.get_logger("headgate.agent.hbase")

T = TypeVar("T")

_DROPPED = 500  # rows in one request to delete them, which is signed as a whole
FAMILIES = ("spec", "state", "history", LEDGER_FAMILY)
_REPLY = 20.0  # seconds; a call takes milliseconds, and a flow stands still while it is waited for
_FIRST_BACKOFF = 0.05  # seconds; an observer that restarts is back after a few tenths
_FIRST_WARNING = 0.5  # seconds without HBase until the log says so; then twice as long, and so on
_UNSAID = 10.0
"""Seconds for which a call is repeated that the server answers with an internal error: a server
that starts gives it, and so does one that meets a row longer than HBase takes."""
_LONGEST_BACKOFF = 2.0  # seconds; HBase comes back after tens of seconds


class Rows(Protocol):
    """One table, by row. Every call is one atomic step of the row."""

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """Return the row's values by ``family:qualifier``; empty where there is no row."""

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """Set columns of a row."""

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """Set columns of a row if one has the expected value (None: is absent); return whether."""

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """Delete columns of a row, or all of it."""

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Return the rows from ``start`` to before ``stop``."""

    def names(self, start: bytes, stop: bytes) -> list[bytes]:
        """Return which rows there are from ``start`` to before ``stop``."""

    def drop(self, rows: Sequence[bytes]) -> None:
        """Delete rows, each in a step of its own."""


class HBaseConnections:
    """Connections to one Thrift2 server, one for each call under way; safe in several threads.

    A call that finds no server is repeated with growing pauses, so every call must be one that may
    be repeated. A call that the server refuses for good is not repeated.

    Args:
        host: where the server or an observer listens.
        port: its Thrift2 port.
        stopping: set when the agent ends, after which nothing is repeated.
        patience: seconds before a call gives up that says nothing of it; None for ever.
        connect: opens a connection, with a limit in seconds for each reply.
        clock: any time in seconds that only passes.
    """

    def __init__(
        self,
        host: str,
        port: int,
        stopping: threading.Event,
        patience: float | None = None,
        connect: Callable[[str, int, float], Thrift2Connection] = Thrift2Connection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = write_address(host, port)
        self._host = host
        self._port = port
        self._stopping = stopping
        self._patience = patience
        self._connect = connect
        self._clock = clock
        self._idle: list[Thrift2Connection] = []
        self._lock = threading.Lock()
        self._waiting: dict[int, str] = {}
        """Reason why each waiting call has not succeeded yet, by the call's number."""
        self._numbers = count()
        self._answered = -math.inf
        """When the server last did what a call asked for."""
        self._asking = threading.local()

    @property
    def trouble(self) -> str | None:
        """Reason why calls wait for the server, in words; None while none waits.

        The server counts as up while it does what other calls ask for.
        """
        with self._lock:
            return next(iter(self._waiting.values()), None)

    @contextmanager
    def while_wanted(self, gone: Callable[[], bool]) -> Iterator[None]:
        """Give up calls of this thread that wait for the server, once nobody wants their result.

        ``gone`` returns whether that is so.
        """
        self._asking.gone = gone
        try:
            yield
        finally:
            self._asking.gone = None

    def call(self, what: Callable[[Thrift2Connection], T], patience: float | None = None) -> T:
        """Carry out a call, and repeat it while the server is away.

        Args:
            what: the call; it may be done more than once.
            patience: seconds before giving up; those of all calls where None.

        Raises:
            Unreachable: the server was away for that long, nobody wants the result any more, or the
                agent stops.
            HBaseRefused: the server refuses the call, and would refuse it again.
        """
        number = next(self._numbers)
        try:
            return self._repeated(number, what, self._patience if patience is None else patience)
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def _repeated(
        self, number: int, what: Callable[[Thrift2Connection], T], patience: float | None
    ) -> T:
        started = self._clock()
        backoff = _FIRST_BACKOFF
        warn_after = _FIRST_WARNING
        while True:
            tried = self._clock()
            connection = None
            try:
                connection = self._take()
                result = what(connection)
            except ClientError as error:
                if connection is not None and not isinstance(error, ConnectionFailed):
                    self._give(connection)
                waited = self._clock() - started
                if _is_final(error, waited):
                    raise HBaseRefused(f"HBase refuses this: {error}") from error
                self._note(number, error, tried)
                if patience is not None and waited + backoff > patience:
                    raise Unreachable(
                        f"HBase does not answer at {self.address}: {error}"
                    ) from error
                if waited >= warn_after:
                    warn_after *= 2
                    log.warning("waiting for HBase", problem=str(error), seconds=round(waited, 1))
                if self._stopping.wait(backoff):
                    raise Unreachable(
                        f"the agent stops while HBase does not answer at {self.address}: {error}"
                    ) from error
                gone = getattr(self._asking, "gone", None)
                if gone is not None and gone():
                    raise Unreachable(
                        f"nobody waits any more for HBase at {self.address}"
                    ) from error
                backoff = min(_LONGEST_BACKOFF, backoff * 2)
            except BaseException:
                if connection is not None:
                    # Nobody knows what is left in it.
                    connection.close()
                raise
            else:
                self._give(connection)
                with self._lock:
                    self._answered = self._clock()
                    self._waiting.clear()
                return result

    def _note(self, number: int, error: ClientError, tried: float) -> None:
        """Note why a call waits, unless the server did what another asked for meanwhile."""
        said = isinstance(error, RequestRefused) and error.may_pass is None
        with self._lock:
            if said or self._answered >= tried:
                self._waiting.pop(number, None)
            else:
                self._waiting[number] = str(error)

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Thrift2Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._connect(self._host, self._port, _REPLY)

    def _give(self, connection: Thrift2Connection) -> None:
        with self._lock:
            self._idle.append(connection)


def _is_final(error: ClientError, waited: float) -> bool:
    """Return whether a call that failed need not be repeated, after so many seconds."""
    if not isinstance(error, RequestRefused) or error.may_pass:
        return False
    return error.may_pass is False or waited >= _UNSAID


class HBaseRows:
    """A table of agents in HBase.

    Args:
        connections: to an observer.
        table: the table's name.
        proof: returns the signature by which an observer knows an agent that writes to some rows.
        families: of the table.
    """

    def __init__(
        self,
        connections: HBaseConnections,
        table: str,
        proof: Callable[[Sequence[bytes]], bytes],
        families: Sequence[str] = FAMILIES,
    ) -> None:
        self._connections = connections
        self.table = table
        self._proof = proof
        self._families = families

    def create(self, patience: float) -> None:
        """Create the table where it is missing.

        Raises:
            Unreachable: HBase did not answer in that many seconds.
        """

        def create(connection: Thrift2Connection) -> None:
            if not connection.table_exists(self.table):
                try:
                    connection.create_table(self.table, self._families)
                except RequestRefused:
                    # Another agent that starts at this moment may have been first.
                    if not connection.table_exists(self.table):
                        raise

        self._connections.call(create, patience)

    def exists(self) -> bool:
        """Return whether the table is there."""
        return self._connections.call(lambda c: c.table_exists(self.table))

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """See ``Rows``."""
        return self._connections.call(lambda c: c.get(self.table, row, families))

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """See ``Rows``."""
        origin = agent_origin(self._proof((row,)))
        self._connections.call(lambda c: c.put(self.table, [(row, columns)], origin=origin))

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """See ``Rows``; after a lost reply it is done again: callers must bear a repetition."""
        origin = agent_origin(self._proof((row,)))
        return self._connections.call(
            lambda c: c.check_and_put(self.table, row, column, expected, columns, origin=origin)
        )

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """See ``Rows``."""
        origin = agent_origin(self._proof((row,)))
        self._connections.call(lambda c: c.delete(self.table, [row], columns, origin=origin))

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """See ``Rows``."""
        extent = ScanRange(start, stop, columns=tuple(families))
        return self._connections.call(lambda c: list(c.scan(self.table, extent)))

    def names(self, start: bytes, stop: bytes) -> list[bytes]:
        """See ``Rows``."""
        extent = ScanRange(start, stop, filter="KeyOnlyFilter()")
        return self._connections.call(lambda c: [row for row, _ in c.scan(self.table, extent)])

    def drop(self, rows: Sequence[bytes]) -> None:
        """See ``Rows``."""
        for first in range(0, len(rows), _DROPPED):
            some = rows[first : first + _DROPPED]
            origin = agent_origin(self._proof(some))
            self._connections.call(partial(_drop, table=self.table, rows=some, origin=origin))


def _drop(
    connection: Thrift2Connection, *, table: str, rows: Sequence[bytes], origin: Origin
) -> None:
    connection.delete(table, rows, origin=origin)
