"""Writers through the observers and round them, which remember what was acknowledged."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import happybase
from happybase.batch import BatchMutation, Mutation
from thriftpy2.thrift import TException

from headgate.client import ClientError, Thrift2Connection
from headgate.events import Origin
from soaking.dataflows import CHANGING, FEEDER, OWNING, SUMMING, Flow, row_of

BROKEN = (OSError, TException, ClientError)
"""What a client raises when it does not learn what became of its request."""
PAUSE = 0.15  # seconds between two requests of one writer, where nothing else is asked for
AWAY = 0.5  # seconds until a writer whose server is gone tries another
ROWS = 400  # of each writer, written again and again, so that nothing grows by what is written
LARGEST = 5  # rows of a request
DELETES = 0.02  # of the requests
DATED = 0.1  # of the requests that say a time
EXPIRING = 0.05  # of the requests of a writer whose cells may expire
BEHIND, AHEAD = 3600.0, 30.0  # seconds that a time may lie before now and after it
LONGEST_TTL = 45.0  # seconds
TIMEOUT = 30.0  # seconds
COLLECTOR = Origin("", "", "", 0, FEEDER)
Write = tuple[bytes, bytes]
Addresses = Callable[[], list[tuple[str, int]]]


class Thrift1Client:
    """Writes by happybase."""

    def __init__(self, address: tuple[str, int], table: str, _: Origin | None) -> None:
        self._connection = happybase.Connection(*address, timeout=int(TIMEOUT * 1000))
        self._table = self._connection.table(table)

    def put(self, rows: dict[bytes, bytes], timestamp: int | None = None) -> None:
        """Put them in one request."""
        with self._table.batch(timestamp=timestamp) as batch:
            for row, value in rows.items():
                batch.put(row, {b"f:v": value})

    def put_for(self, rows: dict[bytes, bytes], seconds: float) -> None:
        """Put them in one request, for so long."""
        mutations = [
            BatchMutation(row, [Mutation(column=b"f:v", value=value)])
            for row, value in rows.items()
        ]
        end = {b"_ttl": struct.pack(">q", int(seconds * 1000))}
        self._connection.client.mutateRows(self._table.name, mutations, end)

    def delete(self, row: bytes, timestamp: int | None = None) -> None:
        """Delete a row's cell, all that is no newer than a time where one is given."""
        self._table.delete(row, columns=[b"f:v"], timestamp=timestamp)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Thrift2Client:
    """Writes by headgate's own client, which can say who writes."""

    def __init__(self, address: tuple[str, int], table: str, origin: Origin | None) -> None:
        self._connection = Thrift2Connection(*address, timeout=TIMEOUT)
        self._table = table
        self._origin = origin

    def put(self, rows: dict[bytes, bytes], timestamp: int | None = None) -> None:
        """Put them in one request."""
        cells = [(row, {b"f:v": value}) for row, value in rows.items()]
        self._connection.put(self._table, cells, timestamp=timestamp, origin=self._origin)

    def delete(self, row: bytes, timestamp: int | None = None) -> None:
        """Delete a row's cell, all that is no newer than a time where one is given."""
        self._connection.delete(
            self._table, [row], [b"f:v"], timestamp=timestamp, origin=self._origin
        )

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


@dataclass
class Writer:
    """Writes rows of its own, again and again, and remembers what it was told of each.

    Attributes:
        name: the beginning of its rows.
        flow: whose input it writes.
        client: what it speaks.
        addresses: returns where it may connect; it goes on to the next where one breaks.
        through: whether that is observers.
        origin: who it says it is.
        choices: its own.
        pause: seconds between two of its requests.
        expiring: whether some of its cells have a time to live.
    """

    name: str
    flow: Flow
    client: type[Thrift1Client] | type[Thrift2Client]
    addresses: Addresses
    through: bool
    origin: Origin | None
    choices: random.Random
    pause: float = PAUSE
    expiring: bool = False
    acknowledged: list[Write] = field(default_factory=list)
    updates: int = 0
    """Of rows, deletes too, that were acknowledged."""
    broken: int = 0
    requests: int = 0
    error: Exception | None = None
    _number: int = 0
    _turn: int = 0

    def run(self, stop: threading.Event) -> None:
        """Write until it is told to stop."""
        try:
            while not stop.is_set():
                self._connected(stop)
                stop.wait(AWAY)
        except Exception as error:
            self.error = error
            raise

    def _connected(self, stop: threading.Event) -> None:
        addresses = self.addresses()
        self._turn += 1
        try:
            client = self.client(
                addresses[self._turn % len(addresses)], self.flow.input, self.origin
            )
        except BROKEN:
            return
        with closing(client):
            while not stop.is_set():
                try:
                    self._write(client)
                except BROKEN:
                    self.broken += 1
                    return
                stop.wait(self.pause)

    def _row(self) -> bytes:
        return row_of(self.name, self.choices.randrange(ROWS))

    def _timestamp(self) -> int | None:
        """Return milliseconds for a few of the requests, some long ago, some that are to come."""
        if self.choices.random() >= DATED:
            return None
        return round(
            (time.time() + self.choices.uniform(-1, 1) * self.choices.choice((BEHIND, AHEAD)))
            * 1000
        )

    def _write(self, client: Any) -> None:
        self.requests += 1
        if self.choices.random() < DELETES:
            client.delete(self._row(), self._timestamp())
            self.updates += 1
            return
        rows = {}
        for row in {self._row() for _ in range(self.choices.randint(1, LARGEST))}:
            self._number += 1
            rows[row] = self._value()
        if self.expiring and self.choices.random() < EXPIRING:
            client.put_for(rows, self.choices.uniform(1.0, LONGEST_TTL))
        else:
            client.put(rows, self._timestamp())
        self.updates += len(rows)
        self.acknowledged += rows.items()

    def _value(self) -> bytes:
        number = b"%d" % self._number
        return self.name.encode() + b"-" + number if self.flow is CHANGING else number


def writers(stand: Any, seed: int, pause: float) -> list[Writer]:
    """Return those of a piece."""
    round_ = [stand.addresses.thrift2]
    one, two = lambda: stand.thrift1, lambda: stand.thrift2
    around = lambda: round_  # noqa: E731
    made = (
        ("changing-one", CHANGING, Thrift1Client, one, None, False),
        ("changing-two", CHANGING, Thrift2Client, two, None, False),
        ("summing-through", SUMMING, Thrift1Client, one, None, True),
        ("summing-round", SUMMING, Thrift2Client, around, None, False),
        ("owning-feeder", OWNING, Thrift2Client, two, COLLECTOR, False),
        ("owning-stranger", OWNING, Thrift1Client, one, None, True),
    )
    return [
        Writer(
            name=name,
            flow=flow,
            client=client,
            addresses=addresses,
            through=addresses is not around,
            origin=origin,
            choices=random.Random(f"{seed}-{name}"),
            pause=pause,
            expiring=expiring,
        )
        for name, flow, client, addresses, origin, expiring in made
    ]


@contextmanager
def writing(those: list[Writer]) -> Iterator[None]:
    """Have them write meanwhile."""
    stop = threading.Event()
    with ExitStack() as ending:
        for writer in those:
            thread = threading.Thread(target=writer.run, args=(stop,), name=writer.name)
            thread.start()
            ending.callback(thread.join)
        ending.callback(stop.set)
        yield
