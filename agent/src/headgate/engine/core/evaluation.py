"""Evaluation: an action's policy is asked, and what it says is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headgate.engine.actions.action import Action, ActionInputs, needs_reading
from headgate.engine.actions.runs import RunState
from headgate.engine.core.core import Core
from headgate.engine.core.launching import Launching
from headgate.engine.core.table_reads import TableReads
from headgate.engine.protocol.instructions import Cause, DecisionKind
from headgate.engine.protocol.runnables import PYTHON_RUNNABLE, RunnableQuestion
from headgate.engine.protocol.stimuli import Consulted
from headgate.engine.spec.conditions import (
    ConditionResult,
    TriggerResult,
    leaves,
    missing,
    reasons,
)
from headgate.engine.stages.turns import in_turn
from headgate.engine.triggers.policy import (
    Advice,
    NeedsAnswer,
    NeedsReading,
    Nothing,
    RunFirst,
    RunNow,
    Verdict,
    WaitUntil,
)
from headgate.events import ContainerId

AT_WRITE = "write"
ASKED = "request"
MAINTENANCE = "maintenance"
"""Of the state of a stage: what else made the engine look waits for its end."""
_ASKED = TriggerResult(reached=True, words="somebody asked for it")


class Evaluator:
    """Asks policies and does what they say."""

    def __init__(self, core: Core, launching: Launching, reads: TableReads) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._policies = core.policies
        self._launching = launching
        self._reads = reads
        self._idle: Counter[str] = Counter()
        """Evaluations at writes after which nothing had to run and no decision was recorded."""
        self._woken: dict[str, str] = {}
        """Actions to be evaluated after the stimulus, such as stages whose flows have changed."""

    def take_idle_evaluations(self) -> Counter[str]:
        """Return, by action, evaluations that changed nothing, not even why, since the last call.

        A decision is recorded of every other evaluation.
        """
        rested, self._idle = self._idle, Counter()
        return rested

    def note_idle(self, action: Action, times: int) -> None:
        """Note evaluations of an action that changed nothing."""
        self._idle[action.name] += times

    def take_up(
        self, actions: Iterable[Action], *, read: bool = False, unanswered: bool = False
    ) -> None:
        """Evaluate what could not be evaluated before; stages in turn, after the stimulus."""
        for action in actions:
            if action.missed is None:
                continue
            later = self._state.stages.evaluated_in_turn(action.name)
            if later and not read and not unanswered:
                self.wake(action, action.missed)
            else:
                self.consider(action, action.missed, read=read, unanswered=unanswered)

    def place_freed(self) -> None:
        """Have the stages evaluated that may have waited for a place."""
        if self._state.spec.places is not None:
            self.take_up(self._state.actions[name] for name in self._state.stages.by_action)

    def consider(
        self, action: Action, moment: str, *, read: bool = False, unanswered: bool = False
    ) -> None:
        """Evaluate an action, or note that it was missed.

        Args:
            action: any; of an input nothing is to be decided.
            moment: what made the engine look.
            read: whether its cells were just read: what is still unsettled is taken as it is.
            unanswered: whether its policy has just heard that there is no answer: what it asks now
                has to wait for the next moment.
        """
        if action.is_input:
            return
        obstacle = self._state.obstacle(action)
        if obstacle is not None:
            self._miss(action, moment, obstacle)
            return
        stages = self._state.stages
        if action.name in stages.by_action and stages.needs_maintenance(action.name):
            self._maintain(action, moment)
            return
        action.missed = None
        if action.requested:
            self._launch(action, moment, RunNow(_ASKED), Cause(ASKED, _ASKED.words))
            return
        now = self._state.now
        inputs = ActionInputs(action, now, read=read)
        recorded = moment is AT_WRITE and action.shown == DecisionKind.SKIPPED
        foresees = action.foresees if recorded else None
        if foresees is not None and foresees.stays_idle(inputs, now, action.wait_until):
            self._idle[action.name] += 1
            action.found = ()
            return  # as at the last write, of which a decision was recorded
        verdict = action.policy.judge(inputs, now)
        action.found = action.reached_in(verdict.result)
        self._carry_out(action, moment, verdict, unanswered=unanswered)

    def _miss(self, action: Action, moment: str, obstacle: str) -> None:
        """Note that an action could not be evaluated."""
        if action.missed is None and moment is not AT_WRITE:
            self._output.decide(
                DecisionKind.HELD, f"not evaluated: {obstacle}", action, moment=moment
            )
        action.missed = moment
        if action.blocks is not None and action.run is not None:
            action.found = action.blocks.holding(ActionInputs(action, self._state.now))
        self._wake_circle(action)

    def _maintain(self, action: Action, moment: str) -> None:
        """Launch a run of maintenance; what else the engine looked for waits for its end."""
        if moment != MAINTENANCE:
            action.missed = action.missed or moment
        elif action.missed == MAINTENANCE:
            action.missed = None
        work = self._state.stages.maintain(action.name)
        self._launching.launch_unread(action, Cause(MAINTENANCE, work.words), work)

    def _carry_out(
        self, action: Action, moment: str, verdict: Verdict, *, unanswered: bool
    ) -> None:
        """Do what a policy says."""
        match verdict:
            case RunNow(result):
                words = f"{'; '.join(reasons(result))} ({moment})"
                self._launch(action, moment, verdict, Cause(moment, words, result))
            case NeedsReading(result):
                action.missed = moment
                self._hold_for_reading(action, moment, result)
            case RunFirst():
                self._hold_for_others(action, moment, verdict)
            case NeedsAnswer(question, result):
                if not unanswered:
                    action.missed = moment
                    action.asking = True
                    self._policies.ask(action, question)
                words = "nobody answers; " if unanswered else "an answer is waited for; "
                self._skip(action, moment, result, kind=DecisionKind.HELD, prefix=words)
            case WaitUntil(time, result):
                action.wait_until = time
                self._clocks.set(action)
                self._skip(action, moment, result)
            case Nothing(result):
                self._skip(action, moment, result)

    def _launch(self, action: Action, moment: str, verdict: RunNow, cause: Cause) -> None:
        """Launch an action, or have asked first what the run is to read."""
        work = self._state.stages.begin(action.name, requested=action.requested)
        if isinstance(work, RunnableQuestion):
            action.missed = moment
            self._policies.ask_runnable(action, work)
            words = f"`{work.entry}` is asked what is read"
            self._output.decide(
                DecisionKind.HELD, words, action, moment=moment, result=verdict.result
            )
            return
        self._launching.launch(action, cause, work, verdict.mark)
        self.wake_producers(action)

    # -- flows

    def wake(self, action: Action, moment: str) -> None:
        """Have a stage evaluated once the stimulus is taken."""
        self._woken.setdefault(action.name, moment)

    def wake_producers(self, action: Action) -> None:
        """Have those evaluated so that may have been held by what waited for an action."""
        for name in self._state.stages.producers(action.name):
            producer = self._state.actions[name]
            if producer.missed is not None:
                self.wake(producer, producer.missed)

    def _wake_circle(self, action: Action) -> None:
        """Note since when a stage is held; wake the one that goes on if they wait in a circle."""
        if action.run is not None:
            return
        first = self._state.stages.note_held(action.name)
        if first is not None:
            first_action = self._state.actions[first]
            self.wake(first_action, "stages hold each other, and it is its turn")

    def settle(self) -> None:
        """Evaluate what was woken, or what policies want evaluated, in turn."""
        actions = self._state.actions
        while self._woken or self._policies.to_ask:
            if not self._woken:
                asked = self._policies.take_actions_to_ask()
                self._woken = {name: words for name, words in asked.items() if name in actions}
                continue
            name = in_turn({name: self._state.turn(actions[name]) for name in self._woken})[0]
            self.consider(actions[name], self._woken.pop(name))

    def answered(self, stimulus: Consulted) -> None:
        """Have a policy hear the answer to what it asked, and evaluate if that was waited for."""
        action = self._state.actions.get(stimulus.action)
        if action is not None and stimulus.kind == PYTHON_RUNNABLE:
            if self._state.stages.answer(action.name, stimulus.answer, stimulus.reason):
                self.take_up((action,))
                self.wake_producers(action)  # it may have said that it needs more
            return
        if action is None or action.policy.kind != stimulus.kind:
            return  # it has another policy by now
        self._policies.hear(action, Advice(stimulus.answer, stimulus.reason))
        if action.asking:
            action.asking = False
            self.take_up((action,), unanswered=stimulus.answer is None)

    def ask_again(self) -> None:
        """Ask the policies again whose answers nobody will give any more."""
        for action in self._state.actions.values():
            asked = self._state.stages.forget_question(action.name)
            if action.asking or asked:
                action.asking = False
                self.take_up((action,))

    def _hold_for_reading(self, action: Action, moment: str, result: ConditionResult) -> None:
        for cells, pending in action.all_parts():
            if needs_reading(cells, pending):
                action.reading = True
                if not cells.reads.awaited:
                    self._reads.read(cells)
        what = "cells are read again" if action.reading else "a container is scanned first"
        self._skip(action, moment, result, kind=DecisionKind.HELD, prefix=f"{what}; ")

    def _hold_for_others(self, action: Action, moment: str, verdict: RunFirst) -> None:
        """Have others asked; what waits for one in quarantine is asked when that has run."""
        others = [self._state.actions[name] for name in verdict.actions]
        if not any(other.state is RunState.QUARANTINED for other in others):
            action.missed = moment
        self._skip(action, moment, verdict.result, kind=DecisionKind.HELD)
        for other in others:
            if other.run is None:
                self.consider(other, f"`{action.name}` waits for it")

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
                    self._idle[action.name] += 1
                return
            action.shown = shown
        words = f"{prefix}needs {missing(result)}"
        self._output.decide(kind, words, action, moment=moment, result=result)

    def written(self, containers: Iterable[ContainerId]) -> None:
        """Evaluate who watches containers in which something was written, or is missing."""
        graph = self._state.graph
        watchers: dict[str, Action] = {}
        for container in containers:
            for feeder in graph.feeders.get(container, ()):
                if not feeder.has_run:
                    self._first_data(feeder)
            for action in graph.watchers.get(container, ()):
                watchers[action.name] = action
        if watchers:
            for action in graph.in_order(watchers):
                self.consider(action, AT_WRITE)

    def _first_data(self, feeder: Action) -> None:
        """Note that an input has data; its followers wait until its wave has ended.

        What they missed before says nothing of this input. Only those that are evaluated at writes,
        and runs that somebody asked for, begin on what has come so far.
        """
        self.first_run(feeder)
        for action in self._state.graph.successors[feeder.name]:
            if not action.requested and not action.moments.write:
                action.missed = None
        self.take_up(self._state.ready_followers(feeder))

    def ended(self, names: Iterable[str], moment: str) -> None:
        """Evaluate the successors of actions that have ended, each once."""
        graph = self._state.graph
        followers: dict[str, None] = {}
        for name in names:
            for action in graph.successors[name]:
                action.ended.add(name)
                followers[action.name] = None
        for action in graph.in_order(followers):
            if not action.moments.action_end:
                continue
            if self._state.stages.evaluated_in_turn(action.name):
                self.wake(action, moment)
            else:
                self.consider(action, moment)

    def first_run(self, action: Action) -> None:
        """Note that an action has run for the first time: its successors' clocks may start."""
        action.has_run = True
        for follower in self._state.graph.successors[action.name]:
            self._clocks.start(follower)
