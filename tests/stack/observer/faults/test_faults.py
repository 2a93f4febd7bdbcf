"""Writes through an observer while connections break and processes are killed, by seed.

Each scenario writes through Thrift1 and Thrift2, with faults between clients and the observer,
between the observer and HBase's servers, or both, and kills a process. At its end what clients
were told, what the events say and what HBase holds must agree:

- an acknowledged write has its events, as applied or unknown
- whatever HBase holds has an event
- what an event says was applied is in HBase, with the value and the timestamp that it says
- a write of whose end the observer has heard nothing is unknown
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Any

import happybase
import pytest
import thriftpy2
from confluent_kafka.admin import AdminClient
from free_ports import free_port
from msgspec import Struct
from thriftpy2.rpc import make_client

import headgate.client
from headgate.events import Outcome, UpdateBatch, UpdateKind, UpdateMessage, updates_topic
from headgate.local import Addresses, LocalStack, Part, PartFailedError
from headgate.observer import (
    Fsync,
    Journal,
    Kafka,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="faults_one_thrift"
)
TWO = thriftpy2.load(
    str(Path(headgate.client.__file__).with_name("hbase2.thrift")), module_name="faults_two_thrift"
)

WRITERS = 4
ENOUGH = 50  # acknowledged writes
ROWS = 8  # few, so that writers meet in them
DELETES = frozenset({UpdateKind.DELETE_COLUMN, UpdateKind.DELETE_CELL})


class Victim(Enum):
    NOBODY = auto()
    OBSERVER = auto()
    THRIFT1 = auto()
    THRIFT2 = auto()
    KAFKA = auto()
    HBASE = auto()


PARTS = {
    Victim.THRIFT1: Part.THRIFT1,
    Victim.THRIFT2: Part.THRIFT2,
    Victim.KAFKA: Part.KAFKA,
    Victim.HBASE: Part.HBASE,
}


class Scenario(Struct, frozen=True):
    seed: int
    victim: Victim
    client_faults: bool
    server_faults: bool

    def __str__(self) -> str:
        sides = [
            name
            for name, there in (("client", self.client_faults), ("server", self.server_faults))
            if there
        ]
        return f"{self.seed}-{self.victim.name.lower()}-{'-'.join(sides) or 'clean'}"


def scenario_of(seed: int) -> Scenario:
    rng = random.Random(seed)
    (victim,) = rng.choices(list(Victim), weights=[36, 26, 9, 9, 12, 8])
    client_faults, server_faults = rng.choice([(True, True), (True, False), (False, True)])
    if victim is not Victim.NOBODY and rng.random() < 0.3:
        client_faults = server_faults = False
    return Scenario(seed, victim, client_faults, server_faults)


QUICK = [
    Scenario(1, Victim.NOBODY, client_faults=True, server_faults=False),
    Scenario(2, Victim.NOBODY, client_faults=False, server_faults=True),
    Scenario(3, Victim.OBSERVER, client_faults=True, server_faults=True),
    Scenario(4, Victim.THRIFT1, client_faults=False, server_faults=False),
    Scenario(5, Victim.KAFKA, client_faults=True, server_faults=True),
]
SOAK = [scenario_of(1000 + seed) for seed in range(200)]


# -- what clients do and what they are told


class State(Enum):
    BEGUN = auto()
    ACKNOWLEDGED = auto()
    DECLINED = auto()
    """The check of a checkAndPut did not hold."""
    REFUSED = auto()
    """Answered with an IOError."""
    BROKEN = auto()
    """The connection broke before an answer came."""
    LEFT = auto()
    """The client did not wait any longer; the observer may still have heard the answer."""


class Cell(Struct, frozen=True):
    """A cell that one write of one client puts, counts or appends to, or deletes."""

    row: bytes
    column: bytes
    value: bytes | None
    timestamp: int = -1

    @property
    def key(self) -> tuple[bytes, bytes, bool]:
        return self.row, self.column, self.value is None


class Write(Struct):
    method: str
    cells: list[Cell]
    state: State = State.BEGUN


Call = Callable[[Any], Any]


class Writer(threading.Thread):
    """A client of both dialects that writes one request after the other until it is told to end."""

    def __init__(
        self,
        number: int,
        seed: int,
        table: str,
        thrift1: tuple[str, int],
        thrift2: tuple[str, int],
        done: threading.Event,
    ) -> None:
        super().__init__(name=f"writer-{number}")
        self._number = number
        self._rng = random.Random(seed * 100 + number)
        self._table = table.encode()
        self._addresses = {1: thrift1, 2: thrift2}
        self._done = done
        self._clients: dict[int, Any] = {}
        self._seconds = self._rng.choice([1.5, 20.0, 20.0])
        self.writes: list[Write] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            number = 0
            while not self._done.is_set():
                number += 1
                self._write(number)
                time.sleep(self._rng.choice([0, 0, 0.002, 0.01]))
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error
        finally:
            for client in self._clients.values():
                client.close()

    def _write(self, number: int) -> None:
        dialect, write, call = self._invent(number)
        client = self._clients.get(dialect)
        if client is None:
            service = ONE.Hbase if dialect == 1 else TWO.THBaseService
            try:
                client = make_client(
                    service, *self._addresses[dialect], timeout=round(1000 * self._seconds)
                )
            except Exception:  # noqa: BLE001 - nobody is there: nothing was sent
                time.sleep(0.05)
                return
            self._clients[dialect] = client
        self.writes.append(write)
        began = time.monotonic()
        try:
            answer = call(client)
        except (ONE.IOError, ONE.IllegalArgument, TWO.TIOError):
            write.state = State.REFUSED
        except Exception:  # noqa: BLE001 - however the connection breaks
            waited = time.monotonic() - began
            write.state = State.LEFT if waited > 0.9 * self._seconds else State.BROKEN
            del self._clients[dialect]
            client.close()
        else:
            write.state = State.DECLINED if answer is False else State.ACKNOWLEDGED

    def _invent(self, number: int) -> tuple[int, Write, Call]:
        rng, table = self._rng, self._table
        size = rng.choice([1, 20, 20, 200, 3000])

        def cell(at: int = 0, timestamp: int = -1) -> Cell:
            column = b"f:%d-%d-%d" % (self._number, number, at)
            value = b"%d-%d-%d." % (self._number, number, at) + b"x" * rng.randrange(size)
            return Cell(b"row-%d" % rng.randrange(ROWS), column, value, timestamp)

        def value_of(each: Cell) -> Any:
            qualifier = each.column.removeprefix(b"f:")
            return TWO.TColumnValue(family=b"f", qualifier=qualifier, value=each.value)

        def put_of(each: Cell) -> Any:
            return TWO.TPut(row=each.row, columnValues=[value_of(each)])

        def mutation(each: Cell) -> Any:
            return ONE.Mutation(
                isDelete=each.value is None, column=each.column, value=each.value or b""
            )

        match rng.randrange(13):
            case 0 | 1 | 2:
                put = cell()
                return (
                    1,
                    Write("mutateRow", [put]),
                    lambda c: c.mutateRow(table, put.row, [mutation(put)], {}),
                )
            case 3:
                put = cell(timestamp=1_000 + number)
                return (
                    1,
                    Write("mutateRowTs", [put]),
                    lambda c: c.mutateRowTs(table, put.row, [mutation(put)], put.timestamp, {}),
                )
            case 4 | 5:
                puts = [cell(at) for at in range(rng.randrange(2, 12))]
                batches = [ONE.BatchMutation(row=p.row, mutations=[mutation(p)]) for p in puts]
                return 1, Write("mutateRows", puts), lambda c: c.mutateRows(table, batches, {})
            case 6:
                put = cell()
                return 2, Write("put", [put]), lambda c: c.put(table, put_of(put))
            case 7:
                puts = [cell(at) for at in range(rng.randrange(2, 12))]
                many = [put_of(p) for p in puts]
                return 2, Write("putMultiple", puts), lambda c: c.putMultiple(table, many)
            case 8:
                put = cell()
                count = Cell(put.row, put.column, number.to_bytes(8, "big"))
                return (
                    1,
                    Write("atomicIncrement", [count]),
                    lambda c: c.atomicIncrement(table, count.row, count.column, number),
                )
            case 9:
                put = cell()
                appended = TWO.TAppend(row=put.row, columns=[value_of(put)])
                return 2, Write("append", [put]), lambda c: c.append(table, appended)
            case 10:
                put = cell()
                return (
                    2,
                    Write("checkAndPut", [put]),
                    lambda c: c.checkAndPut(table, put.row, b"f", b"none", b"no", put_of(put)),
                )
            case _:
                return self._invent_delete(cell(), mutation)

    def _invent_delete(self, put: Cell, mutation: Callable[[Cell], Any]) -> tuple[int, Write, Call]:
        """Delete a column that this client has put before and no other write touches."""
        table = self._table
        deleted = {each.key[:2] for w in self.writes for each in w.cells if each.value is None}
        there = [
            each
            for w in self.writes[-50:]
            if w.state is State.ACKNOWLEDGED
            for each in w.cells
            if each.value is not None and each.key[:2] not in deleted
        ]
        if not there:
            call: Call = lambda c: c.mutateRow(table, put.row, [mutation(put)], {})  # noqa: E731
            return 1, Write("mutateRow", [put]), call
        chosen = self._rng.choice(there)
        gone = Cell(chosen.row, chosen.column, None)
        match self._rng.randrange(3):
            case 0:
                return (
                    1,
                    Write("deleteAll", [gone]),
                    lambda c: c.deleteAll(table, gone.row, gone.column, {}),
                )
            case 1:
                put = Cell(gone.row, put.column, put.value)
                both = [mutation(put), mutation(gone)]
                return (
                    1,
                    Write("mutateRow", [put, gone]),
                    lambda c: c.mutateRow(table, gone.row, both, {}),
                )
            case _:
                column = TWO.TColumn(family=b"f", qualifier=gone.column.removeprefix(b"f:"))
                delete = TWO.TDelete(row=gone.row, columns=[column])
                return (
                    2,
                    Write("deleteSingle", [gone]),
                    lambda c: c.deleteSingle(table, delete),
                )


# -- what must agree


class Event(Struct, frozen=True):
    outcome: Outcome
    kind: UpdateKind
    value: bytes | None
    timestamp: int
    request: tuple[int, int]
    """Epoch and intent."""


Events = dict[tuple[bytes, bytes, bool], list[Event]]
Stored = dict[tuple[bytes, bytes], dict[int, bytes]]
"""Every version of every cell: value by timestamp, by row and column."""


def events_of(messages: list[list[UpdateMessage]]) -> Events:
    """Return the events by cell, those that readers drop as duplicates once."""
    found: Events = defaultdict(list)
    seen: set[tuple[int, int, int, int]] = set()
    for partition, updates in enumerate(messages):
        for batch in updates:
            if not isinstance(batch, UpdateBatch):
                continue
            at = 0
            for part in batch.requests:
                identity = (partition, batch.epoch, part.intent, part.piece)
                for i in range(at, at + part.cells):
                    kind = UpdateKind(batch.kinds[i])
                    event = Event(
                        part.outcome,
                        kind,
                        batch.values[i],
                        batch.timestamps[i],
                        (batch.epoch, part.intent),
                    )
                    if identity not in seen:
                        found[batch.rows[i], batch.columns[i], kind in DELETES].append(event)
                at += part.cells
                seen.add(identity)
    return found


def stored_in(thrift2: tuple[str, int], table: str) -> Stored:
    client = make_client(TWO.THBaseService, *thrift2, timeout=60_000)
    try:
        scan = TWO.TScan(maxVersions=1000)
        found: Stored = defaultdict(dict)
        for result in client.getScannerResults(table.encode(), scan, 10 * ROWS):
            for each in result.columnValues:
                column = each.family + b":" + each.qualifier
                found[result.row, column][each.timestamp] = each.value
        return found
    finally:
        client.close()


def disagreements(
    scenario: Scenario, writes: list[Write], events: Events, stored: Stored
) -> list[str]:
    """Return what contradicts what, in words; nothing if all is well."""
    found: list[str] = []
    begun = {cell.key: (cell, write) for write in writes for cell in write.cells}
    deletes = {key[:2] for key in begun if key[2]}
    for write in writes:
        for cell in write.cells:
            if write.state is State.ACKNOWLEDGED and cell.key not in events:
                found.append(f"lost: {write.method} of {cell.key} was acknowledged")
            if write.state is State.DECLINED and (
                cell.key[:2] in stored
                or any(event.outcome is Outcome.APPLIED for event in events.get(cell.key, ()))
            ):
                found.append(f"phantom: {cell.key} of a check that did not hold")
    for row, column in stored:
        if (row, column, False) not in events:
            found.append(f"unreported: HBase holds {row!r} {column!r}")
    for key, published in events.items():
        if key not in begun:
            found.append(f"phantom: nobody wrote {key}")
            continue
        cell, write = begun[key]
        if len({event.request for event in published}) != 1:
            found.append(f"repeated: {key} as {published}")
        for event in published:
            if event.outcome is Outcome.APPLIED:
                found += contradictions(event, cell, write, stored, gone=key[:2] in deletes)
        # Where clients are never cut off, one that got no answer shows that there was none.
        heard_nothing = write.state is State.BROKEN and not scenario.client_faults
        if heard_nothing and scenario.victim is not Victim.OBSERVER:
            found += [
                f"not unknown: {write.method} of {key} without an answer is {event.outcome}"
                for event in published
                if event.outcome is not Outcome.UNKNOWN
            ]
    return found


def contradictions(
    event: Event, cell: Cell, write: Write, stored: Stored, *, gone: bool
) -> list[str]:
    versions = stored.get((cell.row, cell.column), {})
    if cell.value is None:
        return [f"phantom: {cell.key} was deleted but is there"] if versions else []
    if gone:
        return []
    if event.value != cell.value:
        return [f"wrong: {write.method} of {cell.key} is told as {event.value!r}"]
    if cell.value not in versions.values():
        return [f"phantom: {write.method} of {cell.key} is not in HBase"]
    if event.timestamp != -1 and versions.get(event.timestamp) != cell.value:
        return [f"wrong: {cell.key} is not at {event.timestamp} but {sorted(versions)}"]
    return []


# -- the scenarios


Start = Callable[[ObserverConfig], ObserverProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(config: ObserverConfig) -> ObserverProcess:
        process = ObserverProcess(config, tmp_path)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.running():
            process.kill()


def new_table(addresses: Addresses) -> str:
    name = f"faults_{uuid.uuid4().hex[:12]}"
    connection = happybase.Connection(*addresses.thrift1, timeout=60_000)
    connection.create_table(name, {"f": {"max_versions": 1000}})
    connection.close()
    return name


@pytest.mark.parametrize("scenario", QUICK, ids=str)
def test_under_faults_clients_events_and_hbase_agree(
    scenario, fragile, addresses, fragile_desk, start, inject, tmp_path
) -> None:
    examine(scenario, fragile, addresses, fragile_desk, start, inject, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("scenario", SOAK, ids=str)
def test_under_many_faults_clients_events_and_hbase_agree(
    scenario, fragile, addresses, fragile_desk, start, inject, tmp_path
) -> None:
    examine(scenario, fragile, addresses, fragile_desk, start, inject, tmp_path)


def examine(
    scenario: Scenario,
    fragile: LocalStack,
    addresses: Addresses,
    fragile_desk: Any,
    start: Start,
    inject: Callable[[tuple[str, int], int], Any],
    tmp_path: Path,
) -> None:
    rng = random.Random(scenario.seed)
    table = new_table(addresses)
    thrift1, thrift2 = addresses.thrift1, addresses.thrift2
    if scenario.server_faults:
        thrift1 = inject(thrift1, rng.randrange(1 << 30))
        thrift2 = inject(thrift2, rng.randrange(1 << 30))
    fronts = [("127.0.0.1", free_port()) for _ in range(2)]
    config = ObserverConfig(
        name="o1",
        thrift1=Listener(f"127.0.0.1:{fronts[0][1]}", str(thrift1)),
        thrift2=Listener(f"127.0.0.1:{fronts[1][1]}", str(thrift2)),
        kafka=Kafka(addresses.kafka, control_topic=fragile_desk.control_topic, partitions=4),
        journal=Journal(
            str(tmp_path / "journal"),
            segment_bytes=rng.choice([20_000, 1 << 20]),
            fsync=rng.choice(list(Fsync)),
        ),
        lease_seconds=1.5,
        shutdown_seconds=5.0,
    )
    observer = start(config)
    fragile_desk.watch(table)
    doors = fronts
    if scenario.client_faults:
        doors = [inject(front, rng.randrange(1 << 30)).address for front in fronts]
    done = threading.Event()
    writers = [
        Writer(number, scenario.seed, table, doors[0], doors[1], done) for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        time.sleep(rng.uniform(0.3, 1.2))
        if scenario.victim is Victim.OBSERVER:
            observer.kill()
            observer = start(config)
        elif scenario.victim is not Victim.NOBODY:
            fragile.kill(PARTS[scenario.victim])
            time.sleep(rng.uniform(0.0, 1.0))
            bring_back(fragile)
        time.sleep(rng.uniform(0.3, 1.2))
        await_enough(writers)
    finally:
        done.set()
        for writer in writers:
            writer.join()
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure
    if rng.random() < 0.3:
        observer.kill()
        observer = start(config)
    messages = fragile_desk.read(table, fragile_desk.barrier(table), seconds=200)
    writes = [write for writer in writers for write in writer.writes]
    found = disagreements(
        scenario, writes, events_of(messages), stored_in(addresses.thrift2, table)
    )
    assert not found, "\n".join([str(scenario), *found[:20], observer.log.read_text()[-3000:]])
    assert observer.running()
    observer.kill()
    # Killed servers would have more to bring back in each of 200 scenarios.
    remove(addresses, table, [updates_topic(table), fragile_desk.control_topic])


def bring_back(fragile: LocalStack) -> None:
    """Start again what was killed; a machine that is very busy may need more than one attempt."""
    for _ in range(3):
        with contextlib.suppress(PartFailedError):
            fragile.up()
            return
    fragile.up()


def remove(addresses: Addresses, table: str, topics: list[str]) -> None:
    connection = happybase.Connection(*addresses.thrift1, timeout=60_000)
    connection.delete_table(table, disable=True)
    connection.close()
    admin = AdminClient({"bootstrap.servers": addresses.kafka, "log_level": 0})
    for deleted in admin.delete_topics(topics).values():
        deleted.result(timeout=60)


def acknowledged(writers: list[Writer]) -> int:
    return sum(w.state is State.ACKNOWLEDGED for each in writers for w in list(each.writes))


def await_enough(writers: list[Writer]) -> None:
    """Wait until the scenario says something, on a slow machine too."""
    deadline = time.monotonic() + 60
    while acknowledged(writers) < ENOUGH:
        assert time.monotonic() < deadline, f"only {acknowledged(writers)} writes were acknowledged"
        time.sleep(0.1)
