"""Runs end: what a committed one has consumed, and what a failed one gives back."""

from __future__ import annotations

from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import ActiveRun, PastRun, RunEvent
from headgate.engine.core.records import Records
from headgate.engine.protocol.instructions import DecisionKind, Quarantine
from headgate.engine.protocol.stimuli import RunFailed, RunFinished, RunRehearsed, RunStarted
from headgate.events import Cut


class Outcomes(Records):
    """Takes what the service says of attempts."""

    def _of_run(
        self, stimulus: RunStarted | RunFinished | RunRehearsed | RunFailed
    ) -> Action | None:
        action = self.actions.get(stimulus.action)
        if action is None or action.run is None or action.run.run != stimulus.run:
            what = type(stimulus).__name__
            self._refuse(f"{what} of {stimulus.run!r}, which is not the active run", action)
            return None
        return action

    def _started(self, stimulus: RunStarted) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None or stimulus.attempt != action.run.attempt:
            return
        if stimulus.recovered:
            action.run.losses = 0
        self._happen(action, RunEvent.STARTED)

    def _finished(self, stimulus: RunFinished | RunRehearsed) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        # Whichever attempt it was: one attempt commits, and this one says that it has.
        if not self._happen(action, RunEvent.FINISHED):
            return
        run = action.run
        self._decide(DecisionKind.FINISHED, f"committed by attempt {stimulus.attempt}", action)
        for cells, pending in action.all_parts():
            consumed = cells.consumed.pop(action.name, None)
            if consumed is not None:
                pending.committed += consumed.updates
                consumed.release()
            cells.tidy()
        if isinstance(stimulus, RunFinished):
            action.seen = Cut({**action.seen.offsets, **run.cut.offsets})
            action.seen_at = run.launched_at
        action.run = None
        action.failure = ""
        action.last = PastRun(
            run.run, stimulus.attempt, run.cut, run.since, run.cause, run.launched_at, self._now
        )
        if self._seeking is not None and action.search is not None:
            self._tell_searches(self._seeking.finished(action, action.search))
        if not action.has_run:
            self._has_run(action)
        self._ended((action.name,), f"end of `{action.name}`")
        self._take_up(self._followers(action))
        self._take_up((action,))

    def _failed(self, stimulus: RunFailed) -> None:
        action = self._of_run(stimulus)
        if action is None or action.run is None:
            return
        run = action.run
        if stimulus.attempt != run.attempt:
            self._refuse(f"attempt {stimulus.attempt} failed, but {run.attempt} is active", action)
            return
        if self._happen(action, RunEvent.FAILED):
            run.losses = 0
            self._try_again(action, run, stimulus.reason)

    def _try_again(self, action: Action, run: ActiveRun, reason: str) -> None:
        """Count a failure of the attempt: another follows later, or none any more."""
        run.failures += 1
        run.failure = action.failure = reason
        if run.failures >= action.spec.retry.attempts:
            self._give_up(action, run)
            return
        wait = action.spec.retry.backoff(run.failures)
        run.retry_at = self._now + wait
        self._timers.wake(action.name, run.retry_at)
        words = f"attempt {run.attempt} failed: {reason}; the next one in {wait:g} s"
        self._decide(DecisionKind.FAILED, words, action)

    def _give_up(self, action: Action, run: ActiveRun) -> None:
        action.happen(RunEvent.GIVEN_UP)
        words = f"given up after {run.failures} failures, the last: {run.failure}"
        self._decide(DecisionKind.QUARANTINED, words, action)
        for cells, pending in action.all_parts():
            consumed = cells.consumed.pop(action.name, None)
            if consumed is not None:
                pending.restore(consumed)
        action.since = run.time_before
        action.ended |= run.ended_before
        action.run = None
        if action.search is not None:
            action.search.failed()
        self._out.append(Quarantine(action.name, run.run, run.failure))
