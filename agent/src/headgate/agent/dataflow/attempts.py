"""Attempts of runs: queued, handed to the worker one by one, and ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from headgate.agent.dataflow.purposes import EndOfRun, MayStart
from headgate.agent.dataflow.standing import COUNTER_BITS, Attempt, Standing
from headgate.agent.ports import AttemptDisplaced, WorkerLost
from headgate.agent.state.sealed import Definition
from headgate.agent.state.store import RunOutcome, RunRecord
from headgate.engine import Launch, RunFailed, RunFinished, RunRehearsed
from headgate.events import VERSION, Cut, Fence
from headgate.flows import Dataflow, SessionLauncher, StepLauncher, session_roots
from headgate.flows import Launcher as FlowLauncher
from headgate.spark import (
    Committed,
    Ending,
    LedgerError,
    RunKey,
    StartSession,
    StepEnded,
    StepRequest,
)

log = structlog.get_logger("headgate.agent.attempts")

_REASON = 1_000  # characters of a reason: it stands in tables, in decisions and in each checkpoint
_DETAIL = 50_000  # of a traceback, which is kept with its run in a row of the state table


class Attempts(Standing):
    """Carries launches to the worker and what came of them back."""

    def _prepare(self, launch: Launch, now: float) -> None:
        record = RunRecord(
            number=self._progress.next_record,
            run=launch.run,
            action=launch.action,
            attempt=launch.attempt,
            cause=launch.cause.words,
            moment=launch.cause.moment,
            outcome=RunOutcome.WAITING,
            launched=now,
            cut=self._from_start(launch.cut),
            since=self._since(launch),
        )
        self._progress = msgspec.structs.replace(self._progress, next_record=record.number + 1)
        oldest = self.records[-1] if len(self.records) == self.records.maxlen else None
        self.records.appendleft(record)
        self._changed_records[record.number] = record
        self._active[launch.run] = Attempt(launch, record, 0)
        if oldest is not None:
            self._give_up(oldest)

    def _since(self, launch: Launch) -> Cut:
        """Return from where on the step has seen nothing; what no run has met begins as we did."""
        return Cut({**self._progress.start.offsets, **launch.since.offsets})

    def _launch(self, launch: Launch, now: float) -> None:
        attempt = self._active[launch.run]
        if launch.attempt > 1 and self._committed(launch):
            # The attempt before committed, and whoever should have said so was lost.
            self._finish(attempt, now)
            return
        if self.definition.shadow:
            self._shadow(attempt, now)
            return
        if launch.attempt > 1 and self._around.launcher.recover(launch.run, launch.attempt):
            # Fenced off, what outlived its agent could not write any more.
            self._go_on(attempt)
            return
        fence = self._fence(attempt)
        if launch.attempt > 1 or self._may_still_write(launch):
            self._ask(MayStart(launch, attempt.token), self._tables(), now, prelude=fence)
        else:
            self._around.broker.control(fence)
            self._enqueue(attempt, now)

    def _fence(self, attempt: Attempt) -> Fence:
        """Give an attempt a token of its own, and return what keeps all before it from writing."""
        self._token += 1
        attempt.token = (self.epoch << COUNTER_BITS) | self._token
        self._note(attempt, token=attempt.token)
        return Fence(VERSION, self.name, attempt.launch.action, attempt.token)

    def _may_still_write(self, launch: Launch) -> bool:
        """Tell whether something of the action's run before may be at work all the same.

        What committed or was not launched has ended. What failed, was stopped or was lost may have
        left a process behind that nobody hears of; and nobody knows of runs whose records are gone,
        with their age or with a dataflow of this name that was removed.
        """
        for record in self.records:  # the newest first
            if record.action == launch.action and record.run != launch.run:
                return record.outcome not in {RunOutcome.COMMITTED, RunOutcome.SHADOW}
        return self._runs[launch.action] > 0 or (self.epoch > 1 and not self._restored)

    def _go_on(self, attempt: Attempt) -> None:
        """Take what an earlier attempt of the run does for this attempt's own."""
        run = attempt.launch.run
        begun = [r.started for r in self.records if r.run == run and r.started is not None]
        attempt.begun = min(begun, default=None)
        attempt.recovered = True
        self._note(attempt, reason="goes on with what was begun before the agent's restart")
        self._under_way[run] = attempt
        self._around.admission.take_anyway()

    def _shadow(self, attempt: Attempt, now: float) -> None:
        """Go on as if the attempt had done what it is for."""
        attempt.shadow = True
        self._note(attempt, reason="shadow mode: it was not launched", started=now)
        self._finish(attempt, now)

    def _enqueue(self, attempt: Attempt, now: float) -> None:
        self._queue.append(attempt)
        self._next(now)

    def _next(self, now: float) -> None:
        while self._queue and self.definition.shadow:
            self._shadow(self._queue.popleft(), now)
        if self._draining:
            return
        for attempt in tuple(self._queue):
            action = attempt.launch.action
            by = self._dataflow.launchers.get(action)
            if by is None:
                self._queue.remove(attempt)
                reason = "the dataflow has no such action now"
                self._note(attempt, outcome=RunOutcome.LOST, reason=reason)
                del self._active[attempt.launch.run]
            elif len(self._under_way) >= self._dataflow.concurrency:
                break
            elif not (isinstance(by, SessionLauncher) and self._session_is_busy):
                if not self._around.admission.take(self.name, self._dataflow.priority, self._wake):
                    self._unplaced = True
                    return
                self._queue.remove(attempt)
                self._begin(attempt, by)
        self._unplaced = False
        self._around.admission.leave(self.name)

    def _wake(self) -> None:
        """Look again, from whatever thread, because a place may be free."""
        self._around.post(self._next)

    def _over(self, run: str) -> None:
        """Give up the place of an attempt that is not with a launcher any more."""
        del self._under_way[run]
        self._around.admission.give()

    def _begin(self, attempt: Attempt, by: FlowLauncher) -> None:
        launch = attempt.launch
        self._under_way[launch.run] = attempt
        step = by if isinstance(by, StepLauncher) else None
        key = RunKey(self.name, launch.action, launch.run)
        request = StepRequest(
            dataflow=self.name,
            action=launch.action,
            run=launch.run,
            attempt=launch.attempt,
            token=attempt.token,
            entry=step.step if step else "",
            hbase=self._around.hbase,
            kafka=self._around.kafka,
            python_path=self._python_path(step.python_path if step else ()),
            parameters=by.parameters,
            containers=self._dataflow.spec.containers,
            cut=self._from_start(launch.cut),
            since=self._since(launch),
            ledger=self._around.seals.table,
            ledger_proof=self._around.seals.proof((key.row,)),
            kafka_properties=self._around.kafka_properties,
            on_undecodable=self._dataflow.on_undecodable,
        )
        self._around.launcher.start(request, by, self.definition.directory)

    def _lose_attempts(self, now: float) -> None:
        """Note that attempts of the agent before this one came to nothing here."""
        for place, record in enumerate(self.records):
            if record.outcome in {RunOutcome.WAITING, RunOutcome.RUNNING}:
                lost = msgspec.structs.replace(
                    record,
                    outcome=RunOutcome.LOST,
                    ended=now,
                    reason="its agent ended before it did",
                )
                self.records[place] = lost
                self._changed_records[lost.number] = lost

    def _with_worker(self, run: str, number: int) -> Attempt | None:
        attempt = self._under_way.get(run)
        if attempt is None or attempt.launch.attempt != number:
            # A former worker's last words: that attempt was given up already.
            return None
        return attempt

    def _ended(self, attempt: Attempt, ended: StepEnded, now: float) -> None:
        self._over(ended.run)
        self._note(
            attempt,
            undecoded=ended.undecoded,
            undecodable=ended.undecodable,
            code=ended.code,
        )
        match ended.ending:
            case Ending.COMMITTED:
                self._finish(attempt, now)
            case Ending.UNCERTAIN | Ending.LOST_CLAIM if self._committed(attempt.launch):
                self._finish(attempt, now)
            case _:
                reason = ended.reason or f"the attempt ended {ended.ending.value}"
                self._fail(attempt, RunOutcome.FAILED, reason, ended.detail, now)
        self._next(now)

    def _worker_lost(self, attempt: Attempt, lost: WorkerLost, now: float) -> None:
        self._over(lost.run)
        if self._committed(attempt.launch):
            self._finish(attempt, now)
        elif attempt.cancelled:
            self._fail(attempt, RunOutcome.CANCELLED, lost.reason, lost.detail, now)
        elif attempt.stopped:
            self._fail(attempt, RunOutcome.TIMED_OUT, attempt.stopped, lost.detail, now)
        else:
            self._fail(attempt, RunOutcome.LOST, lost.reason, lost.detail, now)
        self._next(now)

    def _displaced(self, attempt: Attempt, displaced: AttemptDisplaced, now: float) -> None:
        """Make an attempt again that was lost by no fault of its own; the engine need not know."""
        launch = attempt.launch
        if attempt.cancelled or attempt.stopped or self._committed(launch):
            lost = WorkerLost(displaced.run, displaced.attempt, displaced.reason)
            self._worker_lost(attempt, lost, now)
            return
        self._over(launch.run)
        attempt.deadline = None
        reason = f"begun again, which counts as no failure: {displaced.reason}"
        self._note(attempt, outcome=RunOutcome.WAITING, started=None, reason=reason)
        log.info("begun again", dataflow=self.name, run=launch.run, reason=displaced.reason)
        fence = self._fence(attempt)
        self._ask(MayStart(launch, attempt.token), self._tables(), now, prelude=fence)
        self._next(now)

    def _committed(self, launch: Launch) -> bool:
        key = RunKey(self.name, launch.action, launch.run)
        try:
            return isinstance(self._around.ledger.state(key), Committed)
        except LedgerError:
            # Nobody can tell: the run is done again rather than not at all. No attempt could claim
            # it in this row; one before it that still works is behind the fence of the next.
            log.exception("a row of the ledger is deleted", dataflow=self.name)
            self._around.ledger.forget(key)
            return False

    def _finish(self, attempt: Attempt, now: float) -> None:
        launch = attempt.launch
        self._note(attempt, ended=now)
        self._ask(
            EndOfRun(launch.action, launch.run, launch.attempt),
            self._tables_written((launch.action,)),
            now,
        )

    def _fail(
        self, attempt: Attempt, outcome: RunOutcome, reason: str, detail: str, now: float
    ) -> None:
        launch = attempt.launch
        # Steps may raise with all their data; a row that HBase refuses would be tried for ever.
        reason, detail = shortened(reason, _REASON), shortened(detail, _DETAIL)
        self._note(attempt, outcome=outcome, ended=now, reason=reason, detail=detail)
        self._measure(attempt, outcome)
        del self._active[launch.run]
        self._handle(RunFailed(now, launch.action, launch.run, launch.attempt, reason, detail))

    def _run_finished(self, end: EndOfRun, now: float) -> None:
        attempt = self._active.pop(end.run)
        outcome = RunOutcome.SHADOW if attempt.shadow else RunOutcome.COMMITTED
        self._note(attempt, outcome=outcome)
        self._measure(attempt, outcome)
        self._runs[end.action] += 1
        ended = RunRehearsed if attempt.shadow else RunFinished
        self._handle(ended(now, end.action, end.run, end.attempt))

    def _measure(self, attempt: Attempt, outcome: RunOutcome) -> None:
        record = attempt.record
        self._around.measures.runs.labels(record.action, outcome.value, record.moment).inc()
        if record.started is not None and record.ended is not None:
            self._around.measures.run_seconds.labels(record.action).observe(
                max(0.0, record.ended - record.started)
            )

    def _note(self, attempt: Attempt, **changes: Any) -> None:
        old = attempt.record
        new = msgspec.structs.replace(old, **changes)
        attempt.record = new
        for place, record in enumerate(self.records):
            if record.number == new.number:
                self.records[place] = new
                self._changed_records[new.number] = new
                break
        self._dirty = True

    def _python_path(self, relative: Iterable[str]) -> tuple[str, ...]:
        return python_path(relative, self.definition)


def shortened(text: str, most: int) -> str:
    """Return a text, of one that is longer than ``most`` characters the beginning and the end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters) … {text[-half:]}"


def session_start(dataflow: Dataflow, definition: Definition) -> StartSession | None:
    """Return what a dataflow's Spark session is started with; None where nothing runs in one."""
    launchers = [one for one in dataflow.launchers.values() if isinstance(one, SessionLauncher)]
    if definition.shadow or not launchers:
        return None
    roots = session_roots(dataflow, definition.directory)
    return StartSession(dataflow.spark, roots, dataflow.spark_pool)


def python_path(relative: Iterable[str], definition: Definition) -> tuple[str, ...]:
    """Return directories of a dataflow file from the root: they start where the file was."""
    base = Path(definition.directory)
    return tuple(str(base / Path(part).expanduser()) for part in relative)
