"""The engine: stimuli in, instructions out (design: section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.core.explain import Explanation, explain_dataflow
from headgate.engine.core.together import Together
from headgate.engine.protocol.instructions import Instruction, NotifyAt
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ClockMoved,
    ContainerScanned,
    ObserverLost,
    PartitionReset,
    Paused,
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


class Engine(Together):
    """Decides for one dataflow when each of its actions runs.

    Args:
        spec: the dataflow.
        state: a snapshot or a checkpoint of an engine of this dataflow, maybe of another
            specification: what is unchanged since keeps its state.
        incarnation: part of run ids, so that a dataflow that was removed and submitted again never
            repeats one. Ignored where a snapshot says it.
        storage: where cells are remembered; in memory where None.
        log_number: of the next piece of its log, above those of any engine of this dataflow before.

    Raises:
        SpecificationError: the specification cannot be decided on.
        SnapshotError: the state is no snapshot that this version reads.
    """

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Take one stimulus and return what is to be done, in this order."""
        self._now = stimulus.now
        if not self._begun:
            self._begun = True
            self._pass_no_time_backwards()
            self._start_clocks()
        self._dispatch(stimulus)
        return self._told()

    def arrive(self, records: Sequence[RecordArrived]) -> tuple[int, list[Instruction]]:
        """Take records as ``handle`` would one by one, until something is to be done or all are in.

        Returns how many were taken, and what is to be done after the last of them.
        """
        taken = 0
        told: list[Instruction] = []
        while taken < len(records) and not told:
            together = 0
            if self._begun:
                self._now = records[taken].now
                together = self._take_together(records, taken)
            taken += together or 1
            told = self._told() if together else self.handle(records[taken - 1])
        return taken, told

    @property
    def run_due(self) -> float | None:
        """When an action is to be looked at next because time has passed; Unix seconds."""
        return self._timers.next

    def _told(self) -> list[Instruction]:
        due, assess = self._timers.next, self._assess_at
        if assess is not None and (due is None or assess < due):
            due = assess
        if due != self._notified:
            self._notified = due
            self._out.append(NotifyAt(due))
        out, self._out = self._out, []
        return out

    def _dispatch(self, stimulus: Stimulus) -> None:
        match stimulus:
            case RecordArrived():
                self._record(stimulus)
            case TopicsOpened():
                self._opened(stimulus)
            case PartitionReset():
                self._reset(stimulus)
            case WaveEnded():
                self._wave(stimulus)
            case RunStarted():
                self._started(stimulus)
            case RunFinished() | RunRehearsed():
                self._finished(stimulus)
            case RunFailed():
                self._failed(stimulus)
            case Tick():
                self._tick(stimulus)
            case ScanBegun():
                self._scan_begun(stimulus)
            case ContainerScanned():
                self._scanned(stimulus)
            case CellsRead():
                self._read(stimulus)
            case SpecificationChanged():
                self._specification_changed(stimulus)
            case ReconciliationDue():
                self._reconcile(stimulus)
            case ClockMoved():
                self._move_times(stimulus.by)
            case ObserverLost():
                self._observer_lost(stimulus)
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

    def explain(self, now: float) -> Explanation:
        """Return, for each action, why it last ran and what is missing for it to run again."""
        return explain_dataflow(self, now)
