"""How long a large request keeps an observer's loop from everything else, at once and in parts.

Run: ``python tests/bench/large_requests.py [MEBIBYTES [TITLE]]``. Prints, for each kind of request
(those whose title matches), processor time in milliseconds of the longest single call of the loop
from the first byte to the last event: with parts as large as the request, with those that an
observer has, and the ratio; then microseconds of a put of one cell. Least of some rounds, in turns.
Sessions stand between transports in memory, and the producer only counts: what the network and
librdkafka take is not in it.
"""

from __future__ import annotations

import gc
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, cast

from measuring.transports import EndlessTransport

from headgate.events import Notify, Watch, WatchList
from headgate.hbase import Dialect
from headgate.observer.config import JournalSettings
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Recorder
from headgate.observer.sessions.endpoint import (
    Endpoint,
    Enforcement,
    Monitoring,
    Recording,
    Upstreams,
)
from headgate.observer.sessions.session import Session
from headgate.observer.tuning import is_compiled
from headgate.wire import (
    Limits,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_message,
)
from headgate.wire import Message as WireMessage

ROUNDS = 3
PUTS = 3000
PARTITIONS = 8
READ = 1 << 18  # bytes that a transport reads at once
WHOLE = 1 << 40


class Loop:
    """Runs what is to be run, in order, and keeps the longest time that one call took."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], object]] = deque()
        self.longest = 0.0
        self.where = ""

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Run a call after those that wait."""
        self.calls.append(lambda: call(*arguments))

    def call_later(self, _seconds: float, call: Callable[[], object]) -> None:
        """Run a call after those that wait: nobody has time."""
        self.calls.append(call)

    def run(self, name: str, call: Callable[[], object]) -> None:
        """Run a call, and then all that it has asked for."""
        self._time(name, call)
        while self.calls:
            self._time(f"after {name}", self.calls.popleft())

    def _time(self, name: str, call: Callable[[], object]) -> None:
        begun = time.thread_time()
        call()
        took = time.thread_time() - begun
        if took > self.longest:
            self.longest, self.where = took, name


class Producer:
    """Delivers in the loop's next turn."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def send(self, _topic: str, _partition: int, _value: bytes, done: Any) -> bool:
        """Take a message."""
        self._loop.call_soon(done, None)
        return True

    def restart(self) -> None:
        """Have nothing to begin anew."""


class Place:
    """An observer's sessions without an observer around them."""

    def __init__(self, directory: Path, dialect: Dialect, *, parts: bool, notify: bool) -> None:
        loop = self.loop = Loop()
        journal = Journal(directory, limit_bytes=1 << 34, segment_bytes=1 << 25)
        metrics, columns = Metrics(), NotifyColumns()
        control = ControlState(columns)
        self.publisher = Publisher(
            observer="o",
            epoch=1,
            producer=Producer(loop),
            settle=journal.settle_all,
            unfinished=lambda table: self.recorder.lowest_unfinished(table),
            ensure=lambda _table, _topic: None,
            wanted=lambda _table: True,
            named=lambda _table: True,
            named_alone=lambda _table: False,
            later=loop.call_later,
            linger_seconds=0.0,
            clock=time.time,
        )
        self.recorder = Recorder(
            journal=journal,
            publisher=self.publisher,
            metrics=metrics,
            clock=time.time,
            soon=loop.call_soon,
            later=loop.call_later,
        )
        asked = Notify() if notify else None
        control.apply(WatchList(1, "d", 1, (Watch("t", notify=asked),)), "o")
        self.publisher.prepare("t", values=True)
        self.publisher.topic_ready("t", PARTITIONS)
        self.endpoint = Endpoint(
            loop=cast("Any", loop),
            dialect=dialect,
            limits=Limits(),
            upstreams=Upstreams(cast("Any", None)),
            enforcement=Enforcement(
                control, WriteGates(hold_seconds=5.0, clock=time.time), columns
            ),
            recording=Recording(
                self.recorder,
                WriteAdmission(
                    journal,
                    self.publisher,
                    JournalSettings(str(directory)),
                    clock=time.time,
                    passing=time.monotonic,
                ),
            ),
            monitoring=Monitoring(metrics),
        )
        if not parts:
            self.endpoint.max_bytes_per_turn = WHOLE
            if hasattr(self.publisher, "part_cells"):
                self.publisher.part_cells = WHOLE

    def connect(self) -> Session:
        """Return a session that is connected on both sides."""
        session = Session(self.endpoint)
        session.connection_made(cast("Any", EndlessTransport()))
        session.upstream_made(cast("Any", EndlessTransport()))
        session.upstream_settled(cast("Any", EndlessTransport()))
        return session

    def ask(self, session: Session, request: bytes, reply: bytes) -> None:
        """Send a request through and its reply back."""
        for at in range(0, len(request), READ):
            part = request[at : at + READ]
            self.loop.run("data_received", partial(session.data_received, part))
        self.loop.run("reply_received", lambda: session.reply_received(reply))


