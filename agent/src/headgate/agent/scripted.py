"""A world in memory around a runtime: tables, topics, an observer and a worker that move by hand.

``World`` survives the agents in it. A test makes runtimes, lets one thing happen at a time with
``step``, and may end an agent or a worker between any two of them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from headgate.agent.admission import Admission
from headgate.agent.broker import Deliver, Record
from headgate.agent.cell_storage import CellStorage
from headgate.agent.measures import Measures
from headgate.agent.observers import ObserverTable
from headgate.agent.runtime import Runtime
from headgate.agent.seams import Cells, Report, WorkerLost, WorkerState
from headgate.agent.store import Definition, Owner, RunRecord, SavedState, StateStore
from headgate.agent.surroundings import Surroundings
from headgate.agent.table_scan import Extent
from headgate.events import (
    VERSION,
    BarrierMark,
    BarrierRequest,
    Container,
    ControlMessage,
    Cut,
    Fence,
    Notify,
    ObserverLease,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    partition_of,
    updates_topic,
)
from headgate.flows import Dataflow, Launcher
from headgate.spark import (
    Claimed,
    Ending,
    LostClaim,
    RunKey,
    RunLedger,
    RunState,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
)

_NEVER_FULL = 1 << 40  # cells in memory: a script writes nothing to disk
_FAST = 0.9
_SLOW = 0.15
"""How likely a party moves in a step: the observer and orphaned workers lag behind."""


_PLACES = 4
"""For attempts in an agent: a dataflow here never has more under way."""


class Killed(Exception):
    """The process in which this was raised has ended at this point."""


class MemoryRows:
    """The state table, in memory."""

    def __init__(self, point: Callable[[], None] = lambda: None) -> None:
        """Call ``point`` before every change."""
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self._point = point

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """See ``Rows``."""
        return _of(self.rows.get(row, {}), tuple(families))

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """See ``Rows``."""
        self._point()
        self.rows.setdefault(row, {}).update(columns)

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """See ``Rows``."""
        self._point()
        if self.rows.get(row, {}).get(column) != expected:
            return False
        self.rows.setdefault(row, {}).update(columns)
        return True

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """See ``Rows``."""
        self._point()
        named = tuple(columns)
        if not named:
            self.rows.pop(row, None)
        for column in named:
            self.rows.get(row, {}).pop(column, None)

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """See ``Rows``."""
        named = tuple(families)
        return [
            (row, _of(columns, named))
            for row, columns in sorted(self.rows.items())
            if start <= row < stop
        ]


def _of(columns: Mapping[bytes, bytes], named: tuple[bytes, ...]) -> dict[bytes, bytes]:
    return {
        column: value
        for column, value in columns.items()
        if not named or any(column == n or column.startswith(n + b":") for n in named)
    }


class _LedgerTable:
    """The ledger's rows, as its connection would show them."""

    def __init__(self) -> None:
        self._rows = MemoryRows()

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        del table
        return self._rows.get(row, columns)

    def check_and_put(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        put: Mapping[bytes, bytes],
    ) -> bool:
        del table
        return self._rows.check_and_put(row, column, expected, put)


class Written(Struct, frozen=True):
    """A write that the observer let pass."""

    table: str
    row: bytes
    origin: Origin | None


