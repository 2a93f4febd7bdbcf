"""The engine: stimuli in, instructions out (design: section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headgate.engine.actions.action import Action
from headgate.engine.actions.factory import policies_of
from headgate.engine.actions.graph import CellsPlace
from headgate.engine.actions.state import ANSWERED, EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.storage import Storage
from headgate.engine.checkpoint.changelog import Changelog, Checkpoint, SavedEngine, remembered
from headgate.engine.checkpoint.encoded import EncodedState
from headgate.engine.checkpoint.snapshot import read_snapshot, restore, write_snapshot
from headgate.engine.core.batch_intake import BatchIntake
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import Evaluator
from headgate.engine.core.explain import Explanation, explain_dataflow
from headgate.engine.core.intake import Intake
from headgate.engine.core.launching import Launching
from headgate.engine.core.moments import Moments
from headgate.engine.core.outcomes import Outcomes
from headgate.engine.core.requests import Requests
from headgate.engine.core.specification_changes import SpecificationChanges
from headgate.engine.core.table_answers import TableAnswers
from headgate.engine.core.table_reads import TableReads
from headgate.engine.protocol.instructions import Instruction
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ClockMoved,
    CompactionRequested,
    Consulted,
    ContainerScanned,
    ObserverLost,
    PartitionReset,
    Paused,
    RebuildRequested,
    ReconciliationDue,
    RecordArrived,
    Released,
    ResourcesSampled,
    Restarted,
    Resumed,
    RetryRequested,
    RunFailed,
    RunFinished,
    RunRehearsed,
    RunRequested,
    RunStarted,
    ScanBegun,
    SpecificationChanged,
    Stimulus,
    Tick,
    TopicsOpened,
    WaveEnded,
)
from headgate.engine.spec.dataflow import DataflowSpec
from headgate.engine.spec.reading import Reading
from headgate.engine.stages.coordination import StageFlows
from headgate.engine.stages.stage import Stage
from headgate.engine.triggers.policy import Notice, PolicyFactory
from headgate.events import Cut, DatedState
from headgate.temporal import Reflections

_NAMED = 500
"""Rows that a run hears of by name: 20 kB of what an attempt is given. The others count for their
whole table."""


class Engine:
    """Decides for one dataflow when each of its actions runs.

    Args:
        spec: the dataflow.
        state: a snapshot or a checkpoint of an engine of this dataflow, maybe of another
            specification: what is unchanged since keeps its state.
        incarnation: part of run ids, so that a dataflow that was removed and submitted again never
            repeats one. Ignored where a snapshot says it.
        storage: where cells are remembered; in memory where None.
        log_number: of the next segment of its log, above those of any engine before it.
        policies: makes the trigger policies of its actions, after each change of the dataflow too.

    Raises:
        SpecificationError: the specification cannot be decided on.
        SnapshotError: the state is no snapshot that this version reads.
    """

    def __init__(
        self,
        spec: DataflowSpec,
        state: bytes | SavedEngine | None = None,
        *,
        incarnation: str = "",
        storage: Storage | None = None,
        log_number: int = 0,
        policies: PolicyFactory = policies_of,
    ) -> None:
        self.state = EngineState(spec, incarnation=incarnation, storage=storage, policies=policies)
        self._encoded = EncodedState()
        self._read_before: Reading | None = None
        """Inputs of the actions in a restored state; None in a new engine and after the first
        stimulus."""
        self._log = self._restored(state, log_number)
        core = Core(self.state)
        self._output, self._clocks, self._policies = core.output, core.clocks, core.policies
        reads = TableReads(self.state, core.output)
        launching = Launching(core)
        self._evaluator = evaluator = Evaluator(core, launching, reads)
        moments = Moments(core, launching, evaluator)
        outcomes = Outcomes(core, launching, evaluator)
        intake = Intake(core, evaluator, reads)
        self._batches = BatchIntake(self.state, intake, evaluator)
        answers = TableAnswers(self.state, evaluator, reads)
        asked = Requests(core, launching, evaluator, outcomes, moments)
        self._changes = changes = SpecificationChanges(core, reads, evaluator, outcomes, self._log)
        self._handlers: Mapping[type[Stimulus], Callable[[Any], None]] = {
            RecordArrived: intake.record,
            TopicsOpened: changes.open_topics,
            PartitionReset: intake.partition_reset,
            WaveEnded: moments.wave_ended,
            RunStarted: outcomes.started,
            RunFinished: outcomes.finished,
            RunRehearsed: outcomes.finished,
            RunFailed: outcomes.failed,
            Tick: lambda _: moments.time_passed(),
            ScanBegun: answers.scan_begun,
            ContainerScanned: answers.scanned,
            CellsRead: answers.read,
            Consulted: evaluator.answered,
            SpecificationChanged: changes.change,
            Paused: asked.pause,
            Resumed: asked.resume,
            RunRequested: asked.run,
            RetryRequested: asked.retry,
            Released: asked.release,
            RebuildRequested: asked.rebuild,
            CompactionRequested: asked.compact,
            Restarted: asked.restart,
            ResourcesSampled: self._sampled,
            ReconciliationDue: answers.reconcile,
            ClockMoved: lambda stimulus: core.clocks.move(stimulus.by),
            ObserverLost: intake.observer_lost,
        }
        self._answers = answers
        reads.resume()

    def _restored(self, saved: bytes | SavedEngine | None, log_number: int) -> Changelog:
        """Restore the state; return the log in which its cells are."""
        if saved is None:
            return Changelog(log_number)
        if isinstance(saved, bytes):
            saved = SavedEngine(saved)
        found = read_snapshot(saved.head)
        log = Changelog(log_number)
        if found.log is not None:
            log = Changelog(log_number, saved.kept, found.log.items, found.log.small)
        restore(self.state, found, saved.segments, log)
        self._read_before = found.read
        self.state.now = self.state.saved_at
        return log

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Take one stimulus and return what is to be done, in this order."""
        if not self._clocks.begun:
            self.state.now = stimulus.now
            self._clocks.begin()
            self._policies.all_hear(Notice.BEGUN)
            if self._read_before is not None:
                self._changes.begin_anew(self._read_before)
                self._read_before = None
            self._evaluator.ask_again()
            self._answers.expire()
        elif stimulus.now != self.state.now:
            self._time_moves(stimulus.now)
        self._handlers[type(stimulus)](stimulus)
        self._evaluator.settle()
        return self._instructions()

    def arrive(self, records: Sequence[RecordArrived]) -> tuple[int, list[Instruction]]:
        """Take records as ``handle`` would one by one, until something is to be done or all are in.

        Returns how many were taken, and what is to be done after the last of them.
        """
        taken = 0
        instructions: list[Instruction] = []
        while taken < len(records) and not instructions:
            together = 0
            if self._clocks.begun:
                if records[taken].now != self.state.now:
                    self._time_moves(records[taken].now)
                together = self._batches.take(records, taken)
            taken += together or 1
            instructions = self._instructions() if together else self.handle(records[taken - 1])
        return taken, instructions

    def _time_moves(self, now: float) -> None:
        self.state.now = now
        self._answers.expire()

    def _instructions(self) -> list[Instruction]:
        notification = self._clocks.notification()
        if notification is not None:
            self._output.add(notification)
        return self._output.take()

    def _sampled(self, stimulus: ResourcesSampled) -> None:
        if self._clocks.adjust_at is not None:
            self.state.machines.take(stimulus.samples)

    # -- what is saved

    def snapshot(self) -> bytes:
        """Return the whole state; an engine made from it decides as this one would."""
        return write_snapshot(self.state)

    def checkpoint(self, whole: int) -> Checkpoint:
        """Return the state: all of it, or a head and what has changed in the log.

        Args:
            whole: cells and elements up to which it is all of it; it then takes no log.
        """
        if remembered(self.state) <= whole:
            self._log.forget()
            return Checkpoint(self._encoded.write(self.state), self._log.change())
        self._log.write(self.state)
        return Checkpoint(self._encoded.write(self.state, self._log), self._log.change())

    # -- what others ask

    @property
    def spec(self) -> DataflowSpec:
        """The dataflow."""
        return self.state.spec

    @property
    def actions(self) -> Mapping[str, Action]:
        """All actions by name, predecessors first."""
        return self.state.actions

    @property
    def stages(self) -> Mapping[str, Stage]:
        """The flows of actions that have any, by action."""
        return self.state.stages.by_action

    @property
    def cells(self) -> Mapping[CellsPlace, ContainerCells]:
        """What is known of containers, by container and table."""
        return self.state.cells

    @property
    def cut(self) -> Cut:
        """Where each topic is to be read on: everything before was taken in."""
        return self.state.cut

    @property
    def run_due(self) -> float | None:
        """When an action is to be looked at next because time has passed; Unix seconds."""
        return self._clocks.run_due

    @property
    def busy(self) -> tuple[str, ...]:
        """Actions with a run under way, or due as soon as what was asked is answered."""
        return tuple(
            name
            for name, action in self.actions.items()
            if action.run is not None
            or (action.missed is not None and self.state.obstacle(action) in (None, *ANSWERED))
        )

    def holding(self) -> Iterator[tuple[str, str]]:
        """Yield each action and bound for which writers of the bound's container wait now."""
        for name, action in self.actions.items():
            for bound in action.held_by(paused=self.state.paused):
                yield name, bound

    def take_idle_evaluations(self) -> Counter[str]:
        """Return, by action, evaluations that changed nothing, not even why, since the last call.

        A decision is recorded of every other evaluation.
        """
        return self._evaluator.take_idle_evaluations()

    def obstacle(self, name: str) -> str | None:
        """Return what keeps an action from being evaluated now; None where nothing does."""
        return self.state.obstacle(self.actions[name])

    def parked(self, name: str) -> str | None:
        """Return what a run waits for that somebody asked for; None where no such run waits."""
        return self.state.parked(self.actions[name])

    def followers(self, inputs: Iterable[str]) -> frozenset[str]:
        """Return the actions that follow inputs from which something has come, however far."""
        return self.state.actions_after(inputs)

    def needed_increments(self, made_by: str | None = None) -> frozenset[str]:
        """Return the names of all increments that a stage may still read: others may be removed.

        Those of a run that has committed, which the engine has not heard of yet, are not known.

        Args:
            made_by: the action whose increments are meant; those of all where not given.
        """
        return self.state.needed_increments(made_by)

    @property
    def reflections(self) -> Reflections:
        """Runs that the outputs reflect: those that have committed, and what these had read."""
        return self.state.reflected.value

    @property
    def begun(self) -> frozenset[str]:
        """The actions that have run, or are running, since they are in the dataflow."""
        return self.state.begun

    def dated(self) -> dict[str, DatedState]:
        """Return by table what clients have dated ahead, where something is; not many rows."""
        return {table: dated.state(_NAMED) for table, dated in self.state.dated.items() if dated}

    def rebuilt_together(self, action: str, *, with_sources: bool) -> tuple[str, ...]:
        """Return the stages that are rebuilt where one is asked to be, makers first.

        Raises:
            Unrebuildable: it is no stage, or its inputs do not come anew.
        """
        return self.state.stages.rebuilt_together(action, with_sources=with_sources)

    def explain(self, now: float) -> Explanation:
        """Return, for each action, why it last ran and what is missing for it to run again."""
        return explain_dataflow(self.state, now)

    def stage_flows(self, action: str) -> StageFlows:
        """Return what waits for a stage and who holds it, without the rest of an explanation."""
        return self.state.stages.explain(action)
