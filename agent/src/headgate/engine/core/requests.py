"""What people and the service ask for: runs, retries, releases, pauses, and to go on."""

from __future__ import annotations

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunEvent, RunState
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import ASKED, MAINTENANCE, Evaluator
from headgate.engine.core.launching import Launching
from headgate.engine.core.moments import Moments
from headgate.engine.core.outcomes import Outcomes
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import (
    CompactionRequested,
    Paused,
    RebuildRequested,
    Released,
    Restarted,
    Resumed,
    RetryRequested,
    RunRequested,
)
from headgate.engine.stages.rebuilding import Unrebuildable

_LOSSES = 3
"""Attempts in a row that may be lost with their agent before each counts as a failure: agents end
for reasons of their own, but a step that ends its agent must not do so for ever."""


class Requests:
    """Does what was asked for from outside."""

    def __init__(
        self,
        core: Core,
        launching: Launching,
        evaluator: Evaluator,
        outcomes: Outcomes,
        moments: Moments,
    ) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._launching = launching
        self._evaluator = evaluator
        self._outcomes = outcomes
        self._moments = moments

    def run(self, stimulus: RunRequested) -> None:
        """Launch an action, or remember that it was asked for."""
        action = self._state.actions.get(stimulus.action)
        if action is None or action.is_input:
            words = f"a run of {stimulus.action!r}, which is no step, was asked for"
            self._output.refuse(words, action)
        elif action.state is RunState.QUARANTINED:
            self._output.refuse("a run was asked for in quarantine: release it first", action)
        else:
            action.requested = True
            self._evaluator.consider(action, ASKED)

    def retry(self, stimulus: RetryRequested) -> None:
        """Make the next attempt of a run at once, or run what was given up."""
        action = self._state.actions.get(stimulus.action)
        run = action.run if action is not None else None
        if action is not None and run is not None and run.retry_at is not None:
            run.retry_at = self._state.now
            self._clocks.set(action)
            self._launching.retry(action, run)
        elif action is not None and action.state is RunState.QUARANTINED:
            action.requested = True
            self.release(Released(stimulus.now, stimulus.action))
        elif action is not None and self._state.stages.failure(action.name):
            self._state.stages.forget_answer(action.name)
            self._evaluator.consider(action, "retry")
        else:
            words = f"a retry of {stimulus.action!r}, of which nothing failed"
            self._output.refuse(words, action)

    def release(self, stimulus: Released) -> None:
        """Let an action out of quarantine."""
        action = self._state.actions.get(stimulus.action)
        if action is None or action.state is not RunState.QUARANTINED:
            self._output.refuse(f"{stimulus.action!r} is not in quarantine", action)
            return
        action.happen(RunEvent.RELEASED)
        action.failure = ""
        self._output.decide(DecisionKind.RELEASED, "released from quarantine", action)
        self._evaluator.consider(action, "release")

    def rebuild(self, stimulus: RebuildRequested) -> None:
        """Have a stage, and all that are rebuilt with it, begin with nothing in their next run.

        A run under way ends first; one that waits for its next attempt is not tried again.
        """
        action = self._state.actions.get(stimulus.action)
        try:
            names = self._state.stages.rebuilt_together(
                stimulus.action, with_sources=stimulus.with_sources
            )
        except Unrebuildable as error:
            self._output.refuse(f"it cannot be rebuilt: {error}", action)
            return
        self._outcomes.rebuild(names)

    def compact(self, stimulus: CompactionRequested) -> None:
        """Have a run of its own merge the files of a stage's state."""
        action = self._state.actions.get(stimulus.action)
        problem = self._ask_for_maintenance(action, stimulus)
        if action is not None and not problem:
            self._evaluator.consider(action, MAINTENANCE)
        elif stimulus.wholly:
            self._output.refuse(problem, action)

    def _ask_for_maintenance(self, action: Action | None, stimulus: CompactionRequested) -> str:
        """Have the next run maintain the state; return why it cannot, or nothing."""
        stages = self._state.stages
        if action is None or action.name not in stages.by_action:
            return f"{stimulus.action!r} is no stage and has no state"
        if action.last is None or not action.last.result:
            return "it has no state yet"
        if action.state is RunState.QUARANTINED:
            return "it is in quarantine: release it, or have it rebuilt"
        return stages.ask_for_maintenance(action.name, wholly=stimulus.wholly)

    def pause(self, _stimulus: Paused) -> None:
        """Launch nothing from here on."""
        if not self._state.paused:
            self._state.paused = True
            words = "nothing is launched; updates are counted"
            self._output.decide(DecisionKind.PAUSED, words)

    def resume(self, _stimulus: Resumed) -> None:
        """Launch again, first what became due meanwhile."""
        if not self._state.paused:
            return
        self._state.paused = False
        self._output.decide(DecisionKind.RESUMED, "launching again")
        for action in self._state.actions.values():
            self._clocks.set(action)
        self._moments.time_passed()
        self._evaluator.take_up(self._state.actions.values())

    def restart(self, _stimulus: Restarted) -> None:
        """Take all attempts for lost: the service has come back and knows nothing of them."""
        for action in self._state.actions.values():
            run = action.run
            if run is not None and run.retry_at is None:
                action.happen(RunEvent.LOST)
                run.losses += 1
                if run.losses > _LOSSES:
                    reason = f"its agent ended under it, {run.losses} times in a row"
                    self._outcomes.try_again(action, run, reason)
                    continue
                run.retry_at = self._state.now
                self._clocks.wake(action, self._state.now)
        self._moments.time_passed()