class World:
    """What agents and workers share, and the steps in which it moves.

    Args:
        dataflow: the one dataflow there is.
        partitions: of every topic.
        kill: at which point (counted from 1) something ends; 0 for never.
        victims: what ends there: ``agent``, ``worker`` or both.
        seed: of the order in which parties move, some of them slowly; in turn where None.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        *,
        partitions: int = 2,
        kill: int = 0,
        victims: frozenset[str] = frozenset(),
        seed: int | None = None,
    ) -> None:
        self.dataflow = dataflow
        self.partitions = partitions
        self.now = 1_000_000.0
        self.points = 0
        self.written: list[Written] = []
        self.tables: dict[str, dict[tuple[bytes, bytes], bytes]] = {}
        self.topics: dict[str, list[list[UpdateMessage]]] = {}
        self.times: dict[str, list[list[float]]] = {}
        """When each message of ``topics`` was published."""
        self.control: list[ControlMessage] = []
        self.decisions: list[bytes] = []
        """The decisions topic."""
        self.failing: dict[str, int] = {}
        """How many of the next attempts of an action fail."""
        self.hanging: set[str] = set()
        """Actions whose attempts begin and never end."""
        self.silent = False
        """Whether the observer answers nothing."""
        self.rows = MemoryRows(self.point)
        self.store = StateStore(self.rows, 50)
        self.ledger = RunLedger(_LedgerTable(), "headgate")
        self.agents: list[ScriptedAgent] = []
        self.families: set[str] = set()
        """Tables with a family for notify columns."""
        self.wanted: dict[str, Extent] = {}
        """What is to be scanned for writes that go round the observers."""
        self.forgotten: list[RunKey] = []
        """Runs that the ledger was told to forget."""
        self.commits: list[StepRequest] = []
        """The attempts that committed, as they were asked for."""
        self._kill = kill
        self._choices = None if seed is None else random.Random(seed)  # noqa: S311 - no secret
        self._victims = victims
        self._in_agent = False
        self._heard = 0
        self._fences: dict[str, int] = {}
        self._intents = 0
        self._sequences: dict[tuple[str, int], int] = {}
        self.store.define(Definition(dataflow.name, dataflow.source, ".", 0, self.now))

    # -- ends ------------------------------------------------------------------------------------

    def point(self) -> None:
        """Something is about to have an effect: the moment to end something."""
        self.points += 1
        if self.points != self._kill or not self.agents:
            return
        agent = self.agents[-1]
        if "worker" in self._victims:
            agent.end_worker()
        if "agent" in self._victims:
            agent.alive = False
            if self._in_agent:
                raise Killed

    # -- what people and steps do ----------------------------------------------------------------

    def write(
        self, table: str, row: bytes, column: bytes, value: bytes, origin: Origin | None = None
    ) -> bool:
        """Write a cell through the observer; tell whether it let the write pass."""
        if origin is not None and origin.token < self._fences.get(origin.action, 0):
            return False
        self.written.append(Written(table, row, origin))
        self.tables.setdefault(table, {})[row, column] = value
        self._intents += 1
        partition = partition_of(row, self.partitions)
        request = RequestPart(self._intents, "put", Outcome.APPLIED, self.now, 1, origin=origin)
        self._publish(
            table,
            partition,
            UpdateBatch(
                version=VERSION,
                observer="observer",
                epoch=1,
                sequence=self._sequence(table, partition),
                watermark=self._intents,
                table=table,
                requests=(request,),
                kinds=bytes([UpdateKind.PUT]),
                rows=(row,),
                columns=(column,),
                timestamps=(-1,),
                values=(value,),
            ),
        )
        return True

    def _publish(self, table: str, partition: int, message: UpdateMessage) -> None:
        topic = updates_topic(table)
        self.topic(topic)[partition].append(message)
        times = self.times.setdefault(topic, [[] for _ in range(self.partitions)])
        times[partition].append(self.now)

    def topic(self, name: str) -> list[list[UpdateMessage]]:
        """Return a topic's partitions, made where missing."""
        return self.topics.setdefault(name, [[] for _ in range(self.partitions)])

    def _sequence(self, table: str, partition: int) -> int:
        number = self._sequences.get((table, partition), 0)
        self._sequences[table, partition] = number + 1
        return number

    # -- steps -----------------------------------------------------------------------------------

    def start_agent(self) -> ScriptedAgent:
        """Start an agent, which takes the dataflow over when the lease before has ended."""
        self.now += 100.0
        agent = ScriptedAgent(self, len(self.agents) + 1)
        self.agents.append(agent)
        agent.begin()
        return agent

    def step(self) -> bool:
        """Let each party do one thing, and tell whether any had something to do."""
        self.now += 0.001
        parties: list[tuple[Callable[[], bool], float]] = [(self._observe, _SLOW)]
        for agent in self.agents:
            stale = agent is not self.agents[-1]
            parties += [(agent.work, _SLOW if stale else _FAST), (agent.step, _FAST)]
        if self._choices is None:
            moves = [party() for party, _ in parties]
            return any(moves)
        self._choices.shuffle(parties)
        skipped = False
        moved = False
        for party, speed in parties:
            if self._choices.random() < speed:
                moved = party() or moved
            else:
                skipped = True
        return moved or (skipped and self._anything_left())

    def _anything_left(self) -> bool:
        heard = self.silent or self._heard == len(self.control)
        return not heard or any(agent.has_work() for agent in self.agents)

    def _observe(self) -> bool:
        if self.silent or self._heard == len(self.control):
            return False
        message = self.control[self._heard]
        self._heard += 1
        match message:
            case Fence():
                known = self._fences.get(message.action, 0)
                self._fences[message.action] = max(known, message.token)
            case BarrierRequest():
                self.point()
                for table in message.tables:
                    for partition in range(self.partitions):
                        sequence = self._sequence(table, partition)
                        mark = BarrierMark(VERSION, "observer", 1, sequence, message.id)
                        self._publish(table, partition, mark)
            case _:
                pass
        return True

    def run(self, done: Callable[[], bool], steps: int = 20_000) -> None:
        """Take steps until ``done``; when nothing moves, time passes. Ended agents are replaced.

        Raises:
            AssertionError: it is not done after that many steps.
        """
        for _ in range(steps):
            if not self.agents or not self.agents[-1].alive:
                self.start_agent()
            if not self.step():
                if done():
                    return
                self.now = max(self.now, self.agents[-1].due())
        raise AssertionError(f"not done after {steps} steps: {self.agents[-1].words()}")


