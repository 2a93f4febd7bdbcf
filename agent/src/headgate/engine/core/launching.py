"""Runs begin: a cut is fixed, and attempts are ordered."""

from __future__ import annotations

from headgate.engine.actions.action import Action, ImpossibleTransition
from headgate.engine.actions.runs import ActiveRun, RunEvent
from headgate.engine.core.foundation import Foundation
from headgate.engine.protocol.instructions import Cause, DecisionKind, Launch


class Launching(Foundation):
    """Launches actions and orders further attempts."""

    def _launch(self, action: Action, cause: Cause) -> None:
        action.happen(RunEvent.DECIDED)
        action.number += 1
        parts = (self.spec.name, self.incarnation, action.name, str(action.number))
        run = ActiveRun(
            run="-".join(filter(None, parts)),
            attempt=1,
            cut=self.cut,
            since=action.seen,
            cause=cause,
            launched_at=self._now,
            time_before=action.since,
            ended_before=action.ended,
        )
        action.run = run
        if self._seeking is not None and action.search is not None:
            self._seeking.launching(action, action.search)
        for cells, pending in action.all_parts():
            cells.consumed[action.name] = pending.take()
        action.since = self._now
        action.ended = set()
        action.requested = False
        action.shown = ""
        action.found = ()
        action.wait_until = None
        self._set_timers(action)
        self._order(action, run)

    def _order(self, action: Action, run: ActiveRun) -> None:
        self._decide(
            DecisionKind.LAUNCHED if run.attempt == 1 else DecisionKind.RETRIED,
            run.cause.words,
            action,
            moment=run.cause.moment,
            result=run.cause.result,
        )
        self._out.append(
            Launch(
                action.name,
                run.run,
                run.attempt,
                run.cut,
                run.since,
                run.cause,
                action.spec.timeout,
            )
        )

    def _retry(self, action: Action, run: ActiveRun) -> None:
        if self.paused:
            return
        action.happen(RunEvent.RETRY_DUE)
        run.retry_at = None
        run.attempt += 1
        self._order(action, run)

    def _happen(self, action: Action, event: RunEvent) -> bool:
        try:
            action.happen(event)
        except ImpossibleTransition as error:
            self._refuse(str(error), action)
            return False
        return True
