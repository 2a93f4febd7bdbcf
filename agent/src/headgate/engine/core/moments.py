"""Moments at which actions are evaluated: waves end, time passes, limits move."""

from __future__ import annotations

import math

from headgate.engine.actions.action import Action
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import AT_WRITE, Evaluator
from headgate.engine.core.launching import Launching
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import WaveEnded
from headgate.engine.triggers.policy import Wave


class Moments:
    """Has actions evaluated when it is time."""

    def __init__(self, core: Core, launching: Launching, evaluator: Evaluator) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._policies = core.policies
        self._launching = launching
        self._evaluator = evaluator

    def wave_ended(self, stimulus: WaveEnded) -> None:
        """Evaluate what follows the inputs whose wave has ended."""
        inputs = []
        for name in stimulus.actions:
            action = self._state.actions.get(name)
            if action is None or not action.is_input:
                self._output.refuse(f"a wave of {name!r} ended, which is no input action", action)
                continue
            if not action.has_run:
                if action.spec.writes or action.spec.reads:
                    self._output.decide(
                        DecisionKind.HELD, "its wave ended before anything came", action
                    )
                    continue
                self._evaluator.first_run(action)
            inputs.append(name)
        if inputs:
            time = stimulus.now if stimulus.time is None else stimulus.time
            self._policies.all_hear(Wave(stimulus.number, time))
            names = ", ".join(f"`{name}`" for name in inputs)
            self._evaluator.ended(inputs, f"end of the wave of {names}")
            for name in inputs:
                self._evaluator.take_up(self._state.ready_followers(self._state.actions[name]))

    def time_passed(self) -> None:
        """Adjust limits, make attempts and evaluate actions, as far as their time has come."""
        if self._clocks.adjustment_is_due():
            self._adjust()
        for action in self._clocks.due():
            self._time_has_come(action)
            self._clocks.set(action)

    def _time_has_come(self, action: Action) -> None:
        now, run = self._state.now, action.run
        if run is not None and run.retry_at is not None and run.retry_at <= now:
            self._launching.retry(action, run)
        late = any(time <= now for time in action.times())
        every = action.moments.every
        due = action.next_evaluation
        if every is not None and due is not None and due <= now:
            action.next_evaluation = due + ((now - due) // every + 1) * every
            action.looked_at = now
            self._evaluator.consider(action, f"every {every:g} s")
        elif late:
            action.looked_at = now
            self._evaluator.consider(action, "time")

    def _adjust(self) -> None:
        """Let both factors vote on every bound with an interval."""
        state = self._state
        if state.paused:
            return
        resources = state.machines.assess(state.now, state.spec.adjustment)
        for action in state.actions.values():
            moved = []
            for adjuster in action.adjusters:
                updates = action.updates_of(adjuster.bound)
                adjustment = adjuster.assess(state.now, updates, resources)
                if adjustment is not None:
                    moved.append(adjustment)
                    words = adjustment.words
                    self._output.decide(DecisionKind.ADJUSTED, words, action, adjustment=adjustment)
            if moved:
                action.take_limits()
                action.looked_at = -math.inf  # θ may have come down to before the last look
                self._clocks.set(action)
                if action.moments.write:
                    # A limit may have come down to what was written long ago.
                    self._evaluator.consider(action, AT_WRITE)
