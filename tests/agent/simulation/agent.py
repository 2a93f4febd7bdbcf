"""One agent process of a script: a runtime, and what it works with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.launchers.admission import Admission
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ports import Report, WorkerState
from headgate.agent.state.cell_storage import CellStorage
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.saved_state import SavedState
from headgate.agent.state.sealed import Owner
from headgate.engine import Kept
from headgate.events import VERSION, ObserverLease
from headgate.spark import Thrift2Address
from simulation.broker import ScriptedBroker
from simulation.rows import SEALS
from simulation.tables import ScriptedTables
from simulation.worker import ScriptedWorker

if TYPE_CHECKING:
    from simulation.world import World

_NEVER_FULL = 1 << 40  # cells in memory: a script writes nothing to disk
_PLACES = 4
"""For attempts in an agent: a dataflow here never has more under way."""


class Killed(Exception):
    """The process in which this was raised has ended at this point."""


class ScriptedAgent:
    """One agent process of a world, with the one dataflow that there is."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.alive = True
        self.worker = ScriptedWorker(world, self._report)
        self.broker = ScriptedBroker(world)
        self.admission = Admission(_PLACES)
        """Its places for attempts, which a test may take away."""
        self.observers = ObserverTable(30.0)
        self.observers.hear(ObserverLease(VERSION, "observer", 1, 1e12, {}), world.now)
        self.runtime: Runtime | None = None
        self.epoch = 0
        self.metrics = AgentMetrics()
        self._number = number
        self._owner = Owner(f"agent-{number}", str(number), "")
        self._inbox: deque[Callable[[float], None]] = deque()

    def begin(self) -> None:
        """Take the dataflow over and start."""
        with _Inside(self):
            ownership = self.world.store.acquire(
                self.world.dataflow.name, self._owner, self.world.now, 10.0
            )
            self.epoch = ownership.epoch
            self.runtime = Runtime(ownership, self.world.dataflow, self._runtime_context())
            self.runtime.start(self.world.now)
            self.runtime.report(WorkerState(ready=True, words="warm"), self.world.now)

    def _runtime_context(self) -> RuntimeContext:
        tables = ScriptedTables(self.world)
        return RuntimeContext(
            store=self,
            broker=self.broker,
            storage=CellStorage(_NEVER_FULL, Path()),
            launcher=self.worker,
            admission=self.admission,
            ledger=tables,
            scanner=tables,
            observation=tables,
            retention=tables,
            families=tables,
            observers=self.observers,
            metrics=self.metrics.of(self.world.dataflow.name),
            requester=f"agent-{self._number}",
            hbase=Thrift2Address("memory", 0),
            kafka="memory",
            kafka_properties={},
            seals=SEALS,
            checkpoint_seconds=1.0,
            saved_whole=self.world.saved_whole,
            barrier_repeat=1.0,
            history=self.world.history,
            post=self._inbox.append,
            suspects=self.world.suspects,
            deliver=self._take,
            stages="stages",
            policies=self.world.policies,
            advisers=self.world.advisers,
        )

    def _take(self, records: Sequence[FeedRecord]) -> bool:
        self._inbox.append(lambda now: self._the_runtime().consume(records, now))
        return True

    def _report(self, report: Report) -> None:
        self._inbox.append(lambda now: self._the_runtime().report(report, now))

    def _the_runtime(self) -> Runtime:
        assert self.runtime is not None
        return self.runtime

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """See ``Store``."""
        self.world.store.save(self.world.dataflow.name, self.epoch, state, records, now)

    def segments(self, kept: Iterable[Kept]) -> Iterator[bytes]:
        """See ``Store``."""
        definition = self.world.store.listing(self.world.dataflow.name).definition
        return self.world.store.segments(definition, self.epoch, kept)

    def trim(self, numbers: Iterable[int]) -> None:
        """See ``Store``."""
        self.world.store.trim(self.world.dataflow.name, numbers)

    # -- what a script asks ----------------------------------------------------------------------

    def due(self) -> float:
        """Return when time must have passed for the runtime."""
        return self._the_runtime().due()

    def waves(self) -> int:
        """Return how many waves were asked for."""
        return self._the_runtime().reporting.status(self.world.now).waves

    def settled(self) -> int:
        """Return up to which wave all have settled."""
        return self._the_runtime().reporting.status(self.world.now).settled

    def words(self) -> str:
        """Say how the runtime stands."""
        return str(self._the_runtime().reporting.status(self.world.now))

    def ask(self, what: Callable[[Runtime, float], None]) -> None:
        """Do something that people ask for."""
        with _Inside(self):
            what(self._the_runtime(), self.world.now)

    def leap(self, seconds: float) -> None:
        """Notice that the clock was set."""
        if self.alive and self.runtime is not None:
            with _Inside(self):
                self.runtime.move_times(seconds, self.world.now)

    def step(self) -> bool:
        """Let the runtime do one thing."""
        if not self.alive or self.runtime is None:
            return False
        moved = self.broker.step()
        with _Inside(self):
            if self._inbox:
                self._inbox.popleft()(self.world.now)
                moved = True
            self.runtime.tick(self.world.now)
        return moved

    def has_work(self) -> bool:
        """Return whether its worker or, while it lives, the runtime has something to do."""
        return self.worker.busy or (
            self.alive and (bool(self._inbox) or any(self.broker.lag().values()))
        )


class _Inside:
    """While an agent's own code runs, an end of the agent ends that code too."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self._agent = agent

    def __enter__(self) -> None:
        self._agent.world.in_agent = self._agent is self._agent.world.agents[-1]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._agent.world.in_agent = False
        return kind is Killed
