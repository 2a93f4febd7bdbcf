"""A hostile world around agents: observers that hear late, stop and begin anew; Kafka and a state
table that fail for a while; agents and workers that end anywhere and leave zombies behind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from contradiction import Contradiction, require
from hostile_store import Cell, Fate, HostileStore, Observer
from msgspec import Struct
from msgspec.structs import replace
from simulation import SEALS, MemoryRows, ScriptedAgent, World
from simulation.agent import Killed
from simulation.broker import ScriptedBroker
from simulation.tables import ScriptedTables
from simulation.worker import ScriptedWorker

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.errors import AgentError, Fenced, Refused, Unreachable
from headgate.agent.kafka.feed import KafkaFeed, Record
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.ports import ScannedCells
from headgate.agent.state.sealed import Definition, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.events import (
    VERSION,
    BarrierRequest,
    Container,
    ControlMessage,
    Cut,
    Fence,
    Gate,
    ObserverLease,
    Origin,
    UpdateKind,
    UpdateMessage,
    WatchList,
)
from headgate.flows import Dataflow
from headgate.spark import Claimed, Ending, RunKey, RunState, StepRequest

LEASE = 10.0  # seconds of observers' and agents' leases
GRACE = 30.0  # seconds an observer may take to begin anew with its journal
HISTORY = 400  # records of attempts, more than a life has
_STEP = 0.001  # seconds
_LOOK = 10.0  # seconds between two looks for more partitions
_AGAIN = 2.0  # seconds until another agent tries to take the dataflow over
_FAST, _SLOW = 0.9, 0.3  # how likely a party moves in a step
_MOST_CRASHES = 60
"""Agents of one life that an error may end which nobody raised on purpose."""


class Damaged(Struct, frozen=True):
    """A record that nothing of headgate wrote; None: it has no value."""

    value: bytes | None


@dataclass
class Ear:
    """What one observer's process has heard on the control topic, and when it does what."""

    heard: int = 0
    fences: dict[str, int] = field(default_factory=dict)
    gates: dict[tuple[str, str], Gate] = field(default_factory=dict)
    watched: frozenset[str] = frozenset()
    revision: int = -1
    stopped_until: float = 0.0
    lease_at: float = 0.0
    look_at: float = 0.0

    def take(self, message: ControlMessage) -> None:
        """Obey a message; barriers are for whoever marks."""
        match message:
            case Fence():
                known = self.fences.get(message.action, 0)
                self.fences[message.action] = max(known, message.token)
            case WatchList() if message.revision >= self.revision:
                self.revision = message.revision
                self.watched = frozenset(watch.table for watch in message.watches)
            case Gate():
                place = (message.action, message.bound)
                known_gate = self.gates.get(place)
                if known_gate is None or message.revision >= known_gate.revision:
                    self.gates[place] = message
            case _:
                pass


