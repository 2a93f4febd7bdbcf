"""Moments of evaluation: at writes, at ends, by time; each action's policy is asked then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from headgate.engine.actions.action import Action, ActionInputs, needs_reading
from headgate.engine.core.launching import Launching
from headgate.engine.protocol.instructions import Cause, DecisionKind
from headgate.engine.protocol.stimuli import Restarted, Resumed, Tick, WaveEnded
from headgate.engine.spec.conditions import BoundResult, ConditionResult, leaves, missing, reasons
from headgate.engine.triggers.bounds import Precision
from headgate.engine.triggers.policy import NeedsReading, Run, WaitUntil
from headgate.engine.triggers.significance.seeking import Said

AT_WRITE = "write"
ASKED = "request"


class Evaluation(Launching):
    """Asks policies and does what they say."""

    def _take_up(self, actions: Iterable[Action], *, read: bool = False) -> None:
        """Evaluate what could not be evaluated before."""
        for action in actions:
            if action.missed is not None:
                self._consider(action, action.missed, read=read)

    def _consider(self, action: Action, moment: str, *, read: bool = False) -> None:
        if action.is_input:
            return
        obstacle = self.obstacle(action)
        if obstacle is not None:
            if action.missed is None and moment is not AT_WRITE:
                self._decide(DecisionKind.HELD, f"not evaluated: {obstacle}", action, moment=moment)
            action.missed = moment
            if action.blocking and action.run is not None:
                self._find(action, self._measured_blocking(action))
            return
        action.missed = None
        if action.requested:
            self._launch(action, Cause(ASKED, "somebody asked for it"))
            return
        inputs = ActionInputs(action, self._now, read=read)
        told = moment is AT_WRITE and action.shown == DecisionKind.SKIPPED
        if told and action.policy.rests(inputs, self._now, action.wait_until):
            self._rested[action.name] += 1
            action.found = ()
            return  # as at the last write, of which a decision was recorded
        verdict = action.policy.judge(inputs, self._now)
        self._find(action, leaves(verdict.result))
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

    @staticmethod
    def _find(action: Action, results: Iterable[BoundResult]) -> None:
        """Note which bounds hold writers back from here on, until the action has run."""
        reached = {result.bound for result in results if result.reached}
        action.found = tuple(bound for bound in action.blocking if bound in reached)

    def _measured_blocking(self, action: Action) -> Iterator[BoundResult]:
        inputs = ActionInputs(action, self._now)
        for bound in action.blocking:
            if not inputs.is_below(bound):
                yield inputs.measure(bound, Precision.RUNNING)

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
        if moment is AT_WRITE:
            shown = " ".join((kind, *(leaf.bound for leaf in leaves(result) if leaf.reached)))
            if shown == action.shown:
                if kind is DecisionKind.SKIPPED:
                    self._rested[action.name] += 1
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
        return [a for a in self.graph.successors[action.name] if self.obstacle(a) is None]

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
        if every is not None:
            # Not later than that either: it may have been a longer period until now.
            due = action.next_evaluation
            action.next_evaluation = min(self._now + every, math.inf if due is None else due)
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
                action.looked_at = -math.inf  # θ may have come down to before the last look
                self._set_timers(action)
                if action.spec.effective_evaluation.write:
                    # A limit may have come down to what was written long ago.
                    self._consider(action, AT_WRITE)

    def _tell_searches(self, searches: Iterable[Said]) -> None:
        for action, words in searches:
            self._decide(DecisionKind.ADJUSTED, words, action)
            self._set_timers(action)