# -- requests


def sizes(number: int) -> int:
    """Return the length of a value, which differs from its neighbours'."""
    return 20 + number * 7919 % 61


def mutation(number: int, *, deletes: bool = False) -> bytes:
    """Return a Mutation."""
    writer = StructWriter().bool(1, deletes and not number % 3).binary(2, b"f:%d" % (number % 1000))
    return writer.binary(3, b"v" * sizes(number)).bool(4, True).end()


def column_value(number: int) -> bytes:
    """Return a TColumnValue."""
    writer = StructWriter().binary(1, b"f").binary(2, b"%d" % (number % 1000))
    return writer.binary(3, b"v" * sizes(number)).end()


def batch_mutation(number: int, *, deletes: bool = False) -> bytes:
    """Return a row of one cell, or sometimes two."""
    cells = [mutation(number + each, deletes=deletes) for each in range(1 + (number % 7 == 0))]
    return StructWriter().binary(1, b"row-%d" % number).structs(2, cells).end()


def tput(number: int) -> bytes:
    """Return the same for Thrift2."""
    cells = [column_value(number + each) for each in range(1 + (number % 7 == 0))]
    return StructWriter().binary(1, b"row-%d" % number).structs(2, cells).end()


def tdelete(number: int) -> bytes:
    """Return a TDelete of a column, or sometimes two."""
    cells = [
        StructWriter().binary(1, b"f").binary(2, b"%d" % (number % 997)).end()
        for _ in range(1 + (number % 7 == 0))
    ]
    return StructWriter().binary(1, b"row-%d" % number).structs(2, cells).end()


def many(make: Callable[[int], bytes], size: int) -> list[bytes]:
    """Return as many as have the size together."""
    found: list[bytes] = []
    total = 0
    while total < size:
        found.append(make(len(found)))
        total += len(found[-1])
    return found


def framed(name: str, body: bytes, protocol: Protocol = Protocol.BINARY) -> bytes:
    """Return a call."""
    raw = write_message(Transport.FRAMED, name, MessageType.CALL, 3, body)
    at = len(raw) - len(body)
    message = WireMessage(raw, at, name, MessageType.CALL, 3, Transport.FRAMED)
    limits = Limits(max_frame=1 << 31, max_string=1 << 31, max_container=1 << 31)
    return transcode(message, protocol, Transport.FRAMED, limits).raw


def reply(request: bytes, name: str, protocol: Protocol) -> bytes:
    """Return the answer that it is done."""
    raw = write_message(Transport.FRAMED, name, MessageType.REPLY, 3, b"\x00")
    message = WireMessage(raw, len(raw) - 1, name, MessageType.REPLY, 3, Transport.FRAMED)
    return transcode(message, protocol, Transport.FRAMED).raw


Make = Callable[[int], bytes]
"""Makes a method's arguments of so many bytes."""


def in_list(make: Callable[[int], bytes]) -> Make:
    """Return what makes arguments with a list of many as the second."""
    return lambda size: StructWriter().binary(1, b"t").structs(2, many(make, size)).end()


def one_row(make: Callable[[int], bytes]) -> Make:
    """Return what makes the arguments of Thrift1's ``mutateRow``."""

    def made(size: int) -> bytes:
        head = StructWriter().binary(1, b"t").binary(2, b"r")
        return head.structs(3, many(make, size)).end()

    return made


def of_struct(make: Callable[[int], bytes]) -> Make:
    """Return what makes arguments whose second is a row with many."""

    def made(size: int) -> bytes:
        row = StructWriter().binary(1, b"r").structs(2, many(make, size)).end()
        return StructWriter().binary(1, b"t").struct(2, row).end()

    return made


