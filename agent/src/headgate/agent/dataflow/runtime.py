"""One dataflow: carries stimuli to its engine and instructions out, and decides nothing itself.

A runtime belongs to one thread and has no clock: ``now`` (Unix seconds) comes with every call, and
``due`` says when to call again. Everything slow is asked of a seam and comes back as a call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import assert_never

import msgspec
import structlog

from headgate.agent.dataflow.commands import Commands
from headgate.agent.dataflow.purposes import (
    EndOfRun,
    EndOfWave,
    MayStart,
    Purpose,
    RowsMoved,
    ScanEnds,
    ScanStarts,
    WatchesGone,
    WatchesInEffect,
)
from headgate.agent.dataflow.reporting import Reporting
from headgate.agent.dataflow.views import Phase
from headgate.agent.kafka.feed import Record
from headgate.agent.ports import AttemptDisplaced, BadRecord, Report, WorkerLost, WorkerState
from headgate.agent.state.store import RunOutcome
from headgate.engine import (
    ClockMoved,
    Decision,
    DecisionKind,
    Instruction,
    Launch,
    NotifyAt,
    ObserverLost,
    PartitionReset,
    Quarantine,
    ReadCells,
    ReconciliationDue,
    RecordArrived,
    RecordDecision,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    RunFinished,
    RunRehearsed,
    RunStarted,
    ScanBegun,
    ScanContainer,
    Stimulus,
    Tick,
)
from headgate.events import (
    GONE,
    MORE_PARTITIONS,
    VERSION,
    BarrierMark,
    Gap,
    TableChange,
    UpdateBatch,
    updates_topic,
)
from headgate.spark import StepEnded, StepStarted

log = structlog.get_logger("headgate.agent.flow")

_BAD_RECORDS = 20  # kept for people to look at; the metric counts them all


class Runtime(Commands, Reporting):
    """Carries one dataflow's stimuli and instructions.

    Args:
        ownership: what the state row held when the dataflow was taken over.
        dataflow: the definition, read.
        around: the seams.
    """

    def start(self, now: float) -> None:
        """Publish the watch list, read on at the saved cut, and ask for the first barrier."""
        self._subscribe(now)
        self._outbox.send()
        if not self._progress.watching:
            self._tell(now, DecisionKind.SUBMITTED, "updates are counted from here on")
        if self._restored:
            if self._progress.watching:
                self.phase = self._working
            self._lose_attempts(now)
            self._handle(Restarted(now))
            for number, actions in self._progress.unsettled:
                self._end_wave(number, actions, now)
        self._prepare_watches()
        self._ask(WatchesInEffect(), self._tables(), now, prelude=self._watch_list())
        moved = self._progress.moved
        self._progress = msgspec.structs.replace(self._progress, moved=())
        self._move({updates_topic(table) for table in moved}, now)
        self._resume_wave(now)

    def drain(self) -> None:
        """Start no further attempt; ``idle`` tells when the one in the session has ended."""
        self._draining = True
        self._around.admission.leave(self.name)
        self.phase = Phase.STOPPING

    @property
    def idle(self) -> bool:
        """Whether no attempt is with the worker and none that ended waits for its barrier."""
        ending = any(isinstance(p, EndOfRun) for p in self._barriers.purposes())
        return not ending and not self._session_is_busy

    def stop(self, now: float, *, save: bool) -> None:
        """End the worker and the feed; with ``save`` the last checkpoint is taken first."""
        # Each part ends even where the end of another fails, the last one named first.
        with ExitStack() as parts:
            parts.callback(self._around.measures.end)
            parts.callback(self._around.storage.close)
            if save:
                parts.callback(self._save, now)
            if self._feed is not None:
                parts.callback(self._feed.close)
            for run in tuple(self._under_way):
                parts.callback(self._over, run)
            parts.callback(self._around.admission.leave, self.name)
            parts.callback(self._around.launcher.close)
            if self._withdrawn:
                parts.callback(self._around.launcher.cancel_all, "the dataflow was removed")

    def due(self) -> float:
        """Return the Unix time at which ``tick`` is next needed."""
        times = [self._saved_at + self._around.checkpoint_seconds]
        if self._notify is not None:
            times.append(self._notify)
        if self._barriers.due is not None:
            times.append(self._barriers.due)
        times += [a.deadline for a in self._under_way.values() if a.deadline is not None]
        if self._wave_at is not None:
            times.append(self._wave_at)
        if self._reconcile_at is not None:
            times.append(self._reconcile_at)
        times += self._renewals
        return min(times)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._barriers.tick(now)
        for running in tuple(self._under_way.values()):
            if running.deadline is not None and now >= running.deadline:
                launch = running.launch
                running.deadline = None
                running.stopped = f"the step took longer than its timeout of {launch.timeout:g} s"
                self._around.launcher.cancel(launch.run, launch.attempt, running.stopped)
        if self._notify is not None and now >= self._notify:
            self._notify = None
            self._handle(Tick(now))
        if self._wave_at is not None and now >= self._wave_at:
            self._wave_due(now)
        if self._reconcile_at is not None and now >= self._reconcile_at:
            self._reconcile(now)
        if now >= self._needs_at:
            self._tell_needs(now)
        if self._progress.watching:
            self._look_for_lost(now)
        if self._gates and now >= min(self._renewals):
            self._tend_gates(now)
        if self._dirty and now >= self._saved_at + self._around.checkpoint_seconds:
            self._save(now)
        elif not self._dirty:
            self._saved_at = max(self._saved_at, now)
        self._forget_old()
        self._foresee(now)

    def _foresee(self, now: float) -> None:
        """Tell the launcher when the next run may be due, as far as time alone decides."""
        dues = [due for due in (self._engine.run_due, self._wave_at) if due is not None]
        launches = self.phase is not Phase.PAUSED and not self.definition.shadow
        due = min(dues, default=None) if launches else None
        if due != self._foreseen:
            self._foreseen = due
            self._around.launcher.expect(None if due is None else max(0.0, due - now))

    def _look_for_lost(self, now: float) -> None:
        """Have the engine look for what observers had not published that are lost for good."""
        # One that was heard again may be lost another time.
        under_way = self._around.observers.under_way(now)
        kept = {
            name: tuple(epoch for epoch in epochs if (name, epoch) not in under_way)
            for name, epochs in self._progress.lost_epochs.items()
        }
        known = {name: epochs for name, epochs in kept.items() if epochs}
        lost: dict[str, tuple[int, ...]] = {}
        for name, epochs in sorted(self._around.observers.gone(now).items()):
            new = tuple(epoch for epoch in epochs if epoch not in known.get(name, ()))
            if new:
                lost[name] = new
                known[name] = (*known.get(name, ()), *new)
        if known != self._progress.lost_epochs:
            self._progress = msgspec.structs.replace(self._progress, lost_epochs=known)
            self._dirty = True
        for name, epochs in lost.items():
            log.warning("observer lost", dataflow=self.name, observer=name, epochs=epochs)
            self._handle(ObserverLost(now, name))

    def move_times(self, by: float, now: float) -> None:
        """Go on as before: the clock was set so many seconds ahead (back, where negative)."""
        log.warning("the clock was set", dataflow=self.name, seconds=round(by, 3))
        self._saved_at += by
        if self._wave_at is not None:
            self._wave_at += by
        if self._reconcile_at is not None:
            self._reconcile_at += by
        self._needs_at += by
        for attempt in self._under_way.values():
            if attempt.deadline is not None:
                attempt.deadline += by
        self._barriers.move_times(by)
        self._handle(ClockMoved(now, by))
        self._renew_gates(now)

    def consume(self, records: Sequence[Record], now: float) -> None:
        """Take records of the update topics, each partition in its order."""
        marked = False
        grown: dict[str, int] = {}
        moved: set[str] = set()
        arrived: list[RecordArrived] = []
        for record in records:
            if record.topic not in self._topics:
                continue  # read before the dataflow changed to one without the table
            if record.partitions:
                grown[record.topic] = record.partitions
                continue
            if record.lost:
                self._take(arrived, now)
                self._begin_again(record, now)
                continue
            place = (record.topic, record.partition, record.offset)
            message = record.message
            reason = record.reason if message is None else self._around.suspects.reason(place)
            if message is None or reason is not None:
                self._take(arrived, now)
                self._set_aside(record, reason or "", now)
                continue
            if isinstance(message, BarrierMark):
                self._barriers.mark(record.topic, record.partition, message)
                grown[record.topic] = max(message.partitions, grown.get(record.topic, 0))
                if message.id == MORE_PARTITIONS:
                    moved.add(record.topic)
                marked = True
            elif isinstance(message, UpdateBatch):
                self._around.measures.cells.inc(len(message.rows))
                self._around.measures.delay.observe(max(0.0, now - record.published))
            alone = self._around.suspects.alone(place)
            if alone:
                self._take(arrived, now)
            arrived.append(RecordArrived(now, *place, message, self._topics[record.topic]))
            if alone:
                self._take(arrived, now)
                self._around.suspects.cleared(place)
        self._take(arrived, now)
        self._move(moved | self._grow(grown), now)
        if marked:
            self._barriers.check(now)
        self._settle()

    def _take(self, arrived: list[RecordArrived], now: float) -> None:
        """Have the engine take records; one checkpoint comes before all that they launch."""
        if not arrived:
            return
        told: list[Instruction] = []
        launching = False
        while arrived:
            try:
                taken, instructions = self._engine.arrive(arrived)
                for record in arrived[:taken]:
                    if isinstance(record.message, UpdateBatch):
                        self._consumed += len(record.message.rows)
                        self._note_updates(record.message, now)
                    elif isinstance(record.message, TableChange):
                        self._note_change(record.message, now)
            except (OSError, MemoryError):
                raise  # a full disk is no record's fault
            except Exception as error:
                self._around.suspects.blame(arrived, error)
                raise
            del arrived[:taken]
            launching |= self._launches(instructions, now)
            told += instructions
            self._dirty = True
        if launching:
            self._save(now)
        self._carry_out(told, now)

    def _grow(self, found: Mapping[str, int]) -> set[str]:
        """Read partitions too that topics have been given, from their first record on.

        Returns the topics that have more.
        """
        more = {topic: count for topic, count in found.items() if count > self._topics[topic]}
        if more:
            log.info("topics have more partitions", dataflow=self.name, partitions=more)
            self._topics |= more
            if self._feed is not None:
                self._feed.close()
            position = self._position()
            self._feed = self._around.broker.feed(self._topics, position, self._around.deliver)
        return set(more)

    def _move(self, topics: Collection[str], now: float) -> None:
        """Have tables read again, whose rows are in other partitions than they were.

        Updates of a row may lie in two partitions, and nobody knows their order until those in the
        former one are consumed: only then can a scan outrank them.
        """
        tables = {table for table in self._tables() if updates_topic(table) in topics}
        new = tuple(sorted(tables - set(self._progress.moved)))
        if new:
            moved = (*self._progress.moved, *new)
            self._progress = msgspec.structs.replace(self._progress, moved=moved)
            self._dirty = True
            self._ask(RowsMoved(new), new, now)

    def _rows_moved(self, moved: RowsMoved, now: float) -> None:
        left = tuple(table for table in self._progress.moved if table not in moved.tables)
        self._progress = msgspec.structs.replace(self._progress, moved=left)
        self._handle(ReconciliationDue(now, moved.tables))

    def _begin_again(self, record: Record, now: float) -> None:
        """Have the engine look for what was deleted, and go on with what comes, at any offset."""
        start = self._progress.start.moved(record.topic, record.partition, GONE)
        self._progress = msgspec.structs.replace(self._progress, start=start)
        self._handle(PartitionReset(now, record.topic, record.partition))
        self._dirty = True

    def _set_aside(self, record: Record, reason: str, now: float) -> None:
        """Leave a record out, and have the engine look for what it may have said."""
        self._around.measures.records_set_aside.labels(record.topic).inc()
        bad = BadRecord(record.topic, record.partition, record.offset, reason)
        where = {"topic": bad.topic, "partition": bad.partition, "offset": bad.offset}
        log.error("record set aside", dataflow=self.name, **where, reason=reason)
        progress = self._progress
        self._progress = msgspec.structs.replace(
            progress,
            set_aside=progress.set_aside + 1,
            bad_records=(bad, *progress.bad_records)[:_BAD_RECORDS],
        )
        words = f"a record was set aside: {reason}"
        for table in self._tables():
            if updates_topic(table) == record.topic:
                gap = Gap(VERSION, "", 0, 0, table, now, now, words)
                arrived = RecordArrived(now, record.topic, record.partition, record.offset, gap)
                self._handle(arrived)
        self._dirty = True

    def report(self, report: Report, now: float) -> None:
        """Take what the launcher says."""
        match report:
            case WorkerState():
                self._worker = report
            case StepStarted():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    begun = now if attempt.begun is None else attempt.begun
                    self._note(attempt, outcome=RunOutcome.RUNNING, started=begun)
                    launch = attempt.launch
                    if launch.timeout is not None:
                        attempt.deadline = begun + launch.timeout
                    self._around.measures.launch_latency.observe(
                        max(0.0, now - attempt.record.launched)
                    )
                    which = (launch.action, launch.run, launch.attempt)
                    self._handle(RunStarted(now, *which, attempt.recovered))
            case StepEnded():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    self._ended(attempt, report, now)
            case WorkerLost():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    self._worker_lost(attempt, report, now)
            case AttemptDisplaced():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    self._displaced(attempt, report, now)
            case _:
                assert_never(report)
        self._settle()

    def sampled(self, samples: tuple[ResourceSample, ...], now: float) -> None:
        """Take how busy the machines are on which steps run."""
        self._handle(ResourcesSampled(now, samples))

    def _handle(self, stimulus: Stimulus) -> None:
        now = stimulus.now
        instructions = self._engine.handle(stimulus)
        launching = self._launches(instructions, now)
        if launching or _is_saved_at_once(stimulus):
            self._save(now)
        self._carry_out(instructions, now)

    def _launches(self, instructions: Sequence[Instruction], now: float) -> bool:
        """Take note of what is to be done; tell whether a checkpoint must come before it."""
        launching = False
        for instruction in instructions:
            match instruction:
                case Launch():
                    self._prepare(instruction, now)
                    launching = True
                case Quarantine():
                    self._quarantined[instruction.action] = instruction.reason
                case RecordDecision():
                    self._decided(instruction.decision)
                    self._record(instruction.decision)
                case _:
                    pass
        return launching

    def _carry_out(self, instructions: Sequence[Instruction], now: float) -> None:
        for instruction in instructions:
            self._do(instruction, now)
        self._tend_gates(now)

    def _do(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case Launch():
                self._launch(instruction, now)
            case NotifyAt():
                self._notify = instruction.time
            case ScanContainer():
                self._ask_for_scan(instruction, now)
            case ReadCells():
                self._read(instruction)
            case Quarantine():
                log.warning(
                    "quarantined",
                    dataflow=self.name,
                    action=instruction.action,
                    reason=instruction.reason,
                )
            case RecordDecision():
                self._outbox.send()
            case _:
                assert_never(instruction)

    def _decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._around.measures.decisions.labels(decision.kind.value, decision.action).inc()
        if decision.kind is DecisionKind.SKIPPED:
            self._skipped[decision.action] += 1
        if decision.kind is DecisionKind.GAP:
            self._note_input(decision.time)

    def _barrier_passed(self, purpose: Purpose, started: float, now: float) -> None:
        self._around.measures.barrier_seconds.observe(max(0.0, now - started))
        match purpose:
            case WatchesInEffect():
                self._watching(now)
            case WatchesGone():
                self._watches_gone(purpose)
            case EndOfWave():
                self._wave_ended(purpose, now)
            case EndOfRun():
                self._run_finished(purpose, now)
            case MayStart():
                self._enqueue(self._active[purpose.launch.run], now)
            case RowsMoved():
                self._rows_moved(purpose, now)
            case ScanStarts():
                self._scan_starts(purpose, started, now)
            case ScanEnds():
                self._scan_ended(purpose, now)
            case _:
                assert_never(purpose)

    def _watching(self, now: float) -> None:
        if self.phase is Phase.STARTING:
            self.phase = self._working
        progress = self._progress
        if not progress.watching:
            # Lost before anything was watched: nothing of it counts here.
            gone = self._around.observers.gone(now)
            progress = msgspec.structs.replace(progress, lost_epochs=gone)
        self._progress = msgspec.structs.replace(progress, watching=True)
        self._enter_mode(now)
        self._handle(Tick(now))
        self._save(now)


def _is_saved_at_once(stimulus: Stimulus) -> bool:
    """Tell whether a stimulus must not be forgotten by an agent that ends before its next save.

    Records are read again, samples come again, scans are asked for again; of an attempt that has
    begun, and of a run that has committed, its ledger tells; what is rehearsed is so again.
    """
    if isinstance(stimulus, RunStarted):
        return stimulus.recovered
    return not isinstance(stimulus, _COMES_AGAIN)


_COMES_AGAIN = RecordArrived | Tick | ResourcesSampled | ScanBegun | RunFinished | RunRehearsed
