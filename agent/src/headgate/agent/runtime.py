"""One dataflow: carries stimuli to its engine and instructions out, and decides nothing itself.

A runtime belongs to one thread and has no clock: ``now`` (Unix seconds) comes with every call, and
``due`` says when to call again. Everything slow is asked of a seam and comes back as a call.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol, assert_never

import msgspec
import structlog
from msgspec import Struct

from headgate.agent.barriers import Barriers
from headgate.agent.broker import Broker, Deliver, Feed, Record
from headgate.agent.errors import Refused
from headgate.agent.measures import FlowMeasures
from headgate.agent.observers import ObserverTable
from headgate.agent.seams import (
    Cells,
    Launcher,
    Ledger,
    Report,
    Scanner,
    WorkerLost,
    WorkerState,
)
from headgate.agent.store import (
    Definition,
    Ownership,
    Progress,
    RunOutcome,
    RunRecord,
    SavedState,
)
from headgate.agent.views import ActionStatus, FlowStatus, Phase, WaveStatus
from headgate.engine import (
    BoundResult,
    CellsRead,
    ConditionResult,
    ContainerScanned,
    Decision,
    DecisionKind,
    Engine,
    GroupResult,
    Instruction,
    Launch,
    NotifyAt,
    PartitionReset,
    Paused,
    Quarantine,
    ReadCells,
    RecordArrived,
    RecordDecision,
    Released,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    Resumed,
    RetryRequested,
    Role,
    RunFailed,
    RunFinished,
    RunRequested,
    RunStarted,
    ScanContainer,
    SpecificationChanged,
    Stimulus,
    Tick,
    WaveEnded,
    counted_part,
)
from headgate.events import (
    GONE,
    VERSION,
    BarrierMark,
    Container,
    ControlMessage,
    Cut,
    Fence,
    Gap,
    UpdateBatch,
    Watch,
    WatchList,
    updates_topic,
)
from headgate.flows import Dataflow, WaveEnd
from headgate.replay import PLACED, RecordedDecision
from headgate.spark import (
    Committed,
    Ending,
    RunKey,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
)

log = structlog.get_logger("headgate.agent.flow")

_COUNTER_BITS = 32
"""Of fencing tokens and revisions of watches: the epoch above, a counter within it below."""
_DECISIONS_KEPT = 100


class Store(Protocol):
    """Where this dataflow's checkpoints go; the epoch is known to it."""

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """Save in one step. Raises ``Fenced`` when another agent has taken the dataflow over."""

    def trim(self, newest: int) -> None:
        """Forget records that are too old, given the number of the newest."""


class Surroundings(Struct, frozen=True):
    """What a runtime works with."""

    store: Store
    broker: Broker
    launcher: Launcher
    ledger: Ledger
    scanner: Scanner
    observers: ObserverTable
    measures: FlowMeasures
    requester: str
    """Names this agent in barrier requests."""
    hbase: Thrift2Address
    kafka: str
    kafka_properties: dict[str, str | int | float | bool]
    ledger_table: str
    checkpoint_seconds: float
    barrier_repeat: float
    history: int
    post: Callable[[Callable[[float], None]], None]
    """Has a call made on the runtime's thread, with the time; for seams that answer later."""
    deliver: Deliver
    """Where the feed hands records to; they come back by ``Runtime.consume``."""


class _WatchesInEffect(Struct, frozen=True):
    pass


class _EndOfWave(Struct, frozen=True):
    number: int
    actions: tuple[str, ...]


class _EndOfRun(Struct, frozen=True):
    action: str
    run: str
    attempt: int


class _MayStart(Struct, frozen=True):
    launch: Launch
    token: int


class _ScanStarts(Struct, frozen=True):
    scan: ScanContainer


class _ScanEnds(Struct, frozen=True):
    scan: ScanContainer
    cells: Cells
    positions: Cut


_Purpose = _WatchesInEffect | _EndOfWave | _EndOfRun | _MayStart | _ScanStarts | _ScanEnds


class _Attempt(Struct):
    launch: Launch
    record: RunRecord
    token: int
    deadline: float | None = None
    stopped: str = ""
    shadow: bool = False


