"""One dataflow on its agent: wires its parts, and lets time and messages reach them.

A runtime is called by one thread at a time and has no clock: ``now`` (Unix seconds) comes with
every call, and ``due`` returns when to call again. Everything slow is asked of a port and comes
back as a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import assert_never

import structlog

from headgate.agent.dataflow.checkpoints import Checkpoints
from headgate.agent.dataflow.commands import Commands
from headgate.agent.dataflow.consultations import Consultations
from headgate.agent.dataflow.consumption import Consumption
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import (
    Continuation,
    EndOfRun,
    EndOfWave,
    MayStart,
    RowsMoved,
    ScanEnds,
    ScanStarts,
    WatchesGone,
    WatchesInEffect,
)
from headgate.agent.dataflow.decisions import Decisions
from headgate.agent.dataflow.engine_driver import EngineDriver
from headgate.agent.dataflow.lost_observers import LostObservers
from headgate.agent.dataflow.reporting import Reporting
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.runs.history import RunHistory
from headgate.agent.dataflow.runs.stages import Stages
from headgate.agent.dataflow.state import FlowState
from headgate.agent.dataflow.tables.gates import Gates
from headgate.agent.dataflow.tables.scans import EngineScans
from headgate.agent.dataflow.tables.watches import Watches
from headgate.agent.dataflow.views import Phase
from headgate.agent.dataflow.waves import Waves
from headgate.agent.kafka.barriers import Barriers
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.parts import Part
from headgate.agent.ports import Report
from headgate.agent.state.saved_state import FlowProgress
from headgate.agent.state.sealed import Definition
from headgate.agent.state.store import Ownership
from headgate.agent.training.requests import Trainings
from headgate.engine import (
    ClockMoved,
    DecisionKind,
    RecordArrived,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    Stimulus,
    Tick,
)
from headgate.events import ControlMessage
from headgate.flows import Dataflow

log = structlog.get_logger("headgate.agent.flow")


class Runtime:
    """Carries one dataflow's stimuli and instructions; it decides nothing itself.

    Args:
        ownership: what the state row held when the dataflow was taken over.
        dataflow: the definition, read.
        context: the ports.
    """

    def __init__(self, ownership: Ownership, dataflow: Dataflow, context: RuntimeContext) -> None:
        progress = FlowProgress() if ownership.state is None else ownership.state.progress
        self._context = context
        self.state = state = FlowState(ownership, dataflow, context, progress)
        self.history = history = RunHistory(state.name, context, progress, ownership.history)
        self.decisions = decisions = Decisions(state, context, progress)
        self._barriers: Barriers[Continuation] = Barriers(
            context.broker,
            context.observers,
            requester=f"{context.requester}/{state.name}",
            epoch=state.epoch,
            repeat=context.barrier_repeat,
            passed=self._barrier_passed,
        )
        self._attempts = attempts = Attempts(state, self, context, history, progress)
        self.waves = waves = Waves(state, self, decisions, attempts, progress)
        self._gates = gates = Gates(state, context.broker)
        self._watches = watches = Watches(state, self, context, progress)
        self._scans = scans = EngineScans(state, self, context, decisions, watches)
        self._consumption = consumption = Consumption(
            state, self, context, self._barriers, waves, progress
        )
        self._lost_observers = LostObservers(state, self, context.observers, progress)
        consultations = Consultations(self, context)
        self.trainings = Trainings(
            state, context.advisers, consultations.answers, context.post, progress.training
        )
        self._engine = EngineDriver(
            state,
            decisions,
            attempts,
            scans,
            consultations,
            gates,
            waves,
            context.suspects,
            self.save,
        )
        self.commands = Commands(
            state,
            self,
            context,
            history,
            attempts,
            waves,
            gates,
            watches,
            consumption,
            self._barriers,
        )
        self.stages = Stages(state, self, context, attempts)
        self.reporting = Reporting(
            state, context, self._barriers, history, decisions, attempts, waves, consumption
        )
        parts: tuple[Part, ...] = (
            self._barriers,
            attempts,
            self._engine,
            waves,
            watches,
            self.reporting,
            self._lost_observers,
            gates,
            state,
            history,
            decisions,
            consumption,
            self.trainings,
        )
        self._checkpoints = Checkpoints(state, context, history, attempts.is_active, parts)
        self._parts = (*parts, self._checkpoints)
        """All parts, in the order of their turns: what changes is saved at the end."""
        self._foreseen: float | None = None
        """When the next run may be due, as the launcher was last notified."""

    @property
    def definition(self) -> Definition:
        """What runs: the newest definition that was taken."""
        return self.state.definition

    # -- its life

    def start(self, now: float) -> None:
        """Publish the watch list, read on at the saved cut, and ask for the first barrier."""
        state = self.state
        self._consumption.subscribe(now)
        self.decisions.send()
        if not state.watching:
            words = "updates are counted from here on"
            self.decisions.publish(now, DecisionKind.SUBMITTED, words)
        if state.restored:
            if state.watching:
                state.phase = state.working
            self.history.lose_unfinished(now)
            self.decisions.publish(now, DecisionKind.RESTARTED, "an agent goes on with it")
            self.handle(Restarted(now))
            self.waves.resume(now)
        self._watches.publish(now)
        self._consumption.resume_moves(now)
        self.waves.resume_schedule(now)

    def drain(self) -> None:
        """Start no further attempt; ``idle`` says when the one in the session has ended."""
        self.state.draining = True
        self._context.admission.leave(self.state.name)
        self.state.phase = Phase.STOPPING

    @property
    def idle(self) -> bool:
        """Whether no attempt is with the worker and none that ended waits for its barrier."""
        ending = any(isinstance(p, EndOfRun) for p in self._barriers.continuations())
        return not ending and not self._attempts.session_is_busy

    def stop(self, now: float, *, save: bool) -> None:
        """End the worker and the feed; with ``save`` the last checkpoint is taken first."""
        context = self._context
        # Each part ends even where the end of another fails, the last one named first.
        with ExitStack() as ends:
            ends.callback(context.metrics.end)
            ends.callback(context.storage.close)
            if save:
                ends.callback(self.save, now)
            for part in self._parts:
                ends.callback(part.stop)
            ends.callback(context.admission.leave, self.state.name)
            ends.callback(context.launcher.close)
            for adviser in context.advisers.values():
                ends.callback(adviser.close)
            if self.state.withdrawn:
                ends.callback(context.launcher.cancel_all, "the dataflow was removed")

    # -- time

    def due(self) -> float:
        """Return the Unix time at which ``tick`` is next needed."""
        return min(due for part in self._parts for due in part.due())

    def tick(self, now: float) -> None:
        """Do what is due."""
        for part in self._parts:
            part.tick(now)
        self._foresee(now)

    def _foresee(self, now: float) -> None:
        """Let the launcher know when the next run may be due, as far as time alone decides."""
        dues = [due for due in (self.state.engine.run_due, self.waves.due_at) if due is not None]
        launches = self.state.phase is not Phase.PAUSED and not self.state.definition.shadow
        due = min(dues, default=None) if launches else None
        if due != self._foreseen:
            self._foreseen = due
            self._context.launcher.expect(None if due is None else max(0.0, due - now))

    def move_times(self, by: float, now: float) -> None:
        """Go on as before: the clock was set so many seconds ahead (back, where negative)."""
        log.warning("the clock was set", dataflow=self.state.name, seconds=round(by, 3))
        for part in self._parts:
            part.move_times(by)
        self.handle(ClockMoved(now, by))
        self._gates.renew_all(now)

    # -- messages

    def consume(self, records: Sequence[FeedRecord], now: float) -> None:
        """Take records of the update topics, each partition in its order."""
        self._consumption.consume(records, now)
        self.settle()

    def report(self, report: Report, now: float) -> None:
        """Take what the launcher says."""
        self._attempts.report(report, now)
        self.settle()

    def sampled(self, samples: tuple[ResourceSample, ...], now: float) -> None:
        """Take how busy the machines are on which steps run."""
        self.handle(ResourcesSampled(now, samples))

    # -- the port of its parts

    def handle(self, stimulus: Stimulus) -> None:
        """Have the engine take a stimulus, save, and carry its instructions out."""
        self._engine.handle(stimulus)

    def arrive(
        self, arrived: list[RecordArrived], note: Callable[[RecordArrived], None], now: float
    ) -> None:
        """Have the engine take records; each is noted, and not in the list any more."""
        self._engine.arrive(arrived, note, now)

    def ask(
        self,
        continuation: Continuation,
        tables: Iterable[str],
        now: float,
        prelude: ControlMessage | None = None,
    ) -> None:
        """Ask for a barrier; ``prelude`` is published first, so that who marks has obeyed it."""
        self._barriers.ask(continuation, self.state.partitions(tables), now, prelude)

    def save(self, now: float) -> None:
        """Save a checkpoint."""
        self._checkpoints.save(now)

    def settle(self) -> None:
        """Have waves settle that have come to rest."""
        self.waves.settle()

    # -- barriers

    def _barrier_passed(self, continuation: Continuation, started: float, now: float) -> None:
        self._context.metrics.barrier_seconds.observe(max(0.0, now - started))
        match continuation:
            case WatchesInEffect():
                self._watching(now)
            case WatchesGone():
                self._watches.gone(continuation)
            case EndOfWave():
                self.waves.ended(continuation, now)
            case EndOfRun():
                self._attempts.finished(continuation, now)
            case MayStart():
                self._attempts.may_start(continuation.launch.run, now)
            case RowsMoved():
                self._consumption.rows_moved(continuation, now)
            case ScanStarts():
                self._scans.start(continuation, started, now)
            case ScanEnds():
                self._scans.end(continuation, now)
            case _:
                assert_never(continuation)

    def _watching(self, now: float) -> None:
        state = self.state
        if state.phase is Phase.STARTING:
            state.phase = state.working
        if not state.watching:
            self._lost_observers.forgive(now)
        state.watching = True
        self._watches.enter_mode(now)
        self.handle(Tick(now))
        self.save(now)
