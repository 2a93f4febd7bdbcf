"""Agents and workers of a hostile world, which end anywhere and leave zombies behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from contradiction import Contradiction, require
from msgspec.structs import replace
from simulation import ScriptedAgent
from simulation.agent import Killed
from simulation.worker import ScriptedWorker

from agents.kafka import HostileBroker
from agents.tables import HostileTables
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.errors import AgentError, Fenced, Refused
from headgate.agent.kafka.observers import ObserverTable
from headgate.spark import Claimed, Ending, StepRequest

if TYPE_CHECKING:
    from agents.world import HostileWorld

GRACE = 30.0  # seconds an observer may take to begin anew with its journal
HISTORY = 400  # records of attempts, more than a life has
_MOST_CRASHES = 60
"""Agents of one life that an error may end which nobody raised on purpose."""


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
