"""The engine: stimuli in, instructions out (design: section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from headgate.engine.actions import (
    Action,
    ActionInputs,
    ImpossibleTransition,
    needs_reading,
)
from headgate.engine.adjustment import Adjustment
from headgate.engine.arrivals import arrivals_of
from headgate.engine.cells import Cells, Detail
from headgate.engine.conditions import ConditionResult, leaves, missing, reasons
from headgate.engine.duplicates import Deliveries
from headgate.engine.explain import Explanation, explain_dataflow
from headgate.engine.graph import Graph
from headgate.engine.instructions import (
    Cause,
    Decision,
    DecisionKind,
    Instruction,
    Launch,
    NotifyAt,
    Quarantine,
    ReadCells,
    RecordDecision,
    ScanContainer,
)
from headgate.engine.isolation import counted_part
from headgate.engine.policy import NeedsReading, Run, WaitUntil
from headgate.engine.resources import Machines
from headgate.engine.runs import ActiveRun, PastRun, RunEvent, RunState
from headgate.engine.seeking import Said, Seeking
from headgate.engine.snapshot import read_snapshot, restore, write_snapshot
from headgate.engine.spec import DataflowSpec, check_specification
from headgate.engine.stimuli import (
    CellsRead,
    ContainerScanned,
    PartitionReset,
    Paused,
    RecordArrived,
    Released,
    ResourcesSampled,
    Restarted,
    Resumed,
    RetryRequested,
    RunFailed,
    RunFinished,
    RunRequested,
    RunStarted,
    SpecificationChanged,
    Stimulus,
    Tick,
    WaveEnded,
)
from headgate.engine.timers import Timers
from headgate.events import (
    GONE,
    ContainerId,
    Cut,
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
)


class Engine:
    """Decides for one dataflow when each of its actions runs.

    Args:
        spec: the dataflow.
        state: a snapshot of an engine of this dataflow, maybe of another specification: what is
            unchanged since keeps its state.
        incarnation: part of run ids, so that a dataflow that was removed and submitted again never
            repeats one. Ignored where a snapshot says it.

    Raises:
        SpecificationError: the specification cannot be decided on.
        SnapshotError: the state is no snapshot that this version reads.
    """

    def __init__(
        self, spec: DataflowSpec, state: bytes | None = None, *, incarnation: str = ""
    ) -> None:
        check_specification(spec)
        self.spec = spec
        self.incarnation = incarnation
        self.paused = False
        self.deliveries = Deliveries()
        self.retired: dict[str, int] = {}
        """Runs of actions that the specification had before, by name: ids of runs never repeat."""
        self.machines = Machines()
        self._assess_at: float | None = None
        """When both factors of adjustment vote again; None where no limit is an interval."""
        self._out: list[Instruction] = []
        self._notified: float | None = None
        self._now = 0.0
        self._begun = False
        self._build()
        if state is not None:
            restore(self, read_snapshot(state))
        self._start_timers()
        # Whoever was asked before is not there any more: ask again.
        for cells in self.cells.values():
            if not cells.scanned or cells.scanning is not None:
                self._ask_for_scan(cells)
            if cells.read_awaited:
                self._ask_for_read(cells)

    # The face.

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Take one stimulus and return what is to be done, in this order."""
        self._now = stimulus.now
        if not self._begun:
            self._begun = True
            self._start_clocks()
        self._dispatch(stimulus)
        times = [time for time in (self._timers.next, self._assess_at) if time is not None]
        if min(times, default=None) != self._notified:
            self._notified = min(times, default=None)
            self._out.append(NotifyAt(self._notified))
        out, self._out = self._out, []
        return out

    def _dispatch(self, stimulus: Stimulus) -> None:
        match stimulus:
            case RecordArrived():
                self._record(stimulus)
            case PartitionReset():
                self._reset(stimulus)
            case WaveEnded():
                self._wave(stimulus)
            case RunStarted():
                self._started(stimulus)
            case RunFinished():
                self._finished(stimulus)
            case RunFailed():
                self._failed(stimulus)
            case Tick():
                self._tick(stimulus)
            case ContainerScanned():
                self._scanned(stimulus)
            case CellsRead():
                self._read(stimulus)
            case SpecificationChanged():
                self._specification_changed(stimulus)
            case Paused():
                self._pause(stimulus)
            case Resumed():
                self._resume(stimulus)
            case RunRequested():
                self._requested(stimulus)
            case RetryRequested():
                self._retry_requested(stimulus)
            case Released():
                self._released(stimulus)
            case Restarted():
                self._restarted(stimulus)
            case ResourcesSampled():
                if self._assess_at is not None:
                    self.machines.take(stimulus.samples)

    def snapshot(self) -> bytes:
        """Return the whole state; an engine made from it decides as this one would."""
        return write_snapshot(self)

    def explain(self, now: float) -> Explanation:
        """Return, for each action, why it last ran and what is missing for it to run again."""
        return explain_dataflow(self, now)

    @property
    def cut(self) -> Cut:
        """Where each topic is to be read on: everything before was taken in."""
        return self.deliveries.cut

    @property
    def busy(self) -> tuple[str, ...]:
        """Actions with a run under way, or due as soon as a read or a scan is answered."""
        return tuple(
            name
            for name, action in self.actions.items()
            if action.run is not None
            or (
                (action.missed is not None or action.requested)
                and self._obstacle(action) in (None, _READING)
            )
        )

    # What belongs together.

    def _build(self) -> None:
        self.graph = Graph(self.spec)
        self.actions = self.graph.actions
        self.cells = self.graph.cells
        significance = self.spec.significance
        self._seeking = None if significance is None else Seeking(self.graph, significance)

    def _start_timers(self) -> None:
        self._timers = Timers()
        for action in self.actions.values():
            self._set_timers(action)

    def _set_timers(self, action: Action) -> None:
        times = action.times()
        if action.run is not None and action.run.retry_at is not None and not self.paused:
            times.append(action.run.retry_at)
        if action.next_evaluation is not None:
            times.append(action.next_evaluation)
        for time in times:
            self._timers.wake(action.name, time)

    # Asking.

    def _decide(
        self,
        kind: DecisionKind,
        words: str,
        action: Action | None = None,
        *,
        moment: str = "",
        result: ConditionResult | None = None,
        adjustment: Adjustment | None = None,
    ) -> None:
        run = action.run if action is not None else None
        decision = Decision(
            time=self._now,
            dataflow=self.spec.name,
            kind=kind,
            words=words,
            action=action.name if action is not None else "",
            run=run.run if run is not None else "",
            attempt=run.attempt if run is not None else 0,
            moment=moment,
            result=result,
            adjustment=adjustment,
        )
        self._out.append(RecordDecision(decision))

    def _ask_for_scan(self, cells: Cells) -> None:
        if cells.detail is Detail.COUNTS:
            return
        cells.start_scan()
        values = cells.detail is Detail.VALUES
        self._out.append(ScanContainer(cells.watched.id, cells.table, values))

    def _ask_for_read(self, cells: Cells) -> None:
        keys = cells.to_read()
        rows, columns = tuple(k[0] for k in keys), tuple(k[1] for k in keys)
        self._out.append(ReadCells(cells.watched.id, cells.table, rows, columns))

    # Records.

    def _record(self, record: RecordArrived) -> None:
        if not self.deliveries.first(record):
            return
        missed = self.deliveries.missed(record)
        if missed:
            self._lost(
                self.graph.tables_of(record.topic),
                f"{missed} messages of observer {record.message.observer!r} are missing in "
                f"{record.topic}, partition {record.partition}",
            )
        match self.deliveries.unseen(record):
            case UpdateBatch() as batch:
                self._updates(batch)
            case TableChange() as change:
                self._table_changed(change, record.partition, record.partitions)
            case Gap() as gap:
                self._lost(
                    (gap.table,),
                    f"observer {gap.observer!r} let writes to table {gap.table!r} pass for "
                    f"{gap.until - gap.since:.3g} s: {gap.reason}",
                )

    def _reset(self, stimulus: PartitionReset) -> None:
        topic, partition = stimulus.topic, stimulus.partition
        self.deliveries.reset(topic, partition)
        # Whoever reads from the last cut on must learn that something is missing.
        for action in self.actions.values():
            if action.last is not None:
                cut = action.last.cut.moved(topic, partition, GONE)
                action.last = replace(action.last, cut=cut)
            if action.run is not None:
                action.run.since = action.run.since.moved(topic, partition, GONE)
                action.run.cut = action.run.cut.moved(topic, partition, GONE)
        self._lost(
            self.graph.tables_of(topic),
            f"Kafka has deleted records of {topic}, partition {partition}, before they were read",
        )

    def _updates(self, message: UpdateBatch) -> None:
        watched = self.graph.tables.get(message.table)
        batch = counted_part(message, self.spec)
        if watched is None or batch is None:
            return
        touched: dict[ContainerId, None] = {}
        for arrivals in arrivals_of(batch, self.spec.name):
            for cells in watched:
                if cells.take(arrivals):
                    touched[cells.watched.id] = None
        self._touched(touched)

    def _touched(self, containers: Iterable[ContainerId]) -> None:
        watchers: dict[str, Action] = {}
        for container in containers:
            for feeder in self.graph.feeders.get(container, ()):
                if not feeder.has_run:
                    self._has_run(feeder)
                    self._take_up(self._followers(feeder))
            for action in self.graph.watchers.get(container, ()):
                watchers[action.name] = action
        if watchers:
            for action in self.graph.in_order(watchers):
                self._consider(action, _AT_WRITE)

    def _table_changed(self, change: TableChange, partition: int, partitions: int) -> None:
        first = partition == 0 or not partitions
        if change.kind in _DESTROYING:
            touched: dict[ContainerId, None] = {}
            removed = 0
            for cells in self.graph.tables.get(change.table, ()):
                if change.family and not cells.matcher.has_family(change.family.encode()):
                    continue
                removed += cells.change_table(change.family.encode(), partition, partitions)
                touched[cells.watched.id] = None
                if change.outcome is not Outcome.APPLIED and cells.scanning is None:
                    self._ask_for_scan(cells)
            if first or removed:
                words = f"table {change.table!r} {change.kind}: {removed} elements removed"
                self._decide(DecisionKind.TABLE_CHANGED, words)
            self._touched(touched)
        elif first:
            self._decide(DecisionKind.TABLE_CHANGED, f"table {change.table!r} {change.kind}")
            if change.kind is TableChangeKind.MODIFIED:
                # A family may be gone; the message does not say.
                for cells in self.graph.tables.get(change.table, ()):
                    if cells.scanning is None:
                        self._ask_for_scan(cells)

    def _lost(self, tables: Iterable[str], words: str) -> None:
        self._decide(DecisionKind.GAP, words)
        for table in tables:
            for cells in self.graph.tables.get(table, ()):
                if cells.scanning is None:
                    self._ask_for_scan(cells)

    def _scanned(self, stimulus: ContainerScanned) -> None:
        cells = self.cells.get((stimulus.container, stimulus.table))
        if cells is None or cells.scanning is None:
            return
        if cells.scanning.emptied:
            # The scan may have read what is gone since.
            self._ask_for_scan(cells)
            return
        found = cells.scan(stimulus.rows, stimulus.columns, stimulus.values)
        if found:
            self._touched((cells.watched.id,))
        self._take_up(action for action in self.graph.watching(cells) if action.missed is not None)

    def _read(self, stimulus: CellsRead) -> None:
        cells = self.cells.get((stimulus.container, stimulus.table))
        if cells is None or not cells.read_awaited:
            return
        cells.settle(stimulus.rows, stimulus.columns, stimulus.values)
        for action in self.graph.watching(cells):
            if action.reading and not any(c.read_awaited for c, _ in action.all_parts()):
                action.reading = False
                self._take_up((action,), read=True)

    # Moments of evaluation.

    def _obstacle(self, action: Action) -> str | None:
        if action.state is RunState.QUARANTINED:
            return "it is in quarantine"
        if action.run is not None:
            return f"run {action.run.run} is active"
        awaited = self.graph.awaited(action)
        if awaited:
            return f"{', '.join(f'`{name}`' for name in awaited)} has not run yet"
        if self.paused:
            return "the dataflow is paused"
        return _READING if action.reading else None

    def _take_up(self, actions: Iterable[Action], *, read: bool = False) -> None:
        """Evaluate what could not be evaluated before."""
        for action in actions:
            if action.requested or action.missed is not None:
                self._consider(action, action.missed or _ASKED, read=read)

    def _consider(self, action: Action, moment: str, *, read: bool = False) -> None:
        if action.is_input:
            return
        obstacle = self._obstacle(action)
        if obstacle is not None:
            if action.missed is None and moment is not _AT_WRITE:
                self._decide(DecisionKind.HELD, f"not evaluated: {obstacle}", action, moment=moment)
            action.missed = moment
            return
        action.missed = None
        if action.requested:
            self._launch(action, Cause(_ASKED, "somebody asked for it"))
            return
        verdict = action.policy.judge(ActionInputs(action, self._now, read=read), self._now)
        if isinstance(verdict, Run):
            words = f"{'; '.join(reasons(verdict.result))} ({moment})"
            self._launch(action, Cause(moment, words, verdict.result))
        elif isinstance(verdict, NeedsReading):
            action.missed = moment
            self._hold_for_reading(action, moment, verdict.result)
        else:
            if isinstance(verdict, WaitUntil):
                action.wait_until = verdict.time
                self._set_timers(action)
            self._skip(action, moment, verdict.result)

    def _hold_for_reading(self, action: Action, moment: str, result: ConditionResult) -> None:
        for cells, pending in action.all_parts():
            if needs_reading(cells, pending):
                action.reading = True
                if not cells.read_awaited:
                    self._ask_for_read(cells)
        what = "cells are read again" if action.reading else "a container is scanned first"
        self._skip(action, moment, result, kind=DecisionKind.HELD, prefix=f"{what}; ")

    def _skip(
        self,
        action: Action,
        moment: str,
        result: ConditionResult,
        *,
        kind: DecisionKind = DecisionKind.SKIPPED,
        prefix: str = "",
    ) -> None:
        if moment is _AT_WRITE:
            shown = " ".join((kind, *(leaf.bound for leaf in leaves(result) if leaf.reached)))
            if shown == action.shown:
                return
            action.shown = shown
        words = f"{prefix}needs {missing(result)}"
        self._decide(kind, words, action, moment=moment, result=result)

    def _ended(self, names: Iterable[str], moment: str) -> None:
        """Predecessors ended: evaluate their successors, each once."""
        followers: dict[str, None] = {}
        for name in names:
            for action in self.graph.successors[name]:
                action.ended.add(name)
                followers[action.name] = None
        for action in self.graph.in_order(followers):
            evaluation = action.spec.effective_evaluation
            synchronous = not action.spec.bounds and evaluation.every is None
            if evaluation.action_end or synchronous:
                self._consider(action, moment)

    def _has_run(self, action: Action) -> None:
        """The action ran for the first time: its successors' clocks may start."""
        action.has_run = True
        for follower in self.graph.successors[action.name]:
            self._start_clock(follower)

    def _followers(self, action: Action) -> list[Action]:
        """Return the successors that nothing keeps from being evaluated any more."""
        return [a for a in self.graph.successors[action.name] if self._obstacle(a) is None]

    def _start_clocks(self) -> None:
        for action in self.actions.values():
            self._start_clock(action)
        adjusted = any(action.adjusters for action in self.actions.values())
        self._assess_at = self._now + self.spec.adjustment.every if adjusted else None
        if self._seeking is not None:
            self._tell_searches(self._seeking.begin())

    def _start_clock(self, action: Action) -> None:
        if action.is_input or self.graph.awaited(action):
            return
        if action.since is None:
            action.since = self._now
        every = action.spec.effective_evaluation.every
        if every is not None and action.next_evaluation is None:
            action.next_evaluation = self._now + every
        self._set_timers(action)

    def _wave(self, stimulus: WaveEnded) -> None:
        inputs = []
        for name in stimulus.actions:
            action = self.actions.get(name)
            if action is None or not action.is_input:
                self._refuse(f"a wave of {name!r} ended, which is no input action", action)
                continue
            if not action.has_run:
                if action.spec.writes or action.spec.reads:
                    self._decide(DecisionKind.HELD, "its wave ended before anything came", action)
                    continue
                self._has_run(action)
            inputs.append(name)
        if inputs and self._seeking is not None:
            self._tell_searches(self._seeking.wave())
        if inputs:
            names = ", ".join(f"`{name}`" for name in inputs)
            self._ended(inputs, f"end of the wave of {names}")
            for name in inputs:
                self._take_up(self._followers(self.actions[name]))

    def _tick(self, _stimulus: Tick | Restarted | Resumed) -> None:
        if self._assess_at is not None and self._assess_at <= self._now:
            self._assess_at = self._now + self.spec.adjustment.every
            self._adjust()
        for action in self.graph.in_order(self._timers.due(self._now)):
            self._time_has_come(action)
            self._set_timers(action)

    def _time_has_come(self, action: Action) -> None:
        run = action.run
        if run is not None and run.retry_at is not None and run.retry_at <= self._now:
            self._retry(action, run)
        late = any(time <= self._now for time in action.times())
        every = action.spec.effective_evaluation.every
        due = action.next_evaluation
        if every is not None and due is not None and due <= self._now:
            action.next_evaluation = due + ((self._now - due) // every + 1) * every
            action.looked_at = self._now
            self._consider(action, f"every {every:g} s")
        elif late:
            action.looked_at = self._now
            self._consider(action, "time")

    # Limits that move.

    def _adjust(self) -> None:
        """Let both factors vote on every bound with an interval."""
        if self.paused:
            return
        resources = self.machines.assess(self._now, self.spec.adjustment)
        for action in self.actions.values():
            moved = []
            for adjuster in action.adjusters:
                updates = action.updates_of(adjuster.bound)
                adjustment = adjuster.assess(self._now, updates, resources)
                if adjustment is not None:
                    moved.append(adjustment)
                    words = adjustment.words
                    self._decide(DecisionKind.ADJUSTED, words, action, adjustment=adjustment)
            if moved:
                action.take_limits()
                self._set_timers(action)
                if action.spec.effective_evaluation.write:
                    # A limit may have come down to what was written long ago.
                    self._consider(action, _AT_WRITE)

    def _tell_searches(self, searches: Iterable[Said]) -> None:
        for action, words in searches:
            self._decide(DecisionKind.ADJUSTED, words, action)
            self._set_timers(action)

    # Runs.

    def _launch(self, action: Action, cause: Cause) -> None:
        action.happen(RunEvent.DECIDED)
        action.number += 1
        parts = (self.spec.name, self.incarnation, action.name, str(action.number))
        run = ActiveRun(
            run="-".join(filter(None, parts)),
            attempt=1,
            cut=self.cut,
            since=action.committed,
            cause=cause,
            launched_at=self._now,
            time_before=action.since,
            ended_before=action.ended,
        )
        action.run = run
        if self._seeking is not None and action.search is not None:
            self._seeking.launching(action, action.search)
        for cells, pending in action.all_parts():
            cells.consumed[action.name] = pending.take(cells.values)
        action.since = self._now
        action.ended = set()
        action.requested = False
        action.shown = ""
        action.wait_until = None
        self._set_timers(action)
        self._order(action, run)

    def _order(self, action: Action, run: ActiveRun) -> None:
        self._decide(
            DecisionKind.LAUNCHED if run.attempt == 1 else DecisionKind.RETRIED,
            run.cause.words,
            action,
            moment=run.cause.moment,
            result=run.cause.result,
        )
        self._out.append(
            Launch(
                action.name,
                run.run,
                run.attempt,
                run.cut,
                run.since,
                run.cause,
                action.spec.timeout,
            )
        )

    def _retry(self, action: Action, run: ActiveRun) -> None:
        if self.paused:
            return
        action.happen(RunEvent.RETRY_DUE)
        run.retry_at = None
        run.attempt += 1
        self._order(action, run)

    def _of_run(self, stimulus: RunStarted | RunFinished | RunFailed) -> Action | None:
        action = self.actions.get(stimulus.action)
        if action is None or action.run is None or action.run.run != stimulus.run:
            what = type(stimulus).__name__
            self._refuse(f"{what} of {stimulus.run!r}, which is not the active run", action)
            return None
        return action

    def _refuse(self, words: str, action: Action | None = None) -> None:
        self._decide(DecisionKind.REFUSED, words, action)

    def _started(self, stimulus: RunStarted) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None or stimulus.attempt != action.run.attempt:
            return
        self._happen(action, RunEvent.STARTED)

    def _happen(self, action: Action, event: RunEvent) -> bool:
        try:
            action.happen(event)
        except ImpossibleTransition as error:
            self._refuse(str(error), action)
            return False
        return True

    def _finished(self, stimulus: RunFinished) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        # Whichever attempt it was: one attempt commits, and this one says that it has.
        if not self._happen(action, RunEvent.FINISHED):
            return
        run = action.run
        self._decide(DecisionKind.FINISHED, f"committed by attempt {stimulus.attempt}", action)
        for cells, pending in action.all_parts():
            consumed = cells.consumed.pop(action.name, None)
            pending.committed += consumed.updates if consumed is not None else 0
        action.run = None
        action.failure = ""
        action.last = PastRun(
            run.run,
            stimulus.attempt,
            run.cut,
            run.since,
            run.cause,
            run.launched_at,
            self._now,
        )
        if self._seeking is not None and action.search is not None:
            self._tell_searches(self._seeking.finished(action, action.search))
        if not action.has_run:
            self._has_run(action)
        self._ended((action.name,), f"end of `{action.name}`")
        self._take_up(self._followers(action))
        self._take_up((action,))

    def _failed(self, stimulus: RunFailed) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        run = action.run
        if stimulus.attempt != run.attempt:
            self._refuse(f"attempt {stimulus.attempt} failed, but {run.attempt} is active", action)
            return
        if not self._happen(action, RunEvent.FAILED):
            return
        run.failures += 1
        run.failure = action.failure = stimulus.reason
        if run.failures >= action.spec.retry.attempts:
            self._give_up(action, run)
            return
        wait = action.spec.retry.backoff(run.failures)
        run.retry_at = self._now + wait
        self._timers.wake(action.name, run.retry_at)
        words = f"attempt {run.attempt} failed: {stimulus.reason}; the next one in {wait:g} s"
        self._decide(DecisionKind.FAILED, words, action)

    def _give_up(self, action: Action, run: ActiveRun) -> None:
        action.happen(RunEvent.GIVEN_UP)
        words = f"given up after {run.failures} failures, the last: {run.failure}"
        self._decide(DecisionKind.QUARANTINED, words, action)
        for cells, pending in action.all_parts():
            consumed = cells.consumed.pop(action.name, None)
            if consumed is not None:
                pending.restore(consumed, cells.values)
        action.since = run.time_before
        action.ended |= run.ended_before
        action.run = None
        if action.search is not None:
            action.search.failed()
        self._out.append(Quarantine(action.name, run.run, run.failure))

    # What people and the service want.

    def _requested(self, stimulus: RunRequested) -> None:
        action = self.actions.get(stimulus.action)
        if action is None or action.is_input:
            self._refuse(f"a run of {stimulus.action!r}, which is no step, was asked for", action)
        elif action.state is RunState.QUARANTINED:
            self._refuse("a run was asked for in quarantine: release it first", action)
        else:
            action.requested = True
            self._consider(action, _ASKED)

    def _retry_requested(self, stimulus: RetryRequested) -> None:
        action = self.actions.get(stimulus.action)
        run = action.run if action is not None else None
        if action is not None and run is not None and run.retry_at is not None:
            run.retry_at = self._now
            self._set_timers(action)
            self._retry(action, run)
        elif action is not None and action.state is RunState.QUARANTINED:
            action.requested = True
            self._released(Released(stimulus.now, stimulus.action))
        else:
            self._refuse(f"a retry of {stimulus.action!r}, of which nothing failed", action)

    def _released(self, stimulus: Released) -> None:
        action = self.actions.get(stimulus.action)
        if action is None or action.state is not RunState.QUARANTINED:
            self._refuse(f"{stimulus.action!r} is not in quarantine", action)
            return
        action.happen(RunEvent.RELEASED)
        action.failure = ""
        self._decide(DecisionKind.RELEASED, "released from quarantine", action)
        self._consider(action, "release")

    def _pause(self, _stimulus: Paused) -> None:
        if not self.paused:
            self.paused = True
            self._decide(DecisionKind.PAUSED, "nothing is launched; updates are counted")

    def _resume(self, stimulus: Resumed) -> None:
        if not self.paused:
            return
        self.paused = False
        self._decide(DecisionKind.RESUMED, "launching again")
        for action in self.actions.values():
            self._set_timers(action)
        self._tick(stimulus)
        self._take_up(self.actions.values())

    def _restarted(self, stimulus: Restarted) -> None:
        for action in self.actions.values():
            run = action.run
            if run is not None and run.retry_at is None:
                action.happen(RunEvent.LOST)
                run.retry_at = self._now
                self._timers.wake(action.name, self._now)
        self._tick(stimulus)

    def _specification_changed(self, stimulus: SpecificationChanged) -> None:
        check_specification(stimulus.spec)
        before = read_snapshot(self.snapshot())
        specs = {action.name: action.spec for action in self.actions.values()}
        self.spec = stimulus.spec
        self._build()
        restore(self, before)
        changed = [a for a in self.actions.values() if specs.get(a.name, a.spec) != a.spec]
        for action in changed:
            # Other bounds may have been reached by a time at which the former ones were looked at.
            action.looked_at = -math.inf
            action.wait_until = None
            action.shown = ""
        self._start_timers()
        self._decide(DecisionKind.SPECIFICATION_CHANGED, "another specification holds")
        for cells in self.cells.values():
            if not cells.scanned and cells.scanning is None:
                self._ask_for_scan(cells)
        self._start_clocks()
        self._take_up(self.actions.values())
        for action in changed:
            if action.spec.bounds and action.spec.effective_evaluation.write:
                self._consider(action, _CHANGED)


_AT_WRITE = "write"
_ASKED = "request"
_CHANGED = "change of the dataflow"
_READING = "its cells are being read again"

_DESTROYING = frozenset(
    {TableChangeKind.DROPPED, TableChangeKind.TRUNCATED, TableChangeKind.FAMILY_DROPPED}
)
