"""Runs begin: a cut is fixed, and attempts are ordered."""

from __future__ import annotations

from headgate.engine.actions.action import Action, ImpossibleTransition
from headgate.engine.actions.makers import increments_read
from headgate.engine.actions.runs import ActiveRun, RunEvent
from headgate.engine.core.core import Core
from headgate.engine.protocol.instructions import Cause, DecisionKind, Launch
from headgate.engine.protocol.work import RunPurpose, Work
from headgate.engine.triggers.policy import Notice
from headgate.events import Cut


class Launching:
    """Launches actions and orders further attempts."""

    def __init__(self, core: Core) -> None:
        self._state = core.state
        self._output = core.output
        self._clocks = core.clocks
        self._policies = core.policies

    def launch(self, action: Action, cause: Cause, work: Work, mark: str | None = None) -> None:
        """Begin a run on everything that has arrived, or had when its policy fixed a cut."""
        fixed = None if mark is None else action.marks[mark].cut
        run = self._begun(action, cause, work, self._state.cut if fixed is None else fixed)
        anew = work.purpose is RunPurpose.REBUILD
        self._state.reflected.launched(action.name, increments_read(work), anew=anew)
        self._policies.hear(action, Notice.LAUNCHED)
        action.take(mark if fixed is not None else None)
        action.since = self._state.now
        action.requested = False
        action.shown = ""
        action.found = ()
        action.wait_until = None
        self._clocks.set(action)
        self._order(action, run)

    def launch_unread(self, action: Action, cause: Cause, work: Work) -> None:
        """Begin a run that reads nothing: what has come, and what is due, waits for the next."""
        self._order(action, self._begun(action, cause, work, action.seen))

    def _begun(self, action: Action, cause: Cause, work: Work, cut: Cut) -> ActiveRun:
        action.happen(RunEvent.DECIDED)
        action.number += 1
        state = self._state
        parts = (state.spec.name, state.incarnation, action.name, str(action.number))
        action.run = ActiveRun(
            run="-".join(filter(None, parts)),
            attempt=1,
            cut=cut,
            since=action.seen,
            cause=cause,
            launched_at=state.now,
            time_before=action.since,
            ended_before=action.ended,
            previous="" if action.last is None else action.last.result,
            work=work,
        )
        return action.run

    def retry(self, action: Action, run: ActiveRun) -> None:
        """Order the next attempt of a run, unless the dataflow is paused."""
        if self._state.paused:
            return
        action.happen(RunEvent.RETRY_DUE)
        run.retry_at = None
        run.attempt += 1
        self._order(action, run)

    def _order(self, action: Action, run: ActiveRun) -> None:
        self._output.decide(
            DecisionKind.LAUNCHED if run.attempt == 1 else DecisionKind.RETRIED,
            run.cause.words,
            action,
            moment=run.cause.moment,
            result=run.cause.result,
        )
        self._output.add(
            Launch(
                action.name,
                run.run,
                run.attempt,
                run.cut,
                run.since,
                run.cause,
                action.spec.timeout,
                run.previous,
                work=run.work,
            )
        )

    def happen(self, action: Action, event: RunEvent) -> bool:
        """Take an event of a run; record that it makes no sense, and return False, where so."""
        try:
            action.happen(event)
        except ImpossibleTransition as error:
            self._output.refuse(str(error), action)
            return False
        return True