class ScriptedAgent:
    """One agent process of a world: all seams of one runtime."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.alive = True
        self.sessions: list[StartSession | None] = []
        """What its workers were to be started with, after the first."""
        self.reports = 0
        self._number = number
        self._inbox: deque[Callable[[float], None]] = deque()
        self._worker: Iterator[None] | None = None
        self._request: StepRequest | None = None
        self._positions: dict[tuple[str, int], int] = {}
        self._deliver: Deliver = self._take
        self.admission = Admission(_PLACES)
        """Its places for attempts, which a test may take away."""
        self.observers = ObserverTable(30.0)
        self.observers.hear(ObserverLease(VERSION, "observer", 1, 1e12, {}), world.now)
        owner = Owner(f"agent-{number}", str(number), "")
        self._owner = owner
        self.runtime: Runtime | None = None
        self.epoch = 0

    def begin(self) -> None:
        """Take the dataflow over and start."""
        with _Inside(self):
            ownership = self.world.store.acquire(
                self.world.dataflow.name, self._owner, self.world.now, 10.0
            )
            self.epoch = ownership.epoch
            self.runtime = Runtime(ownership, self.world.dataflow, self._surroundings())
            self.runtime.start(self.world.now)
            self.runtime.report(WorkerState(ready=True, words="warm"), self.world.now)

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            store=self,
            broker=self,
            storage=CellStorage(_NEVER_FULL, Path()),
            launcher=self,
            admission=self.admission,
            ledger=self,
            scanner=self,
            observation=self,
            families=self,
            observers=self.observers,
            measures=Measures().of(self.world.dataflow.name),
            requester=f"agent-{self._number}",
            hbase=Thrift2Address("memory", 0),
            kafka="memory",
            kafka_properties={},
            ledger_table="headgate",
            checkpoint_seconds=1.0,
            barrier_repeat=1.0,
            history=50,
            post=self._inbox.append,
            deliver=self._take,
        )

    def _take(self, records: Sequence[Record]) -> bool:
        self._inbox.append(lambda now: self._the_runtime().consume(records, now))
        return True

    def _the_runtime(self) -> Runtime:
        assert self.runtime is not None  # noqa: S101 - begun before anything is posted
        return self.runtime

    def due(self) -> float:
        """Return when time must have passed for the runtime."""
        return self._the_runtime().due()

    def waves(self) -> int:
        """Return how many waves were asked for."""
        return self._the_runtime().status(self.world.now).waves

    def settled(self) -> int:
        """Return up to which wave all have settled."""
        return self._the_runtime().status(self.world.now).settled

    def words(self) -> str:
        """Say how the runtime stands."""
        return str(self._the_runtime().status(self.world.now))

    def ask(self, what: Callable[[Runtime, float], None]) -> None:
        """Do something that people ask for."""
        with _Inside(self):
            what(self._the_runtime(), self.world.now)

    def step(self) -> bool:
        """Let the runtime do one thing."""
        if not self.alive or self.runtime is None:
            return False
        moved = self._feed()
        with _Inside(self):
            if self._inbox:
                self._inbox.popleft()(self.world.now)
                moved = True
            self.runtime.tick(self.world.now)
        return moved

    def _feed(self) -> bool:
        for (topic, partition), position in self._positions.items():
            messages = self.world.topic(topic)[partition]
            if position < len(messages):
                message = messages[position]
                self._positions[topic, partition] = position + 1
                self._deliver([Record(topic, partition, position, message, self.world.now)])
                return True
        return False

    # -- the worker ------------------------------------------------------------------------------

    def work(self) -> bool:
        """Let the worker do one thing; it goes on when its agent has ended."""
        if self._worker is None:
            return False
        if next(self._worker, self) is self:
            self._worker = None
        return True

    def has_work(self) -> bool:
        """Tell whether its worker or, while it lives, the runtime has something to do."""
        return self._worker is not None or (
            self.alive and (bool(self._inbox) or any(self.lag().values()))
        )

    def end_worker(self) -> None:
        """End the worker; its agent hears of it."""
        request, self._request, self._worker = self._request, None, None
        if request is not None:
            self._report(WorkerLost(request.run, request.attempt, "it was killed"))

    def _report(self, report: Report) -> None:
        self._inbox.append(lambda now: self._the_runtime().report(report, now))

    def _attempt(self, request: StepRequest) -> Iterator[None]:
        world = self.world
        world.point()
        try:
            claim = world.ledger.claim(request.key, request.attempt, request.token, "worker")
        except LostClaim as error:
            self._end(request, Ending.LOST_CLAIM, str(error))
            return
        self._report(StepStarted(request.run, request.attempt))
        yield
        while request.action in world.hanging:
            yield
        if world.failing.get(request.action, 0):
            world.failing[request.action] -= 1
            self._end(request, Ending.FAILED, "it was told to fail")
            return
        yield from self._write(request, claim)

    def _write(self, request: StepRequest, claim: Claimed) -> Iterator[None]:
        world = self.world
        action = next(a for a in world.dataflow.spec.actions if a.name == request.action)
        items = [
            item
            for watched in world.dataflow.spec.containers
            if watched.id in action.writes
            for item in watched.container.items
        ]
        for item in items:
            for row in (b"a", b"b"):
                world.point()
                column = (item.family or b"c") + b":" + (item.qualifier or b"v")
                value = str(request.token).encode()
                if not world.write(item.table, row, column, value, request.origin):
                    self._end(request, Ending.FAILED, "the observer refused the write")
                    return
                yield
        world.point()
        try:
            world.ledger.commit(request.key, claim)
        except LostClaim as error:
            self._end(request, Ending.LOST_CLAIM, str(error))
            return
        world.commits.append(request)
        yield
        world.point()
        self._end(request, Ending.COMMITTED, "")

    def _end(self, request: StepRequest, ending: Ending, reason: str) -> None:
        self._request = None
        detail = f"Traceback: {reason}" if reason else ""
        self._report(
            StepEnded(request.run, request.attempt, ending, 0.0, reason=reason, detail=detail)
        )

    # -- seams -----------------------------------------------------------------------------------

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """See ``runtime.Store``."""
        self.world.store.save(self.world.dataflow.name, self.epoch, state, records, now)

    def trim(self, newest: int) -> None:
        """See ``runtime.Store``."""
        self.world.store.trim(self.world.dataflow.name, newest)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        return {
            updates_topic(table): len(self.world.topic(updates_topic(table))) for table in tables
        }

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """See ``Broker``."""
        return Cut({t: tuple(len(messages) for messages in self.world.topic(t)) for t in topics})

    def control(self, message: ControlMessage) -> None:
        """See ``Broker``."""
        self.world.point()
        self.world.control.append(message)

    def decision(self, dataflow: str, value: bytes) -> None:
        """See ``Broker``."""
        del dataflow
        self.world.decisions.append(value)

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> ScriptedAgent:
        """See ``Broker``."""
        self._positions = {
            (topic, partition): cut.position(topic, partition)
            for topic, count in topics.items()
            for partition in range(count)
        }
        self._deliver = deliver
        return self

    def lag(self) -> dict[tuple[str, int], int]:
        """See ``Feed``."""
        return {
            (topic, partition): len(self.world.topic(topic)[partition]) - position
            for (topic, partition), position in self._positions.items()
        }

    def close(self) -> None:
        """See ``Feed`` and ``Launcher``."""
        self._request = self._worker = None

    def start(self, request: StepRequest, by: Launcher, directory: str) -> None:
        """See ``Launcher``."""
        del by, directory
        self.world.point()
        self._request = request
        self._worker = self._attempt(request)

    def use(self, start: StartSession | None) -> None:
        """See ``Launcher``."""
        self.sessions.append(start)

    def recover(self, run: str, attempt: int) -> bool:
        """See ``Launcher``; its workers end with it."""
        del run, attempt
        return False

    def cancel(self, run: str, attempt: int, reason: str) -> None:
        """See ``Launcher``."""
        del run, attempt, reason
        self.end_worker()

    def cancel_all(self, reason: str) -> None:
        """See ``Launcher``."""
        del reason

    def log(self, action: str, run: str, attempt: int) -> Path | None:
        """See ``Launcher``; nothing is printed."""
        del action, run, attempt
        return None

    def state(self, key: RunKey) -> RunState:
        """See ``Ledger``."""
        return self.world.ledger.state(key)

    def forget(self, key: RunKey) -> None:
        """See ``Ledger``."""
        self.world.forgotten.append(key)

    def want(self, extents: Mapping[str, Extent]) -> None:
        """See ``Observation``."""
        self.world.wanted = dict(extents)

    def provide(self, tables: Iterable[str]) -> frozenset[str]:
        """See ``Families``."""
        self.world.families |= set(tables)
        return frozenset(tables)

    def drop(self, tables: Collection[str]) -> None:
        """See ``Families``."""
        self.world.point()
        self.world.families -= set(tables)

    def withdraw(self, tables: Sequence[str]) -> None:
        """See ``Observation``."""
        for table in tables:
            self.world.wanted.pop(table, None)

    def scan(
        self,
        container: Container,
        table: str,
        *,
        values: bool,
        mark: Notify | None,
        done: Callable[[Cells], None],
    ) -> None:
        """See ``Scanner``."""
        del mark
        found = [
            (row, column, value)
            for (row, column), value in sorted(self.world.tables.get(table, {}).items())
            if any(
                item.table == table and item.has_row(row) and item.has_column(column)
                for item in container.items
            )
        ]
        done(
            Cells(
                [row for row, _, _ in found],
                [column for _, column, _ in found],
                [value for _, _, value in found] if values else (),
            )
        )

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[Cells], None],
    ) -> None:
        """See ``Scanner``."""
        known = self.world.tables.get(table, {})
        cells = zip(rows, columns, strict=True)
        done(Cells(rows, columns, [known.get(cell) for cell in cells]))


class _Inside:
    """While an agent's own code runs, an end of the agent ends that code too."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self._agent = agent

    def __enter__(self) -> None:
        self._agent.world._in_agent = self._agent is self._agent.world.agents[-1]  # noqa: SLF001

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._agent.world._in_agent = False  # noqa: SLF001
        return kind is Killed