class HostileRows(MemoryRows):
    """The state table, which may be away."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world.point)
        self._world = world

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """See ``Rows``."""
        self._world.reach_table()
        return super().get(row, families)

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """See ``Rows``."""
        self._world.reach_table()
        super().put(row, columns)

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """See ``Rows``."""
        self._world.reach_table()
        return super().check_and_put(row, column, expected, columns)

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """See ``Rows``."""
        self._world.reach_table()
        super().delete(row, columns)

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """See ``Rows``."""
        self._world.reach_table()
        return super().scan(start, stop, families)


class _Message:
    """A message of Kafka as its client shows it."""

    def __init__(self, place: tuple[str, int, int], value: bytes | None, now: float) -> None:
        self._place = place
        self._value = value
        self._now = now

    def error(self) -> None:
        """Return nothing: it is no error."""

    def topic(self) -> str:
        """Return the topic."""
        return self._place[0]

    def partition(self) -> int:
        """Return the partition."""
        return self._place[1]

    def offset(self) -> int:
        """Return the offset."""
        return self._place[2]

    def timestamp(self) -> tuple[int, int]:
        """Return when it was published, in milliseconds."""
        return 1, int(self._now * 1000)

    def value(self) -> bytes | None:
        """Return the value."""
        return self._value


class HostileBroker(ScriptedBroker):
    """Kafka as one agent sees it: away at times, with records that are damaged or gone."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world)
        self.world = world
        self.unsent: list[Callable[[], None]] = []
        """What its producer holds."""
        self._reader = KafkaFeed.__new__(KafkaFeed)
        self._looked = world.lived

    def step(self) -> bool:
        """Deliver some records together, and what the producer holds."""
        if self.world.kafka_away:
            return False
        moved = self.flush()
        if self._deliver is None:
            return moved
        records = [*self._growth(), *self._records()]
        if records:
            self._deliver(records)
        return moved or bool(records)

    def flush(self) -> bool:
        """Have Kafka take what the producer holds; tell whether there was anything."""
        unsent, self.unsent = self.unsent, []
        for send in unsent:
            send()
        return bool(unsent)

    def _growth(self) -> Iterator[Record]:
        if self.world.lived < self._looked + _LOOK:
            return
        self._looked = self.world.lived
        for topic in dict.fromkeys(topic for topic, _ in self._positions):
            known = sum(1 for name, _ in self._positions if name == topic)
            count = len(self.world.topic(topic))
            if count > known:
                yield Record(topic, 0, 0, None, self.world.now, partitions=count)

    def _records(self) -> Iterator[Record]:
        most = self.world.together()
        for (topic, partition), position in self._positions.items():
            log = self.world.topic(topic)[partition]
            kept = self.world.telling.kept_from(topic, partition)
            if position < kept:
                yield Record(topic, partition, position, None, self.world.now, lost=True)
                position = kept
            found = log[position : position + most]
            most -= len(found)
            for offset, message in enumerate(found, position):
                yield self._record((topic, partition, offset), message)
            self._positions[topic, partition] = position + len(found)

    def _record(self, place: tuple[str, int, int], message: Any) -> Record:
        if isinstance(message, Damaged):
            raw: Any = _Message(place, message.value, self.world.now)
            record = KafkaFeed._record(self._reader, raw)
            assert record is not None
            return record
        return Record(*place, message, self.world.now)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().topics(tables)

    def retention(self, topics: Iterable[str]) -> dict[str, float]:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().retention(topics)

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """See ``Broker``."""
        self.world.reach_kafka()
        return super().ends(topics)

    def control(self, message: ControlMessage) -> None:
        """See ``Broker``."""
        self.world.point()
        self.unsent.append(partial(self.world.control.append, message))
        if not self.world.kafka_away:
            self.flush()

    def decision(self, dataflow: str, value: bytes, done: Callable[[], None]) -> None:
        """See ``Broker``; it waits in the producer for a moment."""

        def send() -> None:
            self.world.decisions.append(value)
            done()

        self.unsent.append(send)


