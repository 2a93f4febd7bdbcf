"""Attempts of runs: queued, handed to a launcher, and ended."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, assert_never

import structlog
from msgspec import Struct

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import EndOfRun, MayStart
from headgate.agent.dataflow.runs.history import RunHistory
from headgate.agent.dataflow.runs.starting import (
    depended_files,
    python_path,
    shortened,
    stage_request,
)
from headgate.agent.dataflow.state import COUNTER_BITS, FlowState, RuntimePort
from headgate.agent.errors import Refused
from headgate.agent.parts import Part
from headgate.agent.ports import AttemptDisplaced, Report, WorkerLost, WorkerState
from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import (
    CompactionRequested,
    Launch,
    RunFailed,
    RunFinished,
    RunRehearsed,
    RunStarted,
)
from headgate.events import VERSION, Fence, encode_dated
from headgate.flows import JobLauncher, SessionLauncher, StepLauncher, declared_identity
from headgate.flows import Launcher as FlowLauncher
from headgate.spark import (
    Committed,
    Ending,
    LedgerError,
    RunKey,
    StepEnded,
    StepRequest,
    StepStarted,
    decode_result,
)

log = structlog.get_logger("headgate.agent.attempts")

_REASON = 1_000  # characters of a reason: it stands in tables, in decisions and in each checkpoint
_DETAIL = 50_000  # of a traceback, which is kept with its run in a row of the state table


class Attempt(Struct):
    """One attempt of a run, as the service carries it. ``deadline`` is Unix time in seconds."""

    launch: Launch
    record: RunRecord
    token: int
    deadline: float | None = None
    stopped: str = ""
    shadow: bool = False
    cancelled: bool = False
    """Whether somebody had it ended."""
    recovered: bool = False
    """Whether it goes on with what outlived an agent before this one."""
    begun: float | None = None
    """When the work began that it goes on with, where an agent before this one began it."""


class Attempts(Part):
    """Carries launches to the launcher and what came of them back."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        context: RuntimeContext,
        history: RunHistory,
        progress: FlowProgress,
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._history = history
        self.committed_runs = Counter(progress.runs)
        """Committed runs by action."""
        self.worker = WorkerState(ready=False, words="not started yet")
        """How the warm session stands."""
        self.unplaced = False
        """Whether an attempt waits because too many are under way on this agent."""
        self._token = 0
        self._queue: deque[Attempt] = deque()
        self._active: dict[str, Attempt] = {}
        """By run: of an action that went and came back there may be two."""
        self._under_way: dict[str, Attempt] = {}
        """Attempts that are with a launcher, by run."""

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"runs": dict(self.committed_runs)}

    # -- how they stand

    @property
    def session_is_busy(self) -> bool:
        """Whether an attempt is with the warm session."""
        launcher_of = self._state.dataflow.launcher_of
        return any(
            not isinstance(launcher_of(a.launch.action), JobLauncher)
            for a in self._under_way.values()
        )

    def is_active(self, key: RunKey) -> bool:
        """Return whether a run is not over."""
        action = self._state.engine.actions.get(key.action)
        active = None if action is None else action.run
        return key.run in self._active or (active is not None and active.run == key.run)

    def action_state(self, action: str) -> str:
        """Return how an action stands, in a word."""
        active = [a for a in self._active.values() if a.launch.action == action]
        if active:
            return active[-1].record.outcome.value
        if action in self._state.quarantined:
            return "quarantined"
        return "retrying" if action in self._state.engine.busy else "idle"

    def unrest(self) -> str | None:
        """Return in words what is under way or due; None if nothing is."""
        busy = self._state.engine.busy
        if not busy:
            return None
        names = ", ".join(f"{name} ({self.action_state(name)})" for name in busy)
        cold = self.session_is_busy and not self.worker.ready
        return f"{names}; worker: {self.worker.words}" if cold else names

    # -- time

    def due(self) -> list[float]:
        """Return the timeouts of attempts, in Unix seconds."""
        return [a.deadline for a in self._under_way.values() if a.deadline is not None]

    def tick(self, now: float) -> None:
        """End attempts that took too long."""
        for running in tuple(self._under_way.values()):
            if running.deadline is not None and now >= running.deadline:
                launch = running.launch
                running.deadline = None
                running.stopped = f"the step took longer than its timeout of {launch.timeout:g} s"
                self._context.launcher.cancel(launch.run, launch.attempt, running.stopped)

    def move_times(self, by: float) -> None:
        """Have attempts end so many seconds later."""
        for attempt in self._under_way.values():
            if attempt.deadline is not None:
                attempt.deadline += by

    # -- the way there

    def prepare(self, launch: Launch, now: float) -> None:
        """Note that an attempt is to be made; a checkpoint comes before it."""
        record = self._history.add(
            run=launch.run,
            action=launch.action,
            attempt=launch.attempt,
            cause=launch.cause.words,
            moment=launch.cause.moment,
            outcome=RunOutcome.WAITING,
            launched=now,
            cut=self._state.from_start(launch.cut),
            since=self._state.since(launch),
        )
        self._active[launch.run] = Attempt(launch, record, 0)

    def launch(self, launch: Launch, now: float) -> None:
        """Make an attempt that was prepared."""
        attempt = self._active[launch.run]
        committed = self._committed(launch) if launch.attempt > 1 else None
        if committed is not None:
            # The attempt before committed, and whoever should have said so was lost.
            self._finish(attempt, now, committed.result)
            return
        if self._state.definition.shadow:
            self._shadow(attempt, now)
            return
        if launch.attempt > 1 and self._context.launcher.recover(launch.run, launch.attempt):
            # Fenced off, what outlived its agent could not write any more.
            self._go_on(attempt)
            return
        fence = self._fence(attempt)
        if launch.attempt > 1 or self._may_still_write(launch):
            self._port.ask(MayStart(launch, attempt.token), self._state.tables, now, prelude=fence)
        else:
            self._context.broker.control(fence)
            self._enqueue(attempt, now)

    def _fence(self, attempt: Attempt) -> Fence:
        """Give an attempt a token of its own, and return what keeps all before it from writing."""
        self._token += 1
        attempt.token = (self._state.epoch << COUNTER_BITS) | self._token
        self._note(attempt, token=attempt.token)
        return Fence(VERSION, self._state.name, attempt.launch.action, attempt.token)

    def _may_still_write(self, launch: Launch) -> bool:
        """Return whether something of the action's run before may be at work all the same.

        What committed or was not launched has ended. What failed, was stopped or was lost may have
        left a process behind that nobody hears of; and nobody knows of runs whose records are gone,
        with their age or with a dataflow of this name that was removed.
        """
        for record in self._history.records:
            if record.action == launch.action and record.run != launch.run:
                return record.outcome not in {RunOutcome.COMMITTED, RunOutcome.SHADOW}
        begun_anew = self._state.epoch > 1 and not self._state.restored
        return self.committed_runs[launch.action] > 0 or begun_anew

    def _go_on(self, attempt: Attempt) -> None:
        """Take what an earlier attempt of the run does for this attempt's own."""
        run = attempt.launch.run
        records = (r for r in self._history.records if r.run == run)
        begun = [record.started for record in records if record.started is not None]
        attempt.begun = min(begun, default=None)
        attempt.recovered = True
        self._note(attempt, reason="goes on with what was begun before the agent's restart")
        self._under_way[run] = attempt
        self._context.admission.take_anyway()

    def _shadow(self, attempt: Attempt, now: float) -> None:
        """Go on as if the attempt had done what it is for."""
        attempt.shadow = True
        self._note(attempt, reason="shadow mode: it was not launched", started=now)
        self._finish(attempt, now)

    def may_start(self, run: str, now: float) -> None:
        """Have an attempt begin: nothing before it can write any more."""
        self._enqueue(self._active[run], now)

    def _enqueue(self, attempt: Attempt, now: float) -> None:
        self._queue.append(attempt)
        self.begin_next(now)

    def begin_next(self, now: float) -> None:
        """Begin the attempts that wait, as far as there are places for them."""
        state = self._state
        while self._queue and state.definition.shadow:
            self._shadow(self._queue.popleft(), now)
        if state.draining:
            return
        for attempt in tuple(self._queue):
            action = attempt.launch.action
            by = state.dataflow.launcher_of(action)
            if by is None:
                self._queue.remove(attempt)
                reason = "the dataflow has no such action now"
                self._note(attempt, outcome=RunOutcome.LOST, reason=reason)
                del self._active[attempt.launch.run]
            elif len(self._under_way) >= state.dataflow.concurrency:
                break
            elif not (isinstance(by, SessionLauncher) and self.session_is_busy):
                priority = state.dataflow.priority
                if not self._context.admission.take(state.name, priority, self._wake):
                    self.unplaced = True
                    return
                self._queue.remove(attempt)
                self._begin(attempt, by)
        self.unplaced = False
        self._context.admission.leave(state.name)

    def _wake(self) -> None:
        """Look again, from whatever thread, because a place may be free."""
        self._context.post(self.begin_next)

    def _begin(self, attempt: Attempt, by: FlowLauncher) -> None:
        launch, state = attempt.launch, self._state
        self._under_way[launch.run] = attempt
        step = by if isinstance(by, StepLauncher) else None
        key = RunKey(state.name, launch.action, launch.run)
        request = StepRequest(
            dataflow=state.name,
            action=launch.action,
            run=launch.run,
            attempt=launch.attempt,
            token=attempt.token,
            entry=step.step if step else "",
            hbase=self._context.hbase,
            kafka=self._context.kafka,
            python_path=python_path(step.python_path if step else (), state.definition),
            parameters=by.parameters,
            containers=state.dataflow.in_tables,
            cut=state.from_start(launch.cut),
            since=state.since(launch),
            ledger=self._context.seals.table,
            ledger_proof=self._context.seals.proof((key.row,)),
            previous=launch.previous,
            result_proof=self._context.seals.proof((key.result_row,)),
            kafka_properties=self._context.kafka_properties,
            on_undecodable=state.dataflow.on_undecodable,
            keys=state.dataflow.keys,
            stage=stage_request(
                state.dataflow,
                state.definition,
                launch,
                state.engine.needed_increments(launch.action),
                self._context.stages,
                {
                    name: action.last.result
                    for name, action in state.engine.actions.items()
                    if action.last is not None
                },
            ),
            dated=encode_dated(state.engine.dated()),
            computes=declared_identity(state.dataflow, launch.action),
            depends=depended_files(state.dataflow, state.definition, launch.action),
        )
        self._context.launcher.start(request, by, state.definition.directory)

    # -- the way back

    def report(self, report: Report, now: float) -> None:
        """Take what the launcher says."""
        if isinstance(report, WorkerState):
            self.worker = report
            return
        attempt = self._under_way.get(report.run)
        if attempt is None or attempt.launch.attempt != report.attempt:
            return  # a former worker's last words: that attempt was given up already
        match report:
            case StepStarted():
                self._started(attempt, now)
            case StepEnded():
                self._ended(attempt, report, now)
            case WorkerLost():
                self._worker_lost(attempt, report, now)
            case AttemptDisplaced():
                self._displaced(attempt, report, now)
            case _:
                assert_never(report)

    def _started(self, attempt: Attempt, now: float) -> None:
        begun = now if attempt.begun is None else attempt.begun
        self._note(attempt, outcome=RunOutcome.RUNNING, started=begun)
        launch = attempt.launch
        if launch.timeout is not None:
            attempt.deadline = begun + launch.timeout
        waited = max(0.0, now - attempt.record.launched)
        self._context.metrics.launch_latency.observe(waited)
        which = (launch.action, launch.run, launch.attempt)
        self._port.handle(RunStarted(now, *which, attempt.recovered))

    def _ended(self, attempt: Attempt, ended: StepEnded, now: float) -> None:
        self.release(ended.run)
        self._note(
            attempt,
            undecoded=ended.undecoded,
            undecodable=ended.undecodable,
            code=ended.code,
            identity=ended.identity,
        )
        match ended.ending:
            case Ending.COMMITTED:
                self._finish(attempt, now, ended.result)
            case Ending.UNCERTAIN | Ending.LOST_CLAIM if (
                committed := self._committed(attempt.launch)
            ) is not None:
                self._finish(attempt, now, committed.result)
            case _:
                reason = ended.reason or f"the attempt ended {ended.ending.value}"
                final = ended.ending is Ending.FAILED and ended.final
                self._fail(attempt, RunOutcome.FAILED, reason, ended.detail, now, final=final)
        self.begin_next(now)

    def _worker_lost(self, attempt: Attempt, lost: WorkerLost, now: float) -> None:
        self.release(lost.run)
        committed = self._committed(attempt.launch)
        if committed is not None:
            self._finish(attempt, now, committed.result)
        elif attempt.cancelled:
            self._fail(attempt, RunOutcome.CANCELLED, lost.reason, lost.detail, now)
        elif attempt.stopped:
            self._fail(attempt, RunOutcome.TIMED_OUT, attempt.stopped, lost.detail, now)
        else:
            self._fail(attempt, RunOutcome.LOST, lost.reason, lost.detail, now)
        self.begin_next(now)

    def _displaced(self, attempt: Attempt, displaced: AttemptDisplaced, now: float) -> None:
        """Make an attempt again that was lost by no fault of its own; the engine need not know."""
        launch = attempt.launch
        if attempt.cancelled or attempt.stopped or self._committed(launch) is not None:
            lost = WorkerLost(displaced.run, displaced.attempt, displaced.reason)
            self._worker_lost(attempt, lost, now)
            return
        self.release(launch.run)
        attempt.deadline = None
        reason = f"begun again, which counts as no failure: {displaced.reason}"
        self._note(attempt, outcome=RunOutcome.WAITING, started=None, reason=reason)
        log.info("begun again", dataflow=self._state.name, run=launch.run, reason=displaced.reason)
        fence = self._fence(attempt)
        self._port.ask(MayStart(launch, attempt.token), self._state.tables, now, prelude=fence)
        self.begin_next(now)

    def stop(self) -> None:
        """Give up the places of all attempts."""
        for run in tuple(self._under_way):
            self.release(run)

    def release(self, run: str) -> None:
        """Give up the place of an attempt that is not with a launcher any more."""
        del self._under_way[run]
        self._context.admission.give()

    def _committed(self, launch: Launch) -> Committed | None:
        """Return the commit of a run, whichever attempt made it; None where none has."""
        key = RunKey(self._state.name, launch.action, launch.run)
        try:
            state = self._context.ledger.state(key)
        except LedgerError:
            # Nobody knows: the run is done again rather than not at all. No attempt could claim
            # it in this row; one before it that still works is behind the fence of the next.
            log.exception("a row of the ledger is deleted", dataflow=self._state.name)
            self._context.ledger.forget(key)
            return None
        return state if isinstance(state, Committed) else None

    def _finish(self, attempt: Attempt, now: float, result: str = "") -> None:
        launch = attempt.launch
        self._note(attempt, ended=now)
        self._port.ask(
            EndOfRun(launch.action, launch.run, launch.attempt, result),
            self._state.tables_written((launch.action,)),
            now,
        )

    def _fail(
        self,
        attempt: Attempt,
        outcome: RunOutcome,
        reason: str,
        detail: str,
        now: float,
        *,
        final: bool = False,
    ) -> None:
        launch = attempt.launch
        # Steps may raise with all their data; a row that HBase refuses would be tried for ever.
        reason, detail = shortened(reason, _REASON), shortened(detail, _DETAIL)
        self._note(attempt, outcome=outcome, ended=now, reason=reason, detail=detail)
        self._measure(attempt, outcome)
        del self._active[launch.run]
        which = (launch.action, launch.run, launch.attempt)
        failed = RunFailed(now, *which, reason, detail, final)
        self._port.handle(failed)

    def finished(self, end: EndOfRun, now: float) -> None:
        """Take a run for committed: all that it has written was consumed."""
        attempt = self._active.pop(end.run)
        outcome = RunOutcome.SHADOW if attempt.shadow else RunOutcome.COMMITTED
        # Whoever heard of the commit: what a stage has named says what it has made.
        made = decode_result(end.result)
        self._note(attempt, outcome=outcome, made={} if made is None else made.rows)
        self._measure(attempt, outcome)
        self.committed_runs[end.action] += 1
        which = (now, end.action, end.run, end.attempt)
        if attempt.shadow:
            self._port.handle(RunRehearsed(*which))
            return
        produced = () if made is None else made.produced
        self._port.handle(RunFinished(*which, end.result, produced))
        if made is not None and made.upkeep:
            self._port.handle(CompactionRequested(now, end.action, wholly=False))

    def cancel(self, action: str) -> None:
        """Have an action's attempt ended; what follows is what follows any failure.

        Raises:
            Refused: nothing of it is under way.
        """
        under_way = self._under_way.values()
        attempt = next((a for a in under_way if a.launch.action == action), None)
        if attempt is None:
            raise Refused(f"nothing of {action!r} of {self._state.name} is under way")
        attempt.cancelled = True
        launch = attempt.launch
        self._context.launcher.cancel(launch.run, launch.attempt, "it was cancelled by hand")

    def _measure(self, attempt: Attempt, outcome: RunOutcome) -> None:
        record = attempt.record
        self._context.metrics.runs.labels(record.action, outcome.value, record.moment).inc()
        if record.started is not None and record.ended is not None:
            self._context.metrics.run_seconds.labels(record.action).observe(
                max(0.0, record.ended - record.started)
            )

    def _note(self, attempt: Attempt, **changes: Any) -> None:
        attempt.record = self._history.change(attempt.record, **changes)
        self._state.dirty = True
