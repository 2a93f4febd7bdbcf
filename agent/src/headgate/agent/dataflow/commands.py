"""What people ask of a dataflow: to pause, run, retry, release and change it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headgate.agent.dataflow.attempts import Attempts, session_start
from headgate.agent.dataflow.moded import Moded
from headgate.agent.dataflow.purposes import WatchesInEffect
from headgate.agent.dataflow.views import Phase, RunAnswer
from headgate.agent.errors import Refused
from headgate.agent.state.sealed import Definition
from headgate.agent.state.store import RunRecord
from headgate.engine import (
    Paused,
    Released,
    Resumed,
    RetryRequested,
    RunRequested,
    SpecificationChanged,
)
from headgate.flows import Dataflow


class Commands(Attempts, Moded):
    """Does what people ask for, or says why not."""

    def pause(self, now: float) -> None:
        """Launch nothing until ``resume``; counting goes on."""
        self._progress = msgspec.structs.replace(self._progress, paused=True)
        if self.phase is Phase.RUNNING:
            self.phase = self._working
        self._handle(Paused(now))
        self._settle()

    def resume(self, now: float) -> None:
        """Launch again."""
        self._progress = msgspec.structs.replace(self._progress, paused=False)
        if self.phase is Phase.PAUSED:
            self.phase = self._working
        self._handle(Resumed(now))
        self._settle()

    def run(self, action: str, now: float) -> RunAnswer:
        """Run an action whatever its bounds say, and return whether it was launched.

        Raises:
            Refused: there is no such action, it is fed from outside, in quarantine, or nothing is
                launched.
        """
        self._step(action)
        if self.definition.shadow:
            raise Refused(
                f"{self.name} is in shadow mode and launches nothing; `headgate flow update "
                f"{self.name} --launch` ends that"
            )
        if action in self._quarantined:
            raise Refused(
                f"{action!r} of {self.name} is in quarantine ({self._quarantined[action]}); "
                f"`headgate flow retry {self.name} {action}` lets it out and runs it"
            )
        before = self._engine.actions[action].run
        self._handle(RunRequested(now, action))
        waits = self._engine.parked(action)
        if waits is not None:
            return RunAnswer(action, None, waits, follows=before is not None)
        launched = self._engine.actions[action].run
        return RunAnswer(action, None if launched is None else launched.run)

    def cancel(self, action: str) -> None:
        """End an action's attempt; what follows is what follows any failure.

        Raises:
            Refused: there is no such action, or nothing of it is under way.
        """
        self._step(action)
        under_way = self._under_way.values()
        attempt = next((a for a in under_way if a.launch.action == action), None)
        if attempt is None:
            raise Refused(f"nothing of {action!r} of {self.name} is under way")
        attempt.cancelled = True
        launch = attempt.launch
        self._around.launcher.cancel(launch.run, launch.attempt, "it was cancelled by hand")

    def log_of(self, of: str, number: int | None) -> tuple[RunRecord, Path | None]:
        """Return the newest attempt of an action or a run, or one by number, and its log's file.

        Raises:
            Refused: there is no such attempt.
        """
        for record in self.records:
            if of in (record.action, record.run) and number in (None, record.attempt):
                log = self._around.launcher.log(record.action, record.run, record.attempt)
                return record, log
        which = "attempt" if number is None else f"attempt {number}"
        raise Refused(f"{self.name} remembers no {which} of {of!r}; it is an action or a run's id")

    def retry(self, action: str | None, now: float) -> tuple[str, ...]:
        """Run at once what failed, and return which: one action, or all that wait or were given up.

        Raises:
            Refused: nothing of it failed.
        """
        if action is not None:
            self._step(action)
        states = {"retrying", "quarantined"}
        names = tuple(
            spec.name
            for spec in self._dataflow.spec.actions
            if action in (None, spec.name) and self._action_state(spec.name) in states
        )
        if not names:
            raise Refused(f"nothing failed of {action or 'any action'} of {self.name}")
        for name in names:
            self._quarantined.pop(name, None)
            self._handle(RetryRequested(now, name))
        return names

    def release(self, action: str | None, now: float) -> tuple[str, ...]:
        """Let an action, or all, out of quarantine, and return which.

        Raises:
            Refused: the action is not in quarantine.
        """
        if action is not None:
            self._step(action)
            if action not in self._quarantined:
                raise Refused(f"action {action!r} of {self.name} is not in quarantine")
        names = (action,) if action is not None else tuple(self._quarantined)
        if not names:
            raise Refused(f"no action of {self.name} is in quarantine")
        for name in names:
            del self._quarantined[name]
            self._handle(Released(now, name))
        return names

    def change(self, definition: Definition, dataflow: Dataflow, now: float) -> None:
        """Go on with another definition; what is unchanged keeps its state."""
        before, started = self._dataflow, session_start(self._dataflow, self.definition)
        self.definition = definition
        self._dataflow = dataflow
        start = session_start(dataflow, definition)
        if start != started:
            self._around.launcher.use(start)
        if dataflow.waves != before.waves:
            self._schedule_wave(now)
        names = {action.name for action in dataflow.spec.actions}
        self._quarantined = {n: why for n, why in self._quarantined.items() if n in names}
        if self._feed is not None:
            self._feed.close()
        self._subscribe(now)
        self._handle(SpecificationChanged(now, dataflow.spec))
        # Asked for again, it would bring the former watch list back.
        self._barriers.drop(WatchesInEffect)
        self._barriers.narrow(self._tables(), now)
        self._prepare_watches()
        self._ask(WatchesInEffect(), self._tables(), now, prelude=self._watch_list())
        self._next(now)

    def reload(self) -> None:
        """Replace the worker when it has nothing to do, so that modules are read again."""
        self._around.launcher.use(session_start(self._dataflow, self.definition))