class Runtime:
    """Carries one dataflow's stimuli and instructions.

    Args:
        ownership: what the state row held when the dataflow was taken over.
        dataflow: the definition, read.
        around: the seams.
    """

    def __init__(self, ownership: Ownership, dataflow: Dataflow, around: Surroundings) -> None:
        self.definition = ownership.definition
        self.epoch = ownership.epoch
        self.name = dataflow.name
        self.phase = Phase.STARTING
        self.decisions: deque[Decision] = deque(maxlen=_DECISIONS_KEPT)
        self.records: deque[RunRecord] = deque(ownership.history, maxlen=around.history)
        self._around = around
        self._dataflow = dataflow
        state = ownership.state
        self._restored = state is not None
        self._engine = Engine(
            dataflow.spec,
            state.snapshot if state else None,
            incarnation=f"{int(ownership.definition.submitted * 1000):x}",
        )
        self._progress = state.progress if state else Progress()
        self._topics: dict[str, int] = {}
        self._feed: Feed | None = None
        self._token = 0
        self._barriers: Barriers[_Purpose] = Barriers(
            around.broker,
            around.observers,
            requester=f"{around.requester}/{dataflow.name}",
            epoch=ownership.epoch,
            repeat=around.barrier_repeat,
            passed=self._barrier_passed,
        )
        self._notify: float | None = None
        self._queue: deque[_Attempt] = deque()
        self._active: dict[str, _Attempt] = {}
        self._running: _Attempt | None = None
        self._quarantined = dict(self._progress.quarantined)
        self._outside = 0
        self._scans: dict[tuple[str, str], ScanContainer] = {}
        """The newest scan asked for, by container and table."""
        self._changed_records: dict[int, RunRecord] = {}
        self._dirty = False
        self._saved_at = 0.0
        self._wave_at: float | None = None
        self._new_input = False
        self._waiters: list[tuple[int, Callable[[WaveStatus], None]]] = []
        self._worker = WorkerState(ready=False, words="not started yet")
        self._consumed = self._progress.consumed
        self._skipped = Counter(self._progress.skipped)
        self._runs = Counter(self._progress.runs)
        self._draining = False

    # -- life ------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Publish the watch list, read on at the saved cut, and ask for the first barrier."""
        self._subscribe()
        self._save(now)
        if not self._progress.watching:
            self._tell(now, DecisionKind.SUBMITTED, "updates are counted from here on")
        if self._restored:
            if self._progress.watching:
                self.phase = self._working
            self._lose_attempts(now)
            self._handle(Restarted(now))
            for number, actions in self._progress.unsettled:
                self._end_wave(number, actions, now)
        self._ask(_WatchesInEffect(), self._tables(), now, prelude=self._watch_list())
        self._schedule_wave(now)

    def drain(self) -> None:
        """Start no further attempt; ``idle`` tells when the running one has ended."""
        self._draining = True
        self.phase = Phase.STOPPING

    @property
    def _working(self) -> Phase:
        return Phase.PAUSED if self._progress.paused else Phase.RUNNING

    @property
    def idle(self) -> bool:
        """Whether no attempt is with the worker and none that ended waits for its barrier."""
        ending = any(isinstance(p, _EndOfRun) for p in self._barriers.purposes())
        return self._running is None and not ending

    def stop(self, now: float, *, save: bool) -> None:
        """End the worker and the feed; with ``save`` the last checkpoint is taken first."""
        self._around.launcher.close()
        if self._feed is not None:
            self._feed.close()
        if save:
            self._save(now)

    def withdraw(self) -> None:
        """Publish that the dataflow watches nothing any more."""
        self._around.broker.control(WatchList(VERSION, self.name, self._watch_revision() + 1, ()))

    # -- time ------------------------------------------------------------------------------------

    def due(self) -> float:
        """Return the Unix time at which ``tick`` is next needed."""
        times = [self._saved_at + self._around.checkpoint_seconds]
        if self._notify is not None:
            times.append(self._notify)
        if self._barriers.due is not None:
            times.append(self._barriers.due)
        if self._running is not None and self._running.deadline is not None:
            times.append(self._running.deadline)
        if self._wave_at is not None:
            times.append(self._wave_at)
        return min(times)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._barriers.tick(now)
        running = self._running
        if running is not None and running.deadline is not None and now >= running.deadline:
            running.deadline = None
            running.stopped = (
                f"the step took longer than its timeout of {running.launch.timeout:g} s"
            )
            self._around.launcher.kill(running.stopped)
        if self._notify is not None and now >= self._notify:
            self._notify = None
            self._handle(Tick(now))
        if self._wave_at is not None and now >= self._wave_at:
            self._wave_due(now)
        if self._dirty and now >= self._saved_at + self._around.checkpoint_seconds:
            self._save(now)
        elif not self._dirty:
            self._saved_at = max(self._saved_at, now)

    # -- what comes in ---------------------------------------------------------------------------

    def consume(self, records: Sequence[Record], now: float) -> None:
        """Take records of the update topics, each partition in its order."""
        marked = False
        for record in records:
            if record.topic not in self._topics:
                continue  # read before the dataflow changed to one without the table
            if record.lost:
                self._begin_again(record, now)
                continue
            message = record.message
            if message is None:
                self._around.measures.malformed.inc()
                self._unread(record, now)
                continue
            if isinstance(message, BarrierMark):
                self._barriers.mark(record.topic, record.partition, message)
                marked = True
            elif isinstance(message, UpdateBatch):
                self._consumed += len(message.rows)
                self._around.measures.cells.inc(len(message.rows))
                self._around.measures.delay.observe(max(0.0, now - record.published))
                self._note_input(message, now)
            self._handle(
                RecordArrived(
                    now,
                    record.topic,
                    record.partition,
                    record.offset,
                    message,
                    self._topics[record.topic],
                )
            )
            self._dirty = True
        if marked:
            self._barriers.check(now)
        self._settle()

    def _begin_again(self, record: Record, now: float) -> None:
        """Have the engine look for what was deleted, and go on with what comes, at any offset."""
        start = self._progress.start.moved(record.topic, record.partition, GONE)
        self._progress = msgspec.structs.replace(self._progress, start=start)
        self._handle(PartitionReset(now, record.topic, record.partition))
        self._dirty = True

    def _unread(self, record: Record, now: float) -> None:
        """Have the engine look for what a record may have said that nobody can read."""
        reason = "a record could not be decoded"
        for table in self._tables():
            if updates_topic(table) == record.topic:
                gap = Gap(VERSION, "", 0, 0, table, now, now, reason)
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
                    self._note(attempt, outcome=RunOutcome.RUNNING, started=now)
                    launch = attempt.launch
                    if launch.timeout is not None:
                        attempt.deadline = now + launch.timeout
                    self._around.measures.launch_latency.observe(
                        max(0.0, now - attempt.record.launched)
                    )
                    self._handle(RunStarted(now, launch.action, launch.run, launch.attempt))
            case StepEnded():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    self._ended(attempt, report, now)
            case WorkerLost():
                attempt = self._with_worker(report.run, report.attempt)
                if attempt is not None:
                    self._worker_lost(attempt, report, now)
            case _:
                assert_never(report)
        self._settle()

    def sampled(self, samples: tuple[ResourceSample, ...], now: float) -> None:
        """Take how busy the machines are on which steps run."""
        self._handle(ResourcesSampled(now, samples))

    # -- what people ask for ---------------------------------------------------------------------

    def pause(self, now: float) -> None:
        """Launch nothing until ``resume``; counting goes on."""
        self._progress = msgspec.structs.replace(self._progress, paused=True)
        if self.phase is Phase.RUNNING:
            self.phase = self._working
        self._handle(Paused(now))
        self._settle()

    def resume(self, now: float) -> None:
        """Launch again."""
        self._progress = msgspec.structs.replace(self._progress, paused=False)
        if self.phase is Phase.PAUSED:
            self.phase = self._working
        self._handle(Resumed(now))
        self._settle()

    def run(self, action: str, now: float) -> None:
        """Run an action whatever its bounds say.

        Raises:
            Refused: there is no such action, it is fed from outside, or nothing is launched.
        """
        self._step(action)
        if self.definition.shadow:
            raise Refused(
                f"{self.name} is in shadow mode and launches nothing; `headgate flow update "
                f"{self.name} --launch` ends that"
            )
        self._handle(RunRequested(now, action))

    def retry(self, action: str | None, now: float) -> tuple[str, ...]:
        """Run at once what failed, and return which: one action, or all that wait or were given up.

        Raises:
            Refused: nothing of it failed.
        """
        if action is not None:
            self._step(action)
        states = {"retrying", "quarantined"}
        names = tuple(
            spec.name
            for spec in self._dataflow.spec.actions
            if action in (None, spec.name) and self._action_state(spec.name) in states
        )
        if not names:
            raise Refused(f"nothing failed of {action or 'any action'} of {self.name}")
        for name in names:
            self._quarantined.pop(name, None)
            self._handle(RetryRequested(now, name))
        return names

    def release(self, action: str | None, now: float) -> tuple[str, ...]:
        """Let an action, or all, out of quarantine, and return which.

        Raises:
            Refused: the action is not in quarantine.
        """
        if action is not None:
            self._step(action)
            if action not in self._quarantined:
                raise Refused(f"action {action!r} of {self.name} is not in quarantine")
        names = (action,) if action is not None else tuple(self._quarantined)
        if not names:
            raise Refused(f"no action of {self.name} is in quarantine")
        for name in names:
            del self._quarantined[name]
            self._handle(Released(now, name))
        return names

    def mark(self, actions: Sequence[str], now: float) -> int:
        """End a wave of input (of all input actions, where none is named) and return its number.

        Raises:
            Refused: a name is no input action.
        """
        inputs = self._inputs()
        for action in actions:
            if action not in inputs:
                known = ", ".join(inputs) or "none"
                raise Refused(f"{action!r} is no input action of {self.name}; it has: {known}")
        chosen = tuple(actions) or inputs
        number = self._progress.waves + 1
        self._progress = msgspec.structs.replace(
            self._progress,
            waves=number,
            unsettled=(*self._progress.unsettled, (number, chosen)),
        )
        self._new_input = False
        self._save(now)
        self._end_wave(number, chosen, now)
        return number

    def when_settled(self, wave: int, told: Callable[[WaveStatus], None]) -> None:
        """Call ``told`` when the wave is settled, which may be at once.

        Raises:
            Refused: no such wave was asked for.
        """
        if not 0 < wave <= self._progress.waves:
            raise Refused(f"{self.name} has no wave {wave}; the last one is {self._progress.waves}")
        self._waiters.append((wave, told))
        self._settle()

    def change(self, definition: Definition, dataflow: Dataflow, now: float) -> None:
        """Go on with another definition; what is unchanged keeps its state."""
        position = self._position()
        before, started = self._dataflow, session_start(self._dataflow, self.definition)
        self.definition = definition
        self._dataflow = dataflow
        start = session_start(dataflow, definition)
        if start != started:
            self._around.launcher.use(start)
        if dataflow.waves != before.waves:
            self._schedule_wave(now)
        names = {action.name for action in dataflow.spec.actions}
        self._quarantined = {n: why for n, why in self._quarantined.items() if n in names}
        if self._feed is not None:
            self._feed.close()
        self._progress = msgspec.structs.replace(self._progress, start=position)
        self._subscribe()
        self._handle(SpecificationChanged(now, dataflow.spec))
        # Asked for again, it would bring the former watch list back.
        self._barriers.drop(_WatchesInEffect)
        self._barriers.narrow(self._tables(), now)
        self._ask(_WatchesInEffect(), self._tables(), now, prelude=self._watch_list())
        self._next(now)

    def reload(self) -> None:
        """Replace the worker when it has nothing to do, so that modules are read again."""
        self._around.launcher.use(session_start(self._dataflow, self.definition))

    def wave_status(self, wave: int) -> WaveStatus:
        """Return how a wave stands now."""
        if wave <= self._progress.settled:
            return WaveStatus(wave, settled=True)
        return WaveStatus(wave, settled=False, waiting=self._unrest() or "its barrier")

    def explain(self, now: float) -> Any:
        """Return the engine's explanation."""
        return self._engine.explain(now)

    def status(self, now: float) -> FlowStatus:
        """Return how the dataflow stands."""
        last: dict[str, RunRecord] = {}
        for record in self.records:
            last.setdefault(record.action, record)
        return FlowStatus(
            name=self.name,
            phase=self.phase,
            words=self._words(now),
            revision=self.definition.revision,
            epoch=self.epoch,
            worker=self._worker,
            actions=tuple(
                ActionStatus(
                    action.name,
                    action.role.value,
                    self._action_state(action.name),
                    self._runs[action.name],
                    self._skipped[action.name],
                    last.get(action.name),
                )
                for action in self._dataflow.spec.actions
            ),
            waves=self._progress.waves,
            settled=self._progress.settled,
            lag=sum(self._feed.lag().values()) if self._feed else 0,
            consumed=self._consumed,
            shadow=self.definition.shadow,
            profile=self.definition.profile,
        )

    def measure(self, now: float) -> None:
        """Set the gauges: lag, savings, and how full bounds are."""
        measures = self._around.measures
        for (topic, partition), records in (self._feed.lag() if self._feed else {}).items():
            measures.lag.labels(topic, str(partition)).set(records)
        for action, skipped in self._skipped.items():
            measures.runs_saved.labels(action).set(skipped)
        for explained in self._engine.explain(now).actions:
            for bound in _bounds(explained.result):
                for vector in bound.vectors:
                    if vector.value is not None and vector.limit:
                        measures.bound_fill.labels(
                            explained.action, bound.bound, vector.dimension.value
                        ).set(vector.value / vector.limit)

    # -- the engine ------------------------------------------------------------------------------

    def _handle(self, stimulus: Stimulus) -> None:
        now = stimulus.now
        instructions = self._engine.handle(stimulus)
        launching = False
        # What is to be remembered of them must be in the checkpoint that comes before their effect.
        for instruction in instructions:
            match instruction:
                case Launch():
                    self._prepare(instruction, now)
                    launching = True
                case Quarantine():
                    self._quarantined[instruction.action] = instruction.reason
                case RecordDecision():
                    self._decided(instruction.decision)
                case _:
                    pass
        if launching or not isinstance(stimulus, RecordArrived | Tick | ResourcesSampled):
            self._save(now)
        for instruction in instructions:
            self._carry_out(instruction, now)

    def _carry_out(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case Launch():
                self._launch(instruction, now)
            case NotifyAt():
                self._notify = instruction.time
            case ScanContainer():
                self._scans[instruction.container, instruction.table] = instruction
                self._ask(_ScanStarts(instruction), (instruction.table,), now)
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
                self._publish(instruction.decision)
            case _:
                assert_never(instruction)

    def _tell(self, now: float, kind: DecisionKind, words: str, **details: Any) -> None:
        """Publish what nobody decided and a replay must know."""
        self._publish(Decision(now, self.name, kind, words), **details)

    def _publish(self, decision: Decision, **details: Any) -> None:
        if decision.kind in PLACED:
            details["cut"] = self._position()
        if decision.kind in {DecisionKind.SUBMITTED, DecisionKind.SPECIFICATION_CHANGED}:
            details |= {"source": self.definition.source, "profile": self.definition.profile}
        recorded = RecordedDecision(**msgspec.structs.asdict(decision), **details)
        self._around.broker.decision(self.name, msgspec.json.encode(recorded))

    def _decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._around.measures.decisions.labels(decision.kind.value, decision.action).inc()
        if decision.kind is DecisionKind.SKIPPED:
            self._skipped[decision.action] += 1

    def _read(self, read: ReadCells) -> None:
        def answer(cells: Cells) -> None:
            self._around.post(lambda now: self._cells_read(read, cells, now))

        self._outside += 1
        self._around.scanner.read(read.table, read.rows, read.columns, answer)

    # -- attempts --------------------------------------------------------------------------------

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
            since=self._from_start(launch.since),
        )
        self._progress = msgspec.structs.replace(self._progress, next_record=record.number + 1)
        oldest = self.records[-1] if len(self.records) == self.records.maxlen else None
        self.records.appendleft(record)
        self._changed_records[record.number] = record
        self._active[launch.action] = _Attempt(launch, record, 0)
        if oldest is not None and not self._is_needed(oldest):
            self._around.ledger.forget(RunKey(self.name, oldest.action, oldest.run))
        self._around.store.trim(record.number)

    def _is_needed(self, dropped: RunRecord) -> bool:
        """Tell whether the ledger may still be asked about the run of a record that was dropped."""
        active = self._active.get(dropped.action)
        if active is not None and active.launch.run == dropped.run:
            return True
        return any(r.run == dropped.run for r in self.records)

    def _launch(self, launch: Launch, now: float) -> None:
        attempt = self._active[launch.action]
        if launch.attempt > 1 and self._committed(launch):
            # The attempt before committed, and whoever should have said so was lost.
            self._finish(attempt, now)
            return
        if self.definition.shadow:
            self._shadow(attempt, now)
            return
        self._token += 1
        attempt.token = (self.epoch << _COUNTER_BITS) | self._token
        self._note(attempt, token=attempt.token)
        fence = Fence(VERSION, self.name, launch.action, attempt.token)
        if launch.attempt > 1:
            self._ask(_MayStart(launch, attempt.token), self._tables(), now, prelude=fence)
        else:
            self._around.broker.control(fence)
            self._enqueue(attempt, now)

    def _shadow(self, attempt: _Attempt, now: float) -> None:
        """Go on as if the attempt had done what it is for."""
        attempt.shadow = True
        self._note(attempt, reason="shadow mode: it was not launched", started=now)
        self._finish(attempt, now)

    def _enqueue(self, attempt: _Attempt, now: float) -> None:
        self._queue.append(attempt)
        self._next(now)

    def _next(self, now: float) -> None:
        while self._queue and self.definition.shadow:
            self._shadow(self._queue.popleft(), now)
        if self._running is not None or self._draining:
            return
        while self._queue and self._queue[0].launch.action not in self._dataflow.launchers:
            gone = self._queue.popleft()
            self._note(gone, outcome=RunOutcome.LOST, reason="the dataflow has no such action now")
            if self._active.get(gone.launch.action) is gone:
                del self._active[gone.launch.action]
        if not self._queue:
            return
        attempt = self._queue.popleft()
        launch = attempt.launch
        launcher = self._dataflow.launchers[launch.action]
        self._running = attempt
        self._around.launcher.start(
            StepRequest(
                dataflow=self.name,
                action=launch.action,
                run=launch.run,
                attempt=launch.attempt,
                token=attempt.token,
                entry=launcher.step,
                hbase=self._around.hbase,
                kafka=self._around.kafka,
                python_path=self._python_path(launcher.python_path),
                parameters=launcher.parameters,
                containers=self._dataflow.spec.containers,
                cut=self._from_start(launch.cut),
                since=self._from_start(launch.since),
                ledger=self._around.ledger_table,
                kafka_properties=self._around.kafka_properties,
            )
        )

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

    def _with_worker(self, run: str, number: int) -> _Attempt | None:
        attempt = self._running
        if attempt is None or (attempt.launch.run, attempt.launch.attempt) != (run, number):
            # A former worker's last words: that attempt was given up already.
            return None
        return attempt

    def _ended(self, attempt: _Attempt, ended: StepEnded, now: float) -> None:
        self._running = None
        match ended.ending:
            case Ending.COMMITTED:
                self._finish(attempt, now)
            case Ending.UNCERTAIN | Ending.LOST_CLAIM if self._committed(attempt.launch):
                self._finish(attempt, now)
            case _:
                reason = ended.reason or f"the attempt ended {ended.ending.value}"
                self._fail(attempt, RunOutcome.FAILED, reason, ended.detail, now)
        self._next(now)

    def _worker_lost(self, attempt: _Attempt, lost: WorkerLost, now: float) -> None:
        self._running = None
        if self._committed(attempt.launch):
            self._finish(attempt, now)
        elif attempt.stopped:
            self._fail(attempt, RunOutcome.TIMED_OUT, attempt.stopped, lost.detail, now)
        else:
            self._fail(attempt, RunOutcome.LOST, lost.reason, lost.detail, now)
        self._next(now)

    def _committed(self, launch: Launch) -> bool:
        key = RunKey(self.name, launch.action, launch.run)
        return isinstance(self._around.ledger.state(key), Committed)

    def _finish(self, attempt: _Attempt, now: float) -> None:
        launch = attempt.launch
        self._note(attempt, ended=now)
        self._ask(
            _EndOfRun(launch.action, launch.run, launch.attempt),
            self._tables_written((launch.action,)),
            now,
        )

    def _fail(
        self, attempt: _Attempt, outcome: RunOutcome, reason: str, detail: str, now: float
    ) -> None:
        launch = attempt.launch
        self._note(attempt, outcome=outcome, ended=now, reason=reason, detail=detail)
        self._measure(attempt, outcome)
        del self._active[launch.action]
        self._handle(RunFailed(now, launch.action, launch.run, launch.attempt, reason, detail))

    def _run_finished(self, end: _EndOfRun, now: float) -> None:
        attempt = self._active.pop(end.action)
        outcome = RunOutcome.SHADOW if attempt.shadow else RunOutcome.COMMITTED
        self._note(attempt, outcome=outcome)
        self._measure(attempt, outcome)
        self._runs[end.action] += 1
        self._handle(RunFinished(now, end.action, end.run, end.attempt))

    def _measure(self, attempt: _Attempt, outcome: RunOutcome) -> None:
        record = attempt.record
        self._around.measures.runs.labels(record.action, outcome.value, record.moment).inc()
        if record.started is not None and record.ended is not None:
            self._around.measures.run_seconds.labels(record.action).observe(
                max(0.0, record.ended - record.started)
            )

    def _note(self, attempt: _Attempt, **changes: Any) -> None:
        old = attempt.record
        new = msgspec.structs.replace(old, **changes)
        attempt.record = new
        self._changed_records[new.number] = new
        for place, record in enumerate(self.records):
            if record.number == new.number:
                self.records[place] = new
                break
        self._dirty = True

    # -- barriers --------------------------------------------------------------------------------

    def _ask(
        self,
        purpose: _Purpose,
        tables: Iterable[str],
        now: float,
        prelude: ControlMessage | None = None,
    ) -> None:
        """Ask for a barrier; ``prelude`` is published first, so that who marks has obeyed it."""
        topics = {table: self._topics[updates_topic(table)] for table in tables}
        self._barriers.ask(purpose, topics, now, prelude)

    def _barrier_passed(self, purpose: _Purpose, started: float, now: float) -> None:
        self._around.measures.barrier_seconds.observe(max(0.0, now - started))
        match purpose:
            case _WatchesInEffect():
                self._watching(now)
            case _EndOfWave():
                self._wave_ended(purpose, now)
            case _EndOfRun():
                self._run_finished(purpose, now)
            case _MayStart():
                self._enqueue(self._active[purpose.launch.action], now)
            case _ScanStarts():
                self._scan(purpose.scan)
            case _ScanEnds():
                self._scan_ended(purpose, now)
            case _:
                assert_never(purpose)

    def _watching(self, now: float) -> None:
        if self.phase is Phase.STARTING:
            self.phase = self._working
        self._progress = msgspec.structs.replace(self._progress, watching=True)
        self._handle(Tick(now))
        self._save(now)

    # -- waves -----------------------------------------------------------------------------------

    def _inputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self._dataflow.spec.actions if a.role is Role.INPUT)

    def _end_wave(self, number: int, actions: tuple[str, ...], now: float) -> None:
        self._ask(_EndOfWave(number, actions), self._tables_written(actions), now)

    def _wave_ended(self, end: _EndOfWave, now: float) -> None:
        left = tuple(wave for wave in self._progress.unsettled if wave[0] != end.number)
        self._progress = msgspec.structs.replace(self._progress, unsettled=left)
        inputs = self._inputs()  # the dataflow may have changed since the mark
        ended = tuple(a for a in end.actions if a in inputs)
        words = f"wave {end.number} ended"
        self._tell(now, DecisionKind.WAVE_ENDED, words, wave=end.number, inputs=ended)
        self._handle(WaveEnded(now, ended))
        self._settle()

    def _schedule_wave(self, now: float) -> None:
        waves = self._dataflow.waves
        self._wave_at = None
        if waves.end is WaveEnd.EVERY and waves.seconds is not None:
            self._wave_at = now + waves.seconds

    def _note_input(self, batch: UpdateBatch, now: float) -> None:
        waves = self._dataflow.waves
        inputs = self._inputs()
        if waves.end is WaveEnd.MARK or batch.table not in self._tables_written(inputs):
            return
        counted = counted_part(batch, self._dataflow.spec)
        origins = [r.origin for r in counted.requests] if counted is not None else []
        steps = {a.name for a in self._dataflow.spec.actions} - set(inputs)
        if all(o is not None and o.dataflow == self.name and o.action in steps for o in origins):
            return
        self._new_input = True
        if waves.end is WaveEnd.QUIET and waves.seconds is not None:
            self._wave_at = now + waves.seconds

    def _wave_due(self, now: float) -> None:
        self._schedule_wave(now)
        if self._new_input and self._inputs():
            self.mark((), now)

    def _unrest(self) -> str | None:
        """Say what is under way or due, None if nothing is."""
        busy = self._engine.busy
        if not busy:
            return None
        names = ", ".join(f"{name} ({self._action_state(name)})" for name in busy)
        return names if self._worker.ready else f"{names}; worker: {self._worker.words}"

    def _settle(self) -> None:
        progress = self._progress
        if progress.settled < progress.waves and self._unrest() is None:
            evaluated = min(
                (number for number, _ in progress.unsettled), default=progress.waves + 1
            )
            if evaluated - 1 > progress.settled:
                self._progress = msgspec.structs.replace(progress, settled=evaluated - 1)
                self._dirty = True
        waiting = []
        for wave, told in self._waiters:
            if wave <= self._progress.settled:
                told(self.wave_status(wave))
            else:
                waiting.append((wave, told))
        self._waiters = waiting

    # -- scans -----------------------------------------------------------------------------------

    def _wanted(self, scan: ScanContainer) -> Container | None:
        """Return what a scan reads; None where the dataflow has changed since it was asked for."""
        if self._scans.get((scan.container, scan.table)) is not scan:
            return None
        for watched in self._dataflow.spec.containers:
            if watched.id == scan.container and scan.table in watched.container.tables:
                return watched.container
        return None

    def _scan(self, scan: ScanContainer) -> None:
        positions = self._position()
        container = self._wanted(scan)
        if container is None:
            return

        def answer(cells: Cells) -> None:
            self._around.post(lambda now: self._scanned(scan, cells, positions, now))

        self._outside += 1
        self._around.scanner.scan(container, scan.table, values=scan.values, done=answer)

    def _scanned(self, scan: ScanContainer, cells: Cells, positions: Cut, now: float) -> None:
        # What was written while the scan ran must have been consumed before the engine compares.
        self._outside -= 1
        if self._wanted(scan) is not None:
            self._ask(_ScanEnds(scan, cells, positions), (scan.table,), now)

    def _scan_ended(self, end: _ScanEnds, now: float) -> None:
        if self._wanted(end.scan) is None:
            return
        words = f"{len(end.cells.rows)} cells of `{end.scan.container}` in {end.scan.table!r}"
        place = {"container": end.scan.container, "table": end.scan.table}
        self._tell(now, DecisionKind.SCANNED, words, cells=len(end.cells.rows), **place)
        self._handle(
            ContainerScanned(
                now,
                end.scan.container,
                end.scan.table,
                end.cells.rows,
                end.cells.columns,
                end.cells.values,
                end.positions,
            )
        )
        self._settle()

    def _cells_read(self, read: ReadCells, cells: Cells, now: float) -> None:
        self._outside -= 1
        self._handle(
            CellsRead(now, read.container, read.table, read.rows, read.columns, cells.values)
        )
        self._settle()

    # -- state -----------------------------------------------------------------------------------

    def _position(self) -> Cut:
        return self._from_start(self._engine.cut)

    def _from_start(self, position: Cut) -> Cut:
        """Raise a cut to where reading began: the engine counts partitions it has not seen as 0."""
        raised = dict(position.offsets)
        for topic, first in self._progress.start.offsets.items():
            known = raised.get(topic, first)
            raised[topic] = tuple(map(max, zip_longest(first, known, fillvalue=0)))
        return Cut(raised)

    def _subscribe(self) -> None:
        self._topics = self._around.broker.topics(self._tables())
        known = self._progress.start.offsets
        new = {topic: count for topic, count in self._topics.items() if topic not in known}
        start = Cut({**known, **self._around.broker.ends(new).offsets})
        self._progress = msgspec.structs.replace(self._progress, start=start)
        self._feed = self._around.broker.feed(self._topics, self._position(), self._around.deliver)

    def _save(self, now: float) -> None:
        snapshot = self._engine.snapshot()
        self._progress = msgspec.structs.replace(
            self._progress,
            consumed=self._consumed,
            quarantined=dict(self._quarantined),
            runs=dict(self._runs),
            skipped=dict(self._skipped),
        )
        state = SavedState(snapshot, self._position(), self._progress)
        with self._around.measures.checkpoint_seconds.time():
            self._around.store.save(state, tuple(self._changed_records.values()), now)
        self._around.measures.snapshot_bytes.set(len(snapshot))
        self._changed_records.clear()
        self._dirty = False
        self._saved_at = now

    # -- the definition --------------------------------------------------------------------------

    def _step(self, action: str) -> None:
        for spec in self._dataflow.spec.actions:
            if spec.name == action:
                if spec.role is Role.INPUT:
                    raise Refused(f"{action!r} of {self.name} is fed from outside; it never runs")
                return
        known = ", ".join(a.name for a in self._dataflow.spec.actions if a.role is Role.STEP)
        raise Refused(f"{self.name} has no action {action!r}; it has: {known}")

    def _tables(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                table
                for watched in self._dataflow.spec.containers
                for table in watched.container.tables
            )
        )

    def _tables_written(self, actions: Iterable[str]) -> tuple[str, ...]:
        """Tables the actions say they write; all of the dataflow's, if one of them says nothing."""
        spec = self._dataflow.spec
        writes = [action.writes for action in spec.actions if action.name in set(actions)]
        if not all(writes):
            return self._tables()
        named = {container for containers in writes for container in containers}
        return tuple(
            dict.fromkeys(
                table
                for watched in spec.containers
                if watched.id in named
                for table in watched.container.tables
            )
        )

    def _watch_list(self) -> WatchList:
        return WatchList(
            VERSION,
            self.name,
            self._watch_revision(),
            tuple(Watch(table) for table in self._tables()),
        )

    def _watch_revision(self) -> int:
        """Return a number that grows with every owner and with every submit to one owner.

        The dataflow's own revision begins anew when it is submitted after a removal; the epoch does
        not. So the list of the new one counts even where the end of the old one's was never heard.
        """
        return (self.epoch << _COUNTER_BITS) + self.definition.revision

    def _python_path(self, relative: Iterable[str]) -> tuple[str, ...]:
        return python_path(relative, self.definition)

    # -- words -----------------------------------------------------------------------------------

    def _action_state(self, action: str) -> str:
        attempt = self._active.get(action)
        if attempt is not None:
            return attempt.record.outcome.value
        if action in self._quarantined:
            return "quarantined"
        return "retrying" if action in self._engine.busy else "idle"

    def _words(self, now: float) -> str:
        slow = self._barriers.words(now)
        if slow:
            return slow
        if self._quarantined:
            names = ", ".join(self._quarantined)
            return (
                f"in quarantine: {names}; `headgate flow release {self.name}` lets them run again"
            )
        if self.definition.shadow:
            return "shadow mode: it decides and launches nothing"
        if self._active and not self._worker.ready:
            return f"worker: {self._worker.words}"
        if self.phase is Phase.PAUSED:
            return "paused: updates are counted, nothing runs"
        return ""


def session_start(dataflow: Dataflow, definition: Definition) -> StartSession | None:
    """Return what a dataflow's Spark session is started with; None where it launches nothing."""
    if definition.shadow:
        return None
    launchers = dataflow.launchers.values()
    paths = dict.fromkeys(p for one in launchers for p in python_path(one.python_path, definition))
    return StartSession(dataflow.spark, tuple(paths))


def python_path(relative: Iterable[str], definition: Definition) -> tuple[str, ...]:
    """Return directories of a dataflow file from the root: they start where the file was."""
    base = Path(definition.directory)
    return tuple(str(base / Path(part).expanduser()) for part in relative)


def _bounds(result: ConditionResult | None) -> Iterator[BoundResult]:
    if isinstance(result, BoundResult):
        yield result
    elif isinstance(result, GroupResult):
        for part in result.parts:
            yield from _bounds(part)
