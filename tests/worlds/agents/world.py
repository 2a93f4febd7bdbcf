"""A hostile world around agents: observers that hear late and stop, and what is away at times."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from contradiction import Contradiction, require
from hostile_store import Cell, Fate, HostileStore, Observer
from simulation import SEALS, World
from simulation.agent import Killed

from agents.kafka import LOOK, HostileBroker
from agents.process import HostileAgent
from agents.tables import HostileRows
from headgate.agent.errors import AgentError, Unreachable
from headgate.agent.state.sealed import Definition, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.events import (
    VERSION,
    BarrierRequest,
    ControlMessage,
    Fence,
    Gate,
    ObserverLease,
    Origin,
    UpdateKind,
    UpdateMessage,
    WatchList,
)
from headgate.flows import Dataflow
from headgate.spark import StepRequest

LEASE = 10.0  # seconds of observers' and agents' leases
_STEP = 0.001  # seconds
_AGAIN = 2.0  # seconds until another agent tries to take the dataflow over
_FAST, _SLOW = 0.9, 0.3  # how likely a party moves in a step


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
        self.topics: dict[str, list[list[UpdateMessage]]] = self.telling.topics
        self.rows = HostileRows(self)
        self.store = StateStore(self.rows, SEALS, RememberedRevisions(), lambda: self.lived)
        self.store.define(Definition(dataflow.name, dataflow.source, ".", 0, self.now))
        self.scanned_rows = chance.choice((2, 50))
        self.checkpoint_seconds = chance.choice((0.5, 4.0))
        self.agents: list[HostileAgent] = []
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
        return self.telling.topic(name)

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
        ear.look_at = self.lived + LOOK
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
            ear.look_at = self.lived + LOOK
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