def one_in_list(make: Callable[[int], bytes]) -> Make:
    """Return what makes arguments with a list of one row with many."""

    def made(size: int) -> bytes:
        row = StructWriter().binary(1, b"r").structs(2, many(make, size)).end()
        return StructWriter().binary(1, b"t").structs(2, [row]).end()

    return made


def tmutation(number: int) -> bytes:
    """Return a TMutation: a put and a delete in turns."""
    if number % 2:
        return StructWriter().struct(1, tput(number)).end()
    return StructWriter().struct(2, tdelete(number)).end()


ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
REQUESTS: list[tuple[str, Dialect, str, Make]] = [
    ("mutateRows", ONE, "mutateRows", in_list(batch_mutation)),
    ("mutateRows, mixed", ONE, "mutateRows", in_list(partial(batch_mutation, deletes=True))),
    ("mutateRows, one row", ONE, "mutateRows", one_in_list(mutation)),
    ("mutateRow", ONE, "mutateRow", one_row(mutation)),
    ("mutateRow, mixed", ONE, "mutateRow", one_row(partial(mutation, deletes=True))),
    ("putMultiple", TWO, "putMultiple", in_list(tput)),
    ("deleteMultiple", TWO, "deleteMultiple", in_list(tdelete)),
    ("put", TWO, "put", of_struct(column_value)),
    ("mutateRow of Thrift2", TWO, "mutateRow", of_struct(tmutation)),
]
"""Title, dialect, method and arguments."""


def longest(
    dialect: Dialect, name: str, raw: bytes, protocol: Protocol, *, parts: bool, notify: bool
) -> tuple[float, str]:
    """Return how long the longest call took, in seconds, and which it was."""
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), dialect, parts=parts, notify=notify)
        session = place.connect()
        place.ask(session, raw, reply(raw, name, protocol))
        assert place.publisher.idle, "events are missing"
        assert place.publisher.published
        return place.loop.longest, place.loop.where


def microseconds_of_a_put(*, parts: bool) -> float:
    """Return the time that one takes, from its first byte to its event."""
    put = StructWriter().binary(1, b"t").binary(2, b"row").structs(3, [mutation(7)]).end()
    request = framed("mutateRow", put)
    answer = reply(request, "mutateRow", Protocol.BINARY)
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), Dialect.THRIFT1, parts=parts, notify=False)
        session, loop = place.connect(), place.loop
        begun = time.thread_time()
        for _ in range(PUTS):
            session.data_received(request)
            session.reply_received(answer)
            while loop.calls:
                loop.calls.popleft()()
        return (time.thread_time() - begun) / PUTS * 1e6


def main() -> None:
    """Print the table."""
    mebibytes = float(sys.argv[1]) if len(sys.argv) > 1 else 8.0
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    kind = "compiled" if is_compiled() else "interpreted"
    print(f"headgate {kind}; Python {platform.python_version()}, {platform.machine()}")
    print(f"requests of {mebibytes:g} MiB, framed, {PARTITIONS} partitions; ms of the longest call")
    print(f"{'request':36}{'at once':>9}{'in parts':>10}{'ratio':>7}  longest is")
    gc.freeze()
    for title, dialect, name, make in REQUESTS:
        for protocol in (Protocol.BINARY, Protocol.COMPACT):
            for notify in (False, True):
                whole = f"{title}, {protocol.value}" + (", notify" if notify else "")
                if not fnmatch(whole, wanted or "*"):
                    continue
                raw = framed(name, make(int(mebibytes * (1 << 20))), protocol)
                line(whole, dialect, name, raw, protocol, notify=notify)
    puts = {False: 1e9, True: 1e9}
    for _ in range(ROUNDS):
        for parts in (False, True):
            puts[parts] = min(puts[parts], microseconds_of_a_put(parts=parts))
    print(f"put of one cell: {puts[False]:.1f} and {puts[True]:.1f} us")


def line(
    title: str, dialect: Dialect, name: str, raw: bytes, protocol: Protocol, *, notify: bool
) -> None:
    """Print a request's line."""
    best: dict[bool, tuple[float, str]] = {}
    for _ in range(ROUNDS):
        for parts in (False, True):
            found = longest(dialect, name, raw, protocol, parts=parts, notify=notify)
            best[parts] = min(best.get(parts, found), found)
    (whole, _), (part, where) = best[False], best[True]
    print(f"{title:36}{whole * 1e3:9.1f}{part * 1e3:10.1f}{part / whole:7.2f}  {where}", flush=True)


if __name__ == "__main__":
    main()
