"""What outlives the agents of a script: tables, topics, an observer, the state table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from msgspec import Struct

from headgate.agent.dataflow.suspects import Suspects
from headgate.agent.ports import Adviser, Extent
from headgate.agent.state.sealed import Definition, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.engine import PolicyFactory, policies_of
from headgate.events import (
    MORE_PARTITIONS,
    VERSION,
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    Fence,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    partition_of,
    updates_topic,
)
from headgate.flows import Dataflow
from headgate.spark import RunKey, RunLedger, StepRequest
from simulation.agent import Killed, ScriptedAgent
from simulation.rows import SEALS, LedgerRows, MemoryRows

_FAST = 0.9
_SLOW = 0.15
"""How likely a party moves in a step: the observer and orphaned workers lag behind."""
_TOGETHER = 5
"""Messages that Kafka hands over at once, at most."""


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
        seed: of the order in which parties move, some of them slowly, and of how many messages an
            agent is handed at once; in turn and one by one where None.
        saved_whole: cells up to which a checkpoint is the whole state.
        history: records that an agent keeps.
        policies: makes trigger policies.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        *,
        partitions: int = 2,
        kill: int = 0,
        victims: frozenset[str] = frozenset(),
        seed: int | None = None,
        saved_whole: int = 1000,
        history: int = 50,
        policies: PolicyFactory = policies_of,
    ) -> None:
        self.dataflow = dataflow
        self.saved_whole = saved_whole
        self.history = history
        self.policies = policies
        self.advisers: dict[str, Adviser] = {}
        """Who works out what policies ask, by their kind."""
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
        self.scanned_rows = 2
        """How many rows an engine's scan reads at once."""
        self.ttls: dict[bytes, int] = {}
        """Milliseconds after which cells expire, by family."""
        self.needs: dict[str, float] = {}
        """How old what next runs need is, by topic."""
        self.retention = 1e9
        """Seconds for which topics keep what was written."""
        self.decisions_wait = False
        """Whether what an agent decides stays in its producer, and ends with it."""
        self.failing: dict[str, int] = {}
        """How many of the next attempts of an action fail."""
        self.hanging: set[str] = set()
        """Actions whose attempts begin and never end."""
        self.silent = False
        """Whether the observer answers nothing."""
        self.rows = MemoryRows(self.point)
        self.store = StateStore(self.rows, SEALS, RememberedRevisions(), lambda: self.now)
        self.ledger_rows = LedgerRows()
        self.ledger = RunLedger(self.ledger_rows, "headgate")
        self.agents: list[ScriptedAgent] = []
        self.families: set[str] = set()
        """Tables with a family for notify columns."""
        self.wanted: dict[str, Extent] = {}
        """What is to be scanned for writes that go round the observers."""
        self.forgotten: list[RunKey] = []
        """Runs that the ledger was told to forget."""
        self.commits: list[StepRequest] = []
        """The attempts that committed, as they were asked for."""
        self.suspects = Suspects()
        """Records on which the dataflow failed."""
        self.in_agent = False
        """Whether the newest agent's own code runs at this moment."""
        self._kill = kill
        self._choices = None if seed is None else random.Random(seed)
        self._victims = victims
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
            agent.worker.kill()
        if "agent" in self._victims:
            agent.alive = False
            if self.in_agent:
                raise Killed

    def end_after(self, points: int, victims: frozenset[str] = frozenset({"agent"})) -> None:
        """Have something end when so many more things are about to have an effect."""
        self._kill = self.points + points
        self._victims = victims

    def together(self) -> int:
        """Return how many messages an agent is handed at once."""
        return 1 if self._choices is None else self._choices.randint(1, _TOGETHER)

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
        self.publish(
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

    def publish(self, table: str, partition: int, message: UpdateMessage) -> None:
        """Append a message to a partition of the table's topic."""
        topic = updates_topic(table)
        self.topic(topic)[partition].append(message)
        times = self.times.setdefault(topic, [[] for _ in range(self.partitions)])
        times[partition].append(self.now)

    def topic(self, name: str) -> list[list[UpdateMessage]]:
        """Return a topic's partitions, made where missing."""
        return self.topics.setdefault(name, [[] for _ in range(self.partitions)])

    def grow(self, partitions: int) -> None:
        """Give every topic more partitions, over which the observer spreads what it writes now."""
        for messages in self.topics.values():
            messages += [[] for _ in range(partitions - len(messages))]
        for times in self.times.values():
            times += [[] for _ in range(partitions - len(times))]
        self.partitions = partitions

    def mark_growth(self, table: str, partitions: Iterable[int]) -> None:
        """Have the observer mark in these that it spreads rows over all that there are now."""
        for partition in partitions:
            head = (VERSION, "observer", 1, self._sequence(table, partition))
            self.publish(table, partition, BarrierMark(*head, MORE_PARTITIONS, self.partitions))

    def _sequence(self, table: str, partition: int) -> int:
        number = self._sequences.get((table, partition), 0)
        self._sequences[table, partition] = number + 1
        return number

    # -- steps -----------------------------------------------------------------------------------

    def start_agent(self) -> ScriptedAgent:
        """Start an agent, which takes the dataflow over when the lease before has ended."""
        self.store.listings()  # as an agent that stands by does
        self.now += 100.0
        agent = ScriptedAgent(self, len(self.agents) + 1)
        self.agents.append(agent)
        agent.begin()
        return agent

    def leap(self, seconds: float) -> None:
        """Set the clock ahead, or back; no time passes."""
        self.now += seconds
        for agent in self.agents:
            agent.leap(seconds)

    def step(self) -> bool:
        """Let each party do one thing, and tell whether any had something to do."""
        self.now += 0.001
        parties: list[tuple[Callable[[], bool], float]] = [(self._observe, _SLOW)]
        for agent in self.agents:
            stale = agent is not self.agents[-1]
            parties += [(agent.worker.step, _SLOW if stale else _FAST), (agent.step, _FAST)]
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
                        mark = BarrierMark(
                            VERSION, "observer", 1, sequence, message.id, self.partitions
                        )
                        self.publish(table, partition, mark)
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
