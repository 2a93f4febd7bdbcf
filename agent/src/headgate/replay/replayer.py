"""One replay: the engine under other bounds, fed with what was recorded.

Whatever others wrote reaches the engine as it came. What the dataflow's own steps wrote is held
back until the replay has the step run: then all that its recorded runs wrote meanwhile shows at
once, as one run over all of that input would have written it. A step that ran when the recorded
one did writes what that run wrote, when it wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec
from msgspec import Struct

from headgate.engine import (
    ActionRole,
    CellsRead,
    Consult,
    Consulted,
    ContainerScanned,
    DataflowSpec,
    DecisionKind,
    Engine,
    Instruction,
    Launch,
    NotifyAt,
    Paused,
    PolicyFactory,
    Quarantine,
    ReadCells,
    RecordArrived,
    RecordDecision,
    Resumed,
    RunFinished,
    RunRequested,
    ScanContainer,
    SpecificationChanged,
    Stimulus,
    Tick,
    WaveEnded,
)
from headgate.events import (
    Cut,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    UpdateBatch,
    UpdateMessage,
    partition_of,
    updates_topic,
)
from headgate.replay.batches import imagined_increments, only, written
from headgate.replay.models import RecordedModels
from headgate.replay.outcome import OutputReplay, Replayed, ReplayedRun, StepReplay, WantedModel
from headgate.replay.outputs import OutputError, RecordedOutput
from headgate.replay.recording import NotRecorded, RecordedRun, Recording, ReplayedDecision
from headgate.replay.stream import RecordedUpdate
from headgate.replay.tables import UNKNOWN, Cell, RecordedTables, Value, Write

_TOLERANCE = 1.0
"""Seconds by which a recorded run may follow a replayed one and still be the same: the agent acts
on a time bound, or on an update, a little later than the replay does."""

_OBSERVER = ""
"""Who publishes what a replay writes: the name of no observer that was recorded."""
_WRITE = "write"


class _Active(Struct):
    launch: Launch
    recorded: RecordedRun | None
    finish_at: float | None


class RecordedState:
    """What all replays of one recording share: the recorded state at the present moment."""

    def __init__(
        self,
        recording: Recording,
        tables: RecordedTables,
        outputs: Mapping[tuple[str, str], RecordedOutput],
        partitions: Mapping[str, int],
        policies: PolicyFactory,
        models: RecordedModels,
    ) -> None:
        self.recording = recording
        self.policies = policies
        self.models = models
        self.tables = tables
        self.outputs = outputs
        """By action and container."""
        self.partitions = partitions
        self.positions: dict[str, list[int]] = {
            topic: [recording.start.position(topic, p) for p in range(count)]
            for topic, count in partitions.items()
        }
        self.moment = 0
        """Position of the first decision that is still to come."""
        self.rewriting: set[str] = set()
        """Actions that write cells again which they do not change."""

    def is_over(self, run: RecordedRun) -> bool:
        """Return whether a recorded run has ended by now."""
        return run.ended is not None and run.ended < self.moment

    def stands_at(self, cut: Cut) -> bool:
        """Return whether exactly what lies in the cut was taken in, of the topics it names."""
        return all(
            max(position, self.recording.start.position(topic, p)) == self.positions[topic][p]
            for topic, positions in cut.offsets.items()
            if topic in self.positions
            for p, position in enumerate(positions)
        )


class Replayer:
    """A dataflow under other bounds.

    Args:
        label: what people call these bounds.
        spec: the dataflow with them.
        past: the recorded state, which whoever feeds this keeps.
        changes: specifications by the position of the decision from which on each holds; to follow
            what was submitted meanwhile. Empty: ``spec`` holds throughout.
    """

    def __init__(
        self,
        label: str,
        spec: DataflowSpec,
        past: RecordedState,
        changes: Mapping[int, DataflowSpec],
    ) -> None:
        self.label = label
        self.spec = spec
        self._past = past
        self._changes = changes
        self._engine = Engine(spec, policies=past.policies)
        self._now = past.recording.decisions[0].time
        self._notify: float | None = None
        self._active: dict[str, _Active] = {}
        self._withheld: dict[str, dict[Cell, Value]] = {}
        """By action: what is shown of the cells that were written in the record and not here."""
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._sequences: Counter[tuple[str, int]] = Counter()
        self._intents = 0
        self._wave = 0
        """Waves that have ended, for the report."""
        self._number = 0
        """The last wave's own number."""
        self._runs: dict[str, list[ReplayedRun]] = {
            action.name: [] for action in spec.actions if action.role is ActionRole.STEP
        }
        self._errors: dict[tuple[str, str], list[OutputError]] = {
            place: [] for place in past.outputs
        }
        self._wanted: list[WantedModel] = []
        self._taken: dict[str, str] = {}
        """By action, the recorded run of which its last one is; empty where it is of none."""

    # -- what was recorded -------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the engine, on tables as they are now."""
        self._handle(Tick(self._now))

    def take(self, update: RecordedUpdate, message: UpdateMessage, writes: Sequence[Write]) -> None:
        """Take a recorded update that was not seen before, with what it did to the tables."""
        match message:
            case UpdateBatch():
                self._take_batch(message, update.partition, writes)
            case TableChange():
                for _, cell, _, _ in writes:
                    self._show(cell)
                place = (message.table, update.partition)
                self._sequences[place] += 1
                self._intents += 1
                change = msgspec.structs.replace(
                    message,
                    observer=_OBSERVER,
                    epoch=1,
                    sequence=self._sequences[place],
                    intent=self._intents,
                )
                self._deliver(change, message.table, update.partition)
            case _:
                pass

    def _take_batch(self, batch: UpdateBatch, partition: int, writes: Sequence[Write]) -> None:
        kept = [not self._is_held(request) for request in batch.requests]
        if all(kept):
            if self._withheld:
                for _, cell, _, _ in writes:
                    self._show(cell)
            self._deliver(batch, batch.table, partition)
            return
        for number, cell, before, _ in writes:
            if kept[number]:
                self._show(cell)
                continue
            origin = batch.requests[number].origin
            action = origin.action if origin is not None else ""
            self._withheld.setdefault(action, {}).setdefault(cell, before)
        if any(kept):
            self._deliver(only(batch, kept), batch.table, partition)

    def _is_held(self, request: RequestPart) -> bool:
        """Return whether a step of the dataflow wrote this in a run that the replay has not."""
        origin = request.origin
        if origin is None or origin.dataflow != self.spec.name or origin.action not in self._runs:
            return False
        active = self._active.get(origin.action)
        if active is None or active.recorded is None or active.recorded.run != origin.run:
            return True
        # One run over all that was skipped writes a cell once, and not at all if it is as before.
        return bool(self._withheld.get(origin.action))

    def _show(self, cell: Cell) -> None:
        for held in self._withheld.values():
            held.pop(cell, None)

    def reach(self, place: int, decision: ReplayedDecision) -> None:
        """Take a decision, whose position among all is ``place``."""
        match decision.kind:
            case DecisionKind.WAVE_ENDED:
                if self._past.recording.at_rest(place):
                    self.settle()
                if self._wave:
                    self.measure()
                self._wave += 1
                self._number = decision.wave or self._number + 1
                time = decision.time if decision.wave_time is None else decision.wave_time
                self._handle(WaveEnded(self._now, decision.inputs, self._number, time))
            case DecisionKind.LAUNCHED:
                active = self._active.get(decision.action)
                recorded = active.recorded if active is not None else None
                if recorded is not None and recorded.run != decision.run:
                    self._finish(decision.action)  # its end was not recorded, and has been
                if decision.moment == "request" and decision.action in self._runs:
                    self._handle(RunRequested(self._now, decision.action))
            case DecisionKind.FINISHED | DecisionKind.QUARANTINED:
                self._finish_recorded(decision)
                if not self._past.recording.waves:
                    self.measure()
            case DecisionKind.PAUSED:
                self._handle(Paused(self._now))
            case DecisionKind.RESUMED:
                self._handle(Resumed(self._now))
            case DecisionKind.SPECIFICATION_CHANGED if place in self._changes:
                self.spec = self._changes[place]
                self._handle(SpecificationChanged(self._now, self.spec))
            case DecisionKind.ADOPTED:
                for heard in self._past.models.given(self._now, place, decision, self.spec):
                    self._handle(heard)
            case DecisionKind.RESTARTED if self.spec.triggered(self._past.models.kind):
                # Without its models, which it asks for again: those come when the agent had them.
                snapshot, policies = self._engine.snapshot(), self._past.policies
                self._engine = Engine(self.spec, snapshot, policies=policies)
                self._handle(Tick(self._now))
            case _:
                pass

    def _finish_recorded(self, decision: ReplayedDecision) -> None:
        active = self._active.get(decision.action)
        if (
            active is not None
            and active.recorded is not None
            and active.recorded.run == decision.run
        ):
            self._finish(decision.action)

    def settle(self) -> None:
        """End all runs, and those that their ends bring about."""
        while self._active:
            self._finish(next(iter(self._active)))

    def measure(self) -> None:
        """Note how far each output stands from the recorded one."""
        nothing: dict[Cell, Value] = {}
        for (action, container), output in self._past.outputs.items():
            shown = self._withheld.get(action, nothing)
            self._errors[action, container].append(output.error(shown, self._past.tables))

    def outcome(self) -> Replayed:
        """Return what the replay found."""
        recorded = self._past.recording.runs
        return Replayed(
            label=self.label,
            waves=self._wave,
            steps=tuple(
                StepReplay(
                    action=action,
                    recorded=len(recorded.get(action, ())),
                    runs=tuple(runs),
                    outputs=tuple(
                        OutputReplay(container, tuple(errors))
                        for (writer, container), errors in self._errors.items()
                        if writer == action
                    ),
                )
                for action, runs in self._runs.items()
            ),
            wanted=tuple(self._wanted),
        )

    # -- time --------------------------------------------------------------------------------------

    def pass_time(self, until: float) -> None:
        """Let everything happen that is due by a time; what comes then may come."""
        while True:
            ends = [
                (active.finish_at, action)
                for action, active in self._active.items()
                if active.finish_at is not None
            ]
            end = min(ends, default=None)
            tick = self._notify
            if end is not None and end[0] <= until and (tick is None or end[0] <= tick):
                self._now = max(self._now, end[0])
                self._finish(end[1])
            elif tick is not None and tick <= until:
                self._now = max(self._now, tick)
                self._notify = None
                self._handle(Tick(self._now))
            else:
                break
        self._now = max(self._now, until)

    # -- the engine --------------------------------------------------------------------------------

    def _handle(self, stimulus: Stimulus) -> None:
        for instruction in self._engine.handle(stimulus):
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Launch():
                self._launch(instruction)
            case NotifyAt():
                self._notify = instruction.time
            case ScanContainer():
                self._scan(instruction)
            case Consult(_, kind, question) if kind == self._past.models.kind:
                self._note_wanted(question)
            case Consult(action, kind):
                reason = "a replay asks nobody"
                self._handle(Consulted(self._now, action, kind, None, reason))
            case ReadCells():
                self._read(instruction)
            case Quarantine() | RecordDecision():
                pass
            case _:
                assert_never(instruction)

    def _note_wanted(self, question: bytes) -> None:
        """Note a training that is asked for; what is answered, and when, is in the record."""
        outputs = self._past.models.trained(question)
        self._wanted += (WantedModel(output, self._wave) for output in outputs)

    def _deliver(self, message: UpdateMessage, table: str, partition: int) -> None:
        topic = updates_topic(table)
        offset = self._offsets[topic, partition]
        self._offsets[topic, partition] += 1
        if isinstance(message, UpdateBatch) and not message.recovered:
            # What is held back would look like lost messages.
            message = msgspec.structs.replace(message, recovered=True)
        partitions = self._past.partitions[topic]
        self._handle(RecordArrived(self._now, topic, partition, offset, message, partitions))

    def _launch(self, launch: Launch) -> None:
        found = self._counterpart(launch)
        run = self._taken[launch.action] = found.run if found is not None else ""
        recorded = found if found is not None and not self._past.is_over(found) else None
        finish = None
        if recorded is None:
            finish = self._now + self._past.recording.typical_seconds(launch.action)
        self._active[launch.action] = _Active(launch, recorded, finish)
        self._runs[launch.action].append(
            ReplayedRun(self._wave, self._now, launch.cause.words, run)
        )
        if recorded is None:
            self._publish_held(launch)

    def _counterpart(self, launch: Launch) -> RecordedRun | None:
        """Return the recorded run that was launched for the same reason, if there is one."""
        past = self._past
        earlier = self._earlier_in_wave(launch)
        if earlier is not None and not past.is_over(earlier):
            return earlier
        following = past.recording.next_run(launch.action, past.moment)
        if following is None:
            return earlier
        if self._engine.actions[launch.action].policy.kind == past.models.kind:
            return following if following.wave == self._wave else earlier  # waves alone decide
        if past.stands_at(following.cut) or 0 <= following.time - self._now <= _TOLERANCE:
            return following
        wave = past.recording.next_wave(past.moment)
        same_wave = past.recording.waves and (wave is None or following.launched < wave)
        return following if same_wave and launch.cause.moment != _WRITE else earlier

    def _earlier_in_wave(self, launch: Launch) -> RecordedRun | None:
        """Return the last recorded run in this wave, if it began sooner than the replay has it.

        One that waits here for others was launched beside them where the wave itself was enough.
        """
        earlier = self._past.recording.last_run(launch.action, self._past.moment)
        if earlier is None or launch.cause.moment == _WRITE or not self._wave:
            return None
        taken = self._taken.get(launch.action) == earlier.run
        return None if taken or earlier.wave != self._wave else earlier

    def _finish(self, action: str) -> None:
        active = self._active.pop(action)
        if active.recorded is not None:
            self._publish_held(active.launch)
        launch = active.launch
        stage = self._engine.actions[action].spec.stage
        made = () if stage is None else imagined_increments(stage, launch.run)
        self._handle(RunFinished(self._now, action, launch.run, launch.attempt, "", made))

    def _publish_held(self, launch: Launch) -> None:
        """Write what the action's recorded runs have written since the last replayed one."""
        held = self._withheld.pop(launch.action, {})
        parts: dict[tuple[str, int], list[tuple[Cell, Value]]] = {}
        value_of = self._past.tables.value
        all_of_it = launch.action in self._past.rewriting
        for cell, before in sorted(held.items(), key=lambda pair: pair[0]):
            value = value_of(cell)
            if all_of_it or value != before:
                table, row, _ = cell
                partition = partition_of(row, self._past.partitions[updates_topic(table)])
                parts.setdefault((table, partition), []).append((cell, value))
        for (table, partition), cells in parts.items():
            self._intents += 1
            origin = Origin(self.spec.name, launch.action, launch.run, 0)
            request = RequestPart(
                self._intents, "mutateRows", Outcome.APPLIED, self._now, len(cells), origin=origin
            )
            self._deliver(written(table, request, _OBSERVER, cells), table, partition)

    # -- tables ------------------------------------------------------------------------------------

    def _shown(self, cell: Cell) -> Value:
        for held in self._withheld.values():
            if cell in held:
                return held[cell]
        return self._past.tables.value(cell)

    def _scan(self, scan: ScanContainer) -> None:
        watched = next(w for w in self.spec.containers if w.id == scan.container)
        cells: dict[Cell, Value] = dict(self._past.tables.cells(watched.container, scan.table))
        for held in self._withheld.values():
            cells.update({cell: shown for cell, shown in held.items() if cell in cells})
        # An engine that was saved in the middle of a first scan asks for the rest.
        present = [
            (cell, value)
            for cell, value in cells.items()
            if value is not None and cell[1] >= scan.start
        ]
        if scan.values and any(value is UNKNOWN for _, value in present):
            raise _no_values(scan.container, scan.table)
        self._handle(
            ContainerScanned(
                self._now,
                scan.container,
                scan.table,
                [cell[1] for cell, _ in present],
                [cell[2] for cell, _ in present],
                [value for _, value in present] if scan.values else (),
                start=scan.start,
            )
        )

    def _read(self, read: ReadCells) -> None:
        places = zip(read.rows, read.columns, strict=True)
        values = [self._shown((read.table, row, column)) for row, column in places]
        if any(value is UNKNOWN for value in values):
            raise _no_values(read.container, read.table)
        self._handle(
            CellsRead(self._now, read.container, read.table, read.rows, read.columns, values)
        )


def _no_values(container: str, table: str) -> NotRecorded:
    return NotRecorded(
        f"events of table {table!r} leave out values that a bound on container {container!r} "
        "needs (increments and appends whose result the server did not return, for one); give it a "
        "sequence bound, or write with puts through an observer that publishes values"
    )
