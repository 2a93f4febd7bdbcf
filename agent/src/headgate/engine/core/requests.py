"""What people and the service want: runs, retries, pauses, another specification."""

from __future__ import annotations

import math
from collections.abc import Iterable

from headgate.engine.actions.runs import RunEvent, RunState
from headgate.engine.checkpoint.snapshot import restore, state_of
from headgate.engine.core.evaluation import ASKED
from headgate.engine.core.graph import unchanged_cells
from headgate.engine.core.outcomes import Outcomes
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import (
    Paused,
    Released,
    Restarted,
    Resumed,
    RetryRequested,
    RunRequested,
    SpecificationChanged,
    TopicsOpened,
)
from headgate.engine.spec.dataflow import DataflowSpec, check_specification
from headgate.events import updates_topic

_CHANGED = "change of the dataflow"


def _topics(tables: Iterable[str]) -> set[str]:
    """Return the topics of tables."""
    return {updates_topic(table) for table in tables}


_LOSSES = 3
"""Attempts in a row that may be lost with their agent before each counts as a failure: agents end
for reasons of their own, but a step that ends its agent must not do so for ever."""


class Requests(Outcomes):
    """Does what was asked for from outside."""

    def _opened(self, stimulus: TopicsOpened) -> None:
        self.deliveries.open(stimulus.positions)
        for action in self.actions.values():
            action.meet(self.cut, self._now)

    def _read_other_topics(self, former: DataflowSpec) -> None:
        """Begin anew with topics that nobody read meanwhile, and with those new to an action."""
        gone = _topics(former.tables()) - _topics(self.spec.tables())
        self.deliveries.close(gone)
        for table in former.tables():
            if updates_topic(table) in gone:
                self.rivals.pop(table, None)
        before = {action.name: _topics(former.tables(action)) for action in former.actions}
        for action in self.actions.values():
            now = _topics(self.spec.tables(action.spec))
            action.forget(gone | now - before.get(action.name, now))
            action.meet(self.cut, self._now)

    def _requested(self, stimulus: RunRequested) -> None:
        action = self.actions.get(stimulus.action)
        if action is None or action.is_input:
            self._refuse(f"a run of {stimulus.action!r}, which is no step, was asked for", action)
        elif action.state is RunState.QUARANTINED:
            self._refuse("a run was asked for in quarantine: release it first", action)
        else:
            action.requested = True
            self._consider(action, ASKED)

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
                run.losses += 1
                if run.losses > _LOSSES:
                    reason = f"its agent ended under it, {run.losses} times in a row"
                    self._try_again(action, run, reason)
                    continue
                run.retry_at = self._now
                self._timers.wake(action.name, self._now)
        self._tick(stimulus)

    def _pass_no_time_backwards(self) -> None:
        """Have no time passed since the state was saved, where the clock says less than none."""
        if self._now < self.saved_at:
            self._move_times(self._now - self.saved_at)

    def _move_times(self, by: float) -> None:
        for action in self.actions.values():
            action.move_times(by)
        self.machines.move_times(by)
        if self._assess_at is not None:
            self._assess_at += by
        self._start_timers()
        self._notified = None

    def _specification_changed(self, stimulus: SpecificationChanged) -> None:
        check_specification(stimulus.spec)
        kept = unchanged_cells(self.cells, stimulus.spec)
        others = [cells for place, cells in self.cells.items() if place not in kept]
        before = state_of(self, others)
        specs = {action.name: action.spec for action in self.actions.values()}
        former, self.spec = self.spec, stimulus.spec
        self._build(kept)
        restore(self, before)
        self._log.forget_cells(others)
        for cells in others:
            cells.close()
        self._read_other_topics(former)
        changed = [a for a in self.actions.values() if specs.get(a.name, a.spec) != a.spec]
        for action in changed:
            # Other bounds may have been reached by a time at which the former ones were looked at.
            action.looked_at = -math.inf
            action.wait_until = None
            action.shown = ""
            action.found = ()
        self._start_timers()
        self._decide(DecisionKind.SPECIFICATION_CHANGED, "another specification holds")
        for cells in self.cells.values():
            if not cells.scanned and cells.scanning is None:  # else it was asked for before
                self._ask_for_scan(cells)
        self._start_clocks()
        self._take_up(self.actions.values())
        for action in changed:
            if action.spec.bounds and action.spec.effective_evaluation.write:
                self._consider(action, _CHANGED)
