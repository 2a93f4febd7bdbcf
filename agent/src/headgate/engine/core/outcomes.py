"""Runs end: what a committed one has consumed, and what a failed one gives back."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import ActiveRun, PastRun, RunEvent, RunState
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import ASKED, Evaluator
from headgate.engine.core.launching import Launching
from headgate.engine.protocol.instructions import DecisionKind, Quarantine
from headgate.engine.protocol.stimuli import RunFailed, RunFinished, RunRehearsed, RunStarted
from headgate.engine.triggers.policy import Notice
from headgate.events import Cut

_ANEW = "its state is to be made anew"


class Outcomes:
    """Takes what the service says of attempts."""

    def __init__(self, core: Core, launching: Launching, evaluator: Evaluator) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._policies = core.policies
        self._launching = launching
        self._evaluator = evaluator

    def _of_run(
        self, stimulus: RunStarted | RunFinished | RunRehearsed | RunFailed
    ) -> Action | None:
        action = self._state.actions.get(stimulus.action)
        if action is None or action.run is None or action.run.run != stimulus.run:
            what = type(stimulus).__name__
            self._output.refuse(f"{what} of {stimulus.run!r}, which is not the active run", action)
            return None
        return action

    def started(self, stimulus: RunStarted) -> None:
        """Note that an attempt has begun to work."""
        action = self._of_run(stimulus)
        if action is None or action.run is None or stimulus.attempt != action.run.attempt:
            return
        if stimulus.recovered:
            action.run.losses = 0
        self._launching.happen(action, RunEvent.STARTED)

    def finished(self, stimulus: RunFinished | RunRehearsed) -> None:
        """Take a run for committed: what it consumed is gone, and its successors are evaluated."""
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        # Whichever attempt it was: one attempt commits, and this one says that it has.
        if not self._launching.happen(action, RunEvent.FINISHED):
            return
        run = action.run
        words = f"committed by attempt {stimulus.attempt}"
        self._output.decide(DecisionKind.FINISHED, words, action)
        for cells, pending in action.all_parts():
            consumed = cells.watchers.consumed.pop(action.name, None)
            if consumed is not None:
                pending.committed += consumed.updates
                consumed.release()
            cells.columns.tidy()
        if not run.work.consumes:
            self._maintained(action, stimulus)
            return
        result = run.previous
        if isinstance(stimulus, RunFinished):
            result = stimulus.result or result
            action.seen = Cut({**action.seen.offsets, **run.cut.offsets})
            action.seen_at = run.launched_at
        action.run = None
        action.failure = ""
        action.last = PastRun(
            run.run,
            stimulus.attempt,
            run.cut,
            run.since,
            run.cause,
            run.launched_at,
            self._state.now,
            result,
            taken=run.work.taken,
        )
        self._policies.hear(action, Notice.COMMITTED)
        self._deliver(action, run, stimulus)
        self._note_reflected(action, run, stimulus)
        if not action.has_run:
            self._evaluator.first_run(action)
        self._evaluator.ended((action.name,), f"end of `{action.name}`")
        self._evaluator.take_up(self._state.ready_followers(action))
        self._evaluator.take_up((action,))
        self._evaluator.place_freed()

    def _maintained(self, action: Action, stimulus: RunFinished | RunRehearsed) -> None:
        """Have the next run begin with what a run of maintenance has made of the state."""
        action.run = None
        if isinstance(stimulus, RunFinished) and stimulus.result and action.last is not None:
            action.last = replace(action.last, result=stimulus.result)
        self._evaluator.take_up((action,))

    def _deliver(
        self, action: Action, run: ActiveRun, stimulus: RunFinished | RunRehearsed
    ) -> None:
        """Hand what a run has made to those that read it; evaluate what waits for it."""
        stages, evaluator = self._state.stages, self._evaluator
        if isinstance(stimulus, RunRehearsed):
            stages.give_back(action.name, run.work)
            return
        delivery = stages.commit(action.name, run.work, stimulus.produced)
        for flow, name in delivery.readers:
            reader = self._state.actions[name]
            evaluator.wake(reader, f"increment of `{flow}` by `{action.name}`")
            evaluator.wake_producers(reader)
        if delivery.unknown:
            names = ", ".join(map(repr, delivery.unknown))
            self._output.refuse(f"increments of {names}, which are no flows of it", action)
        if delivery.more_waits:
            evaluator.wake(action, f"end of `{action.name}`")

    def _note_reflected(
        self, action: Action, run: ActiveRun, stimulus: RunFinished | RunRehearsed
    ) -> None:
        """Note what the outputs of an action reflect now; a rehearsed run has written none."""
        state = self._state
        if isinstance(stimulus, RunRehearsed):
            state.reflected.given_up(action.name)
            return
        topics = state.topics_read[action.name]
        cuts = run.cut.only(topics), state.deliveries.part(topics)
        made = tuple(one.name for one in stimulus.produced)
        times = (run.launched_at, state.now)
        state.reflected.committed(action.name, run.run, cuts, times, made)
        if state.reflected.is_crowded:
            state.reflected.forget(state.needed_increments() if state.stages.by_action else ())

    def failed(self, stimulus: RunFailed) -> None:
        """Count a failure of the active attempt."""
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        run = action.run
        if stimulus.attempt != run.attempt:
            words = f"attempt {stimulus.attempt} failed, but {run.attempt} is active"
            self._output.refuse(words, action)
            return
        if self._launching.happen(action, RunEvent.FAILED):
            run.losses = 0
            self.try_again(action, run, stimulus.reason, final=stimulus.final)

    def try_again(
        self, action: Action, run: ActiveRun, reason: str, *, final: bool = False
    ) -> None:
        """Count a failure of the attempt: another follows later, or none any more.

        Args:
            action: whose run it is.
            run: that had the attempt.
            reason: why it failed.
            final: whether another attempt would fail likewise.
        """
        run.failures += 1
        run.failure = action.failure = reason
        self._evaluator.place_freed()
        if self._state.stages.is_made_anew(action.name):
            self.withdraw(action, run, _ANEW)
            self._evaluator.take_up((action,))
            return
        if final or run.failures >= action.spec.retry.attempts:
            self._give_up(action, run)
            return
        wait = action.spec.retry.backoff(run.failures)
        run.retry_at = self._state.now + wait
        self._clocks.wake(action, run.retry_at)
        words = f"attempt {run.attempt} failed: {reason}; the next one in {wait:g} s"
        self._output.decide(DecisionKind.FAILED, words, action)

    def withdraw(self, action: Action, run: ActiveRun, why: str) -> None:
        """Have no further attempt of a run made, and what it took wait for the one in its place."""
        action.happen(RunEvent.WITHDRAWN)
        words = f"not tried again, for {why}; the last failure: {run.failure}"
        self._output.decide(DecisionKind.FAILED, words, action)
        self._return(action, run)

    def rebuild(self, names: Iterable[str], why: str = "") -> None:
        """Have stages begin with nothing in their next run, which is due at once.

        A run under way ends first; one that waits for its next attempt is not tried again.
        """
        found = [self._state.actions[name] for name in names]
        for one in found:
            self._state.stages.rebuild(one.name)
            words = ": ".join(filter(None, (_ANEW, why)))
            self._output.decide(DecisionKind.REBUILT, words, one)
            if one.run is not None and one.run.retry_at is not None:
                self.withdraw(one, one.run, _ANEW)
            if one.state is RunState.QUARANTINED:
                one.happen(RunEvent.RELEASED)
                one.failure = ""
            one.requested = True
        for one in found:
            self._evaluator.consider(one, ASKED)

    def _give_up(self, action: Action, run: ActiveRun) -> None:
        if not run.work.consumes:
            self.withdraw(action, run, "the state is as good as it was")
            self._evaluator.take_up((action,))
            return
        action.happen(RunEvent.GIVEN_UP)
        times = "a failure" if run.failures == 1 else f"{run.failures} failures"
        words = f"given up after {times}, the last: {run.failure}"
        self._output.decide(DecisionKind.QUARANTINED, words, action)
        self._return(action, run)
        self._output.add(Quarantine(action.name, run.run, run.failure))

    def _return(self, action: Action, run: ActiveRun) -> None:
        """Put back what a run has consumed that comes to nothing."""
        action.run = None
        if not run.work.consumes:
            return  # it has consumed nothing, and nobody has heard of it
        for cells, pending in action.all_parts():
            consumed = cells.watchers.consumed.pop(action.name, None)
            if consumed is not None:
                pending.restore(consumed)
        self._state.stages.give_back(action.name, run.work)
        self._state.reflected.given_up(action.name)
        action.since = run.time_before
        action.ended |= run.ended_before
        self._policies.hear(action, Notice.GIVEN_UP)
