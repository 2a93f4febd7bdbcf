"""When actions are to be looked at, and limits adjusted, because time has passed."""

from __future__ import annotations

import math

from headgate.engine.actions.action import Action
from headgate.engine.actions.state import EngineState
from headgate.engine.actions.timers import Timers
from headgate.engine.protocol.instructions import NotifyAt


class Clocks:
    """The clocks of all actions, and of the adjustment of limits. All times are Unix seconds."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self.adjust_at: float | None = None
        """When both factors of adjustment vote again; None where no limit is an interval."""
        self.begun = False
        """Whether the first stimulus has come."""
        self._notified: float | None = None
        self.set_all()

    @property
    def run_due(self) -> float | None:
        """When an action is to be looked at next."""
        return self._timers.next

    def begin(self) -> None:
        """Start all clocks; no time has passed since the state was saved where they say less."""
        self.begun = True
        if self._state.now < self._state.saved_at:
            self.move(self._state.now - self._state.saved_at)
        self.start_all()

    def set_all(self) -> None:
        """Find anew when each action is to be looked at."""
        self._timers = Timers()
        for action in self._state.actions.values():
            self.set(action)

    def set(self, action: Action) -> None:
        """Have an action looked at when its times come."""
        times = action.times()
        if action.run is not None and action.run.retry_at is not None and not self._state.paused:
            times.append(action.run.retry_at)
        if action.next_evaluation is not None:
            times.append(action.next_evaluation)
        for time in times:
            self._timers.wake(action.name, time)

    def wake(self, action: Action, time: float) -> None:
        """Have an action looked at at a time, too."""
        self._timers.wake(action.name, time)

    def start_all(self) -> None:
        """Start the clocks of all actions that may run by now, and that of the adjustment."""
        for action in self._state.actions.values():
            self.start(action)
        adjusted = any(action.adjusters for action in self._state.actions.values())
        self.adjust_at = self._next_adjustment() if adjusted else None

    def start(self, action: Action) -> None:
        """Start the clock of an action if all of its predecessors have run."""
        if action.is_input or self._state.graph.awaited(action):
            return
        now = self._state.now
        if action.since is None:
            action.since = now
        every = action.moments.every
        if every is not None:
            # Not later than that either: it may have been a longer period until now.
            due = action.next_evaluation
            action.next_evaluation = min(now + every, math.inf if due is None else due)
        self.set(action)

    def adjustment_is_due(self) -> bool:
        """Return whether both factors vote now; the next time is set then."""
        if self.adjust_at is None or self.adjust_at > self._state.now:
            return False
        self.adjust_at = self._next_adjustment()
        return True

    def _next_adjustment(self) -> float:
        return self._state.now + self._state.spec.adjustment.every

    def due(self) -> list[Action]:
        """Return the actions whose time has come, predecessors first; each must be set again."""
        return self._state.graph.in_order(self._timers.due(self._state.now))

    def move(self, by: float) -> None:
        """Have everything happen so many seconds later, what is past included."""
        for action in self._state.actions.values():
            action.move_times(by)
        self._state.stages.move_times(by)
        self._state.machines.move_times(by)
        if self.adjust_at is not None:
            self.adjust_at += by
        self._timers.move(by)
        self._notified = None

    def notification(self) -> NotifyAt | None:
        """Return when a tick is needed next; None where that was said before."""
        due = self._timers.next
        if self.adjust_at is not None and (due is None or self.adjust_at < due):
            due = self.adjust_at
        if due == self._notified:
            return None
        self._notified = due
        return NotifyAt(due)