class HostileTables(ScriptedTables):
    """HBase as an agent sees it: scans and reads take their time."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__(world)
        self._hostile = world

    def state(self, key: RunKey) -> RunState:
        """See ``Ledger``."""
        self._hostile.reach_table()
        return super().state(key)

    def scan(self, container: Container, table: str, **how: Any) -> None:
        """See ``Scanner``."""
        self._later(partial(super().scan, container, table), how.pop("done"), **how)

    def read(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        done: Callable[[ScannedCells], None],
    ) -> None:
        """See ``Scanner``."""
        self._later(partial(super().read, table, rows, columns), done)

    def _later(
        self, ask: Callable[..., None], done: Callable[[ScannedCells], None], **how: Any
    ) -> None:
        """Read at some moment, and hand over what was found at another."""

        def begin() -> None:
            ask(**how, done=lambda cells: self._hostile.readings.append(partial(done, cells)))

        self._hostile.readings.append(begin)


class HostileWorker(ScriptedWorker):
    """Runs steps that end their agent, hang, fail, or whose end nobody is sure of."""

    def __init__(self, world: HostileWorld, agent: HostileAgent) -> None:
        super().__init__(world, agent.take_report)
        self._hostile = world
        self._agent = agent

    def start(self, request: StepRequest, by: Any, directory: str) -> None:
        """See ``Launcher``."""
        super().start(request, by, directory)
        self._hostile.starts.append((self._hostile.lived, request))

    @property
    def hangs(self) -> bool:
        """Whether its attempt does nothing, and does not end."""
        return self._request is not None and self._request.action in self._hostile.hanging

    def step(self) -> bool:
        """See ``ScriptedWorker``."""
        return not self.hangs and super().step()

    def kill(self) -> None:
        """See ``ScriptedWorker``; the process may live on, and nobody hears of it."""
        self._leave_behind()
        super().kill()

    def close(self) -> None:
        """See ``Launcher``."""
        self._leave_behind()
        super().close()

    def _leave_behind(self) -> None:
        request, attempt = self._request, self._attempt
        if request is not None and attempt is not None and self._hostile.chance.random() < 0.5:
            self._hostile.zombies.append((request, attempt))

    def _write(self, request: StepRequest, claim: Claimed) -> Iterator[None]:
        if request.action in self._hostile.deadly and request is self._request:
            self._agent.alive = False
            return
        yield from super()._write(request, claim)

    def _end(self, request: StepRequest, ending: Ending, reason: str) -> None:
        if request is not self._request:
            return
        if ending is Ending.COMMITTED and self._hostile.chance.random() < self._hostile.unsure:
            ending = Ending.UNCERTAIN
        super()._end(request, ending, reason)


class HostileAgent(ScriptedAgent):
    """One agent process, which may be stopped, cut off, or end by an error."""

    world: HostileWorld

    def __init__(self, world: HostileWorld, number: int) -> None:
        super().__init__(world, number)
        self.take_report = self._report
        self.worker = HostileWorker(world, self)
        self.broker: HostileBroker = HostileBroker(world)
        self.observers = ObserverTable(GRACE)
        for lease, given in world.newest_leases.values():
            self.observers.recall(lease, min(world.now, given))
        self.stopped_until = 0.0
        self._leases = len(world.leases)

    def _runtime_context(self) -> RuntimeContext:
        tables = HostileTables(self.world)
        return replace(
            super()._runtime_context(),
            ledger=tables,
            scanner=tables,
            history=HISTORY,
            checkpoint_seconds=self.world.checkpoint_seconds,
        )

    @property
    def works(self) -> bool:
        """Whether it lives, and its dataflow runs."""
        return self.alive and self.runtime is not None

    @property
    def stopped(self) -> bool:
        """Whether the process stands still."""
        return self.world.lived < self.stopped_until

    def has_work(self) -> bool:
        """See ``ScriptedAgent``."""
        if self.worker.busy and not self.worker.hangs:
            return True
        unread = not self.world.kafka_away and any(self.broker.lag().values())
        return self.works and not self.stopped and (bool(self._inbox) or unread)

    def begin(self) -> None:
        """See ``ScriptedAgent``."""
        self._guarded(super().begin)
        if self.runtime is None:
            self.alive = False

    def ask(self, what: Callable[[Runtime, float], None]) -> None:
        """See ``ScriptedAgent``; an error that is no refusal ends the dataflow here."""
        if self.works and not self.stopped:
            self._guarded(partial(super().ask, what))

    def leap(self, seconds: float) -> None:
        """See ``ScriptedAgent``."""
        if not self.stopped:
            self._guarded(partial(super().leap, seconds))

    def step(self) -> bool:
        """See ``ScriptedAgent``."""
        if not self.works or self.stopped:
            return False
        moved = [False]
        first = self.world.chance.random() < 0.5
        if first:
            self._hear()
        self._guarded(lambda: moved.append(super(HostileAgent, self).step()))
        if not first:
            self._hear()
        return any(moved)

    def _hear(self) -> None:
        if not self.world.kafka_away:
            for lease in self.world.leases[self._leases :]:
                self.observers.hear(lease, self.world.now)
            self._leases = len(self.world.leases)

    def _guarded(self, what: Callable[[], None]) -> None:
        try:
            what()
        except (Contradiction, Refused):
            raise
        except Exception as error:  # noqa: BLE001 as whoever hosts a dataflow does
            self.end(error)

    def end(self, error: Exception | None) -> None:
        """End the dataflow here, as its host does; the process goes on."""
        if error is not None and not isinstance(error, AgentError):
            self.world.crashes.append(error)
            words = f"agents end again and again, by {error!r}"
            require(holds=len(self.world.crashes) < _MOST_CRASHES, words=words)
        if self.runtime is not None:
            with suppress(AgentError, Killed):
                self.runtime.stop(self.world.now, save=error is None)
            if not isinstance(error, Fenced):
                with suppress(AgentError):
                    self.world.store.release(self.world.dataflow.name, self.epoch)
        self.alive = False
        self.world.producers.append(self.broker)


class HostileWorld(World):
    """What agents share, and all that may happen to it.

    Args:
        dataflow: the dataflow, at first.
        chance: makes every choice.
    """

    kill_at = 0
    """The point at which something ends; 0 for never."""
    lived = 0.0
    """Seconds that have passed, whatever the clock was set to."""
    table_away = kafka_away = False
    begun_at = 0.0
    """When, by what was lived, an agent was started last."""
    unsure = 0.0
    """How often nobody is sure of the end of an attempt that has committed."""

    def __init__(self, dataflow: Dataflow, chance: random.Random) -> None:
        self.chance = chance
        whole = chance.choice((0, 1000))
        super().__init__(dataflow, seed=chance.randrange(1 << 30), saved_whole=whole)
        self.telling = HostileStore(chance, chance.randint(1, 3), chance.randint(1, 3))
        self.tables = self.telling.tables
        self.topics: dict[str, list[list[UpdateMessage]]] = self.telling.topics  # type: ignore[assignment]
        self.rows = HostileRows(self)
        self.store = StateStore(self.rows, SEALS, RememberedRevisions(), lambda: self.lived)
        self.store.define(Definition(dataflow.name, dataflow.source, ".", 0, self.now))
        self.scanned_rows = chance.choice((2, 50))
        self.checkpoint_seconds = chance.choice((0.5, 4.0))
        self.agents: list[HostileAgent] = []  # type: ignore[assignment]
        self.ears = {observer.name: Ear() for observer in self.telling.observers}
        self.leases: list[ObserverLease] = []
        self.newest_leases: dict[tuple[str, int], tuple[ObserverLease, float]] = {}
        self.starts: list[tuple[float, StepRequest]] = []
        """Attempts that were handed to a worker, and when."""
        self.deadly: set[str] = set()
        """Actions whose attempts end their agent."""
        self.zombies: list[tuple[StepRequest, Iterator[None]]] = []
        """Attempts that go on though they were ended."""
        self.crashes: list[Exception] = []
        self.producers: list[HostileBroker] = []
        """Of agents that have given the dataflow up, whose processes live."""
        self.readings: list[Callable[[], None]] = []
        """What is read of tables just now."""
        self._start_at = 0.0
        self._begun = 0
        self._victims_at_kill: frozenset[str] = frozenset()
        self._give_leases()

    # -- what is away ----------------------------------------------------------------------------

    def reach_table(self) -> None:
        """Raise where the state table does not answer."""
        if self.table_away:
            raise Unreachable("HBase does not answer")

    def reach_kafka(self) -> None:
        """Raise where Kafka does not answer."""
        if self.kafka_away:
            raise Unreachable("Kafka does not answer")

    # -- ends ------------------------------------------------------------------------------------

    def kill_soon(self, points: int, victims: frozenset[str]) -> None:
        """Have something end after so many things have had an effect."""
        self.kill_at, self._victims_at_kill = self.points + points, victims

    def point(self) -> None:
        """See ``World``."""
        self.points += 1
        if self.points != self.kill_at or not self.agents:
            return
        agent = self.agents[-1]
        if "worker" in self._victims_at_kill:
            agent.worker.kill()
        if "agent" in self._victims_at_kill:
            agent.alive = False
            if self.in_agent:
                raise Killed

    # -- writes ----------------------------------------------------------------------------------

    def topic(self, name: str) -> list[list[UpdateMessage]]:
        """See ``World``."""
        return self.telling.topic(name)  # type: ignore[return-value]

    def write(
        self, table: str, row: bytes, column: bytes, value: bytes, origin: Origin | None = None
    ) -> bool:
        """See ``World``."""
        cell = Cell(row, column, UpdateKind.PUT, value)
        return self.write_cells(table, [cell], Fate.TOLD, origin) is not None

    def write_cells(
        self, table: str, cells: Sequence[Cell], fate: Fate, origin: Origin | None = None
    ) -> bool | None:
        """Write through an observer; None where it refuses, else whether it tells of the write."""
        works = {name for name, ear in self.ears.items() if ear.stopped_until <= self.lived}
        working = [o for o in self.telling.observers if o.name in works]
        observer = self.chance.choice(working or self.telling.observers)
        ear = self.ears[observer.name]
        if origin is not None:
            if origin.token < ear.fences.get(origin.action, 0):
                return None
            self._check_token(origin)
        self.telling.now = self.now
        if table not in ear.watched:
            self.telling.apply(table, cells)
            return False
        if self.kafka_away and fate is Fate.TOLD:
            fate = Fate.LATE
        self.telling.write(table, cells, fate, origin, observer)
        return True

    def _check_token(self, origin: Origin) -> None:
        """No attempt writes after a later one of its action has."""
        newest = self._fences.get(origin.action, 0)  # of the writes that were let pass
        words = f"an attempt of {origin.action} writes after a later one has: {origin}"
        require(holds=origin.token >= newest, words=words)
        self._fences[origin.action] = origin.token

    # -- observers -------------------------------------------------------------------------------

    def _give_leases(self) -> None:
        if self.kafka_away:
            return
        for observer in self.telling.observers:
            ear = self.ears[observer.name]
            if ear.lease_at <= self.lived and ear.stopped_until <= self.lived:
                ear.lease_at = self.lived + LEASE / 3
                self.lease(observer.name, observer.epoch)

    def lease(self, observer: str, epoch: int, *, ended: bool = False) -> None:
        """Publish an observer's lease."""
        lease = ObserverLease(VERSION, observer, epoch, LEASE, {}, ended=ended)
        self.leases.append(lease)
        self.newest_leases[observer, epoch] = (lease, self.now)

    def restart_observer(self, observer: Observer) -> None:
        """End an observer as a crash does; the next epoch tells what its journal holds."""
        self._begin_again(observer)
        self.telling.restart(observer)
        self.lease(observer.name, observer.epoch, ended=True)

    def lose_observer(self, observer: Observer) -> None:
        """End an observer for good, with all that it had not told; another takes its name."""
        self._begin_again(observer)
        self.telling.lose_host(observer)

    def _begin_again(self, observer: Observer) -> None:
        ear = self.ears[observer.name] = Ear(heard=len(self.control))
        for message in self.control:
            ear.take(message)
        ear.look_at = self.lived + _LOOK
        self.lease(observer.name, observer.epoch + 1)

    def stop_observer(self, observer: Observer, seconds: float) -> None:
        """Have an observer do nothing for a while, for less than its lease and grace."""
        self.ears[observer.name].stopped_until = self.lived + seconds

    def _observe_one(self, name: str) -> bool:
        ear = self.ears[name]
        if self.kafka_away or ear.stopped_until > self.lived:
            return False
        observer = next(o for o in self.telling.observers if o.name == name)
        self.telling.now = self.now
        if ear.look_at <= self.lived:
            ear.look_at = self.lived + _LOOK
            self.telling.follow(observer, sorted(ear.watched))
        if ear.heard == len(self.control):
            return False
        message = self.control[ear.heard]
        ear.heard += 1
        ear.take(message)
        if isinstance(message, BarrierRequest):
            self.telling.mark_as(observer, message.tables, message.id)
        return True

    # -- steps -----------------------------------------------------------------------------------

    def start_agent(self) -> HostileAgent:
        """Have another agent try to take the dataflow over."""
        self._begun += 1
        self.begun_at = self.lived
        agent = HostileAgent(self, self._begun)
        with suppress(AgentError):
            self.store.listings()  # as an agent that stands by does
        self.agents = [a for a in self.agents if a.works or a.worker.busy]
        self.agents.append(agent)
        agent.begin()
        if not agent.epoch:
            self.agents.remove(agent)  # the one before may still have it
        return agent

    def replace_agent(self) -> None:
        """Start another agent where the newest has ended, after a moment."""
        if self._start_at > self.lived or (self.agents and self.agents[-1].alive):
            return
        self._start_at = self.lived + _AGAIN
        self.start_agent()

    def advance(self, seconds: float) -> None:
        """Let time pass, and do nothing."""
        self.now += seconds
        self.lived += seconds

    def step(self) -> bool:
        """Let each party do one thing, and tell whether any had something to do."""
        self.advance(_STEP)
        self._give_leases()
        self.replace_agent()
        parties: list[tuple[Callable[[], bool], float]] = [
            (partial(self._observe_one, name), _SLOW) for name in self.ears
        ]
        for agent in self.agents:
            newest = agent is self.agents[-1]
            if agent.worker.busy:
                parties.append((agent.worker.step, _FAST if newest else _SLOW))
            if agent.works:
                parties.append((agent.step, _FAST))
        parties += [(self._read, _SLOW), (self._produce, _SLOW), (self._haunt, _SLOW)]
        self.chance.shuffle(parties)
        moved = skipped = False
        for party, speed in parties:
            if self.chance.random() < speed:
                moved = party() or moved
            else:
                skipped = True
        return moved or (skipped and self._anything_left())

    def _read(self) -> bool:
        if self.table_away or not self.readings:
            return False
        self.readings.pop(self.chance.randrange(len(self.readings)))()
        return True

    def _haunt(self) -> bool:
        awake = [zombie for zombie in self.zombies if zombie[0].action not in self.hanging]
        if not awake:
            return False
        zombie = self.chance.choice(awake)
        if next(zombie[1], self) is self:
            self.zombies.remove(zombie)
        return True

    def _produce(self) -> bool:
        moved = False
        if not self.kafka_away:
            for observer in self.telling.observers:
                if self.ears[observer.name].stopped_until <= self.lived and observer.late:
                    self.telling.flush(observer, 1)
                    moved = True
            while self.producers:
                self.producers.pop().flush()
        return moved

    def _anything_left(self) -> bool:
        if not self.kafka_away and any(
            ear.heard < len(self.control) and ear.stopped_until <= self.lived
            for ear in self.ears.values()
        ):
            return True
        if self.readings and not self.table_away:
            return True
        if any(request.action not in self.hanging for request, _ in self.zombies):
            return True
        return any(agent.has_work() for agent in self.agents)

    def live_on(self, seconds: float, steps: int = 40_000) -> None:
        """Let so much time pass, and all be done that there is to do until then.

        Raises:
            Contradiction: it does not come to rest.
        """
        until = self.lived + seconds
        for _ in range(steps):
            if self.step() and self.lived < until + 5.0:
                continue
            if self.lived >= until:
                return
            self.advance(max(_STEP, min(until, self._next()) - self.lived))
        raise Contradiction(f"no rest after {steps} steps: {self._restless()}")

    def _next(self) -> float:
        """Return when something is due next, by the time that was lived."""
        dues = [ear.lease_at for ear in self.ears.values()]
        dues += [self._start_at] if not self.agents or not self.agents[-1].alive else []
        for agent in self.agents:
            if agent.works:
                due = agent.stopped_until if agent.stopped else self.lived + agent.due() - self.now
                dues.append(due)
        return min((due for due in dues if due > self.lived), default=self.lived + 1.0)

    def _restless(self) -> str:
        agent = self.agents[-1]
        return agent.words() if agent.works else "no agent"
