"""What an engine holds, and how it speaks: timers, decisions, requests to scan and to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunState
from headgate.engine.cells.cells import Cells
from headgate.engine.cells.known import Detail
from headgate.engine.cells.storage import MemoryStorage, Storage
from headgate.engine.checkpoint.changelog import Changelog, Checkpoint, SavedEngine, remembered
from headgate.engine.checkpoint.encoded import EncodedState
from headgate.engine.checkpoint.snapshot import read_snapshot, restore, write_snapshot
from headgate.engine.core.graph import CellsPlace, Graph
from headgate.engine.core.timers import Timers
from headgate.engine.intake.duplicates import Deliveries
from headgate.engine.intake.rivals import Rivals
from headgate.engine.protocol.instructions import (
    Decision,
    DecisionKind,
    Instruction,
    ReadCells,
    RecordDecision,
    ScanContainer,
)
from headgate.engine.spec.conditions import ConditionResult
from headgate.engine.spec.dataflow import DataflowSpec, check_specification
from headgate.engine.triggers.significance.seeking import Seeking
from headgate.engine.tuning.adjustment import Adjustment
from headgate.engine.tuning.resources import Machines
from headgate.events import Cut

READING = "its cells are being read again"


class Foundation:
    """State of one dataflow's decisions; see ``Engine`` for the arguments."""

    def __init__(
        self,
        spec: DataflowSpec,
        state: bytes | SavedEngine | None = None,
        *,
        incarnation: str = "",
        storage: Storage | None = None,
        log_number: int = 0,
    ) -> None:
        check_specification(spec)
        self.spec = spec
        self.incarnation = incarnation
        self._storage: Storage = storage or MemoryStorage()
        self.paused = False
        self.deliveries = Deliveries()
        self.rivals: dict[str, Rivals] = {}
        """By table."""
        self.retired: dict[str, int] = {}
        """Runs of actions that the specification had before, by name: ids of runs never repeat."""
        self.machines = Machines()
        self._assess_at: float | None = None
        """When both factors of adjustment vote again; None where no limit is an interval."""
        self._rested: Counter[str] = Counter()
        """Evaluations at writes after which nothing had to run and no decision was recorded."""
        self._out: list[Instruction] = []
        self._notified: float | None = None
        self._now = 0.0
        self.saved_at = 0.0
        """When the state was saved that this engine was made from."""
        self._begun = False
        self._build({})
        self._log = Changelog(log_number)
        self._encoded = EncodedState()
        if isinstance(state, bytes):
            state = SavedEngine(state)
        if state is not None:
            found = read_snapshot(state.head)
            if found.log is not None:
                self._log = Changelog(log_number, state.kept, found.log.items, found.log.small)
            restore(self, found, state.pieces, self._log)
            self._now = self.saved_at
        self._start_timers()
        # Whoever was asked before is not there any more: ask again.
        for cells in self.cells.values():
            if not cells.scanned or cells.scanning is not None:
                self._resume_scan(cells)
            if cells.read_awaited:
                self._ask_for_read(cells)

    def snapshot(self) -> bytes:
        """Return the whole state; an engine made from it decides as this one would."""
        return write_snapshot(self)

    def checkpoint(self, whole: int) -> Checkpoint:
        """Return the state: all of it, or a head and what has changed in the log.

        Args:
            whole: cells and elements up to which it is all of it; it then takes no log.
        """
        if remembered(self) <= whole:
            self._log.forget()
            return Checkpoint(self._encoded.write(self), self._log.change())
        self._log.write(self)
        return Checkpoint(self._encoded.write(self, self._log), self._log.change())

    @property
    def cut(self) -> Cut:
        """Where each topic is to be read on: everything before was taken in."""
        return self.deliveries.cut

    @property
    def now(self) -> float:
        """The time of the last stimulus, in Unix seconds."""
        return self._now

    def holding(self) -> Iterator[tuple[str, str]]:
        """Yield each action and bound for which writers of the bound's container wait now."""
        for name, action in self.actions.items():
            for bound in action.held_by(paused=self.paused):
                yield name, bound

    @property
    def busy(self) -> tuple[str, ...]:
        """Actions with a run under way, or due as soon as a read or a scan is answered."""
        return tuple(
            name
            for name, action in self.actions.items()
            if action.run is not None
            or (action.missed is not None and self.obstacle(action) in (None, READING))
        )

    def take_rests(self) -> Counter[str]:
        """Return, by action, evaluations that changed nothing, not even why, since the last call.

        A decision is recorded of every other evaluation.
        """
        rested, self._rested = self._rested, Counter()
        return rested

    def parked(self, name: str) -> str | None:
        """Say what a run waits for that somebody asked for; None where no such run waits."""
        action = self.actions[name]
        return self.obstacle(action) if action.requested else None

    def followers(self, inputs: Iterable[str]) -> frozenset[str]:
        """Return the actions that follow inputs from which something has come, however far."""
        found: set[str] = set()
        waiting = [name for name in inputs if self.actions[name].has_run]
        while waiting:
            for action in self.graph.successors[waiting.pop()]:
                if action.name not in found:
                    found.add(action.name)
                    waiting.append(action.name)
        return frozenset(found)

    def obstacle(self, action: Action) -> str | None:
        """Say what keeps an action from being evaluated now; None where nothing does."""
        if action.state is RunState.QUARANTINED:
            return "it is in quarantine"
        if action.run is not None:
            return f"run {action.run.run} is active"
        awaited = self.graph.awaited(action)
        if awaited:
            return f"{', '.join(f'`{name}`' for name in awaited)} has not run yet"
        if self.paused:
            return "the dataflow is paused"
        return READING if action.reading else None

    def _build(self, known: Mapping[CellsPlace, Cells]) -> None:
        """Make actions and cells; those that are ``known`` go on as they are."""
        self.graph = Graph(self.spec, self._storage, known)
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

    def _refuse(self, words: str, action: Action | None = None) -> None:
        self._decide(DecisionKind.REFUSED, words, action)

    def _ask_for_scan(self, cells: Cells) -> None:
        if cells.detail is Detail.COUNTS:
            return
        cells.start_scan()
        self._ask_for_rows(cells)

    def _resume_scan(self, cells: Cells) -> None:
        """Go on with a scan whose question is not known any more, if there is one to go on with."""
        if cells.detail is not Detail.COUNTS:
            cells.resume_scan()
            self._ask_for_rows(cells)

    def _ask_for_rows(self, cells: Cells) -> None:
        values = cells.detail is Detail.VALUES
        at = b"" if cells.scanning is None else cells.scanning.at
        self._out.append(ScanContainer(cells.watched.id, cells.table, values, at))

    def _ask_for_read(self, cells: Cells) -> None:
        keys = cells.to_read()
        rows, columns = tuple(k[0] for k in keys), tuple(k[1] for k in keys)
        self._out.append(ReadCells(cells.watched.id, cells.table, rows, columns))
