"""What people ask of a dataflow: to pause, run, retry, release and change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.agent.dataflow.consumption import Consumption
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import Continuation, WatchesInEffect
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.runs.history import RunHistory
from headgate.agent.dataflow.runs.starting import python_path, session_start
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.dataflow.tables.gates import Gates
from headgate.agent.dataflow.tables.watches import Watches
from headgate.agent.dataflow.views import Phase, RunAnswer
from headgate.agent.dataflow.waves import Waves
from headgate.agent.errors import Refused
from headgate.agent.kafka.barriers import Barriers
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.sealed import Definition
from headgate.engine import (
    Paused,
    Released,
    Resumed,
    RetryRequested,
    RunRequested,
    RunState,
    SpecificationChanged,
)
from headgate.flows import Dataflow
from headgate.settings import shell_word


class Commands:
    """Does what people ask for, or says why not."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        context: RuntimeContext,
        history: RunHistory,
        attempts: Attempts,
        waves: Waves,
        gates: Gates,
        watches: Watches,
        consumption: Consumption,
        barriers: Barriers[Continuation],
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._history = history
        self._attempts = attempts
        self._waves = waves
        self._gates = gates
        self._watches = watches
        self._consumption = consumption
        self._barriers = barriers

    def pause(self, now: float) -> None:
        """Launch nothing until ``resume``; counting goes on."""
        state = self._state
        state.paused = True
        if state.phase is Phase.RUNNING:
            state.phase = state.working
        self._port.handle(Paused(now))
        self._port.settle()

    def resume(self, now: float) -> None:
        """Launch again."""
        state = self._state
        state.paused = False
        if state.phase is Phase.PAUSED:
            state.phase = state.working
        self._port.handle(Resumed(now))
        self._port.settle()

    def run(self, action: str, now: float) -> RunAnswer:
        """Run an action whatever its bounds say, and return whether it was launched.

        Raises:
            Refused: there is no such action, it is fed from outside, in quarantine, or nothing is
                launched.
        """
        state = self._state
        state.require_step(action)
        if state.definition.shadow:
            raise Refused(
                f"{state.name} is in shadow mode and launches nothing; `headgate flow update "
                f"{shell_word(state.name)} --launch` ends that"
            )
        if action in state.quarantined:
            raise Refused(
                f"{action!r} of {state.name} is in quarantine ({state.quarantined[action]}); "
                f"`headgate flow retry {shell_word(state.name)} {shell_word(action)}` lets "
                "it out and runs it"
            )
        before = state.engine.actions[action].run
        self._port.handle(RunRequested(now, action))
        waits = state.engine.parked(action)
        if waits is not None:
            return RunAnswer(action, None, waits, follows=before is not None)
        launched = state.engine.actions[action].run
        return RunAnswer(action, None if launched is None else launched.run)

    def cancel(self, action: str) -> None:
        """End an action's attempt; what follows is what follows any failure.

        Raises:
            Refused: there is no such action, or nothing of it is under way.
        """
        self._state.require_step(action)
        self._attempts.cancel(action)

    def log_of(self, of: str, number: int | None) -> tuple[RunRecord, Path | None]:
        """Return the newest attempt of an action or a run, or one by number, and its log's file.

        Raises:
            Refused: there is no such attempt.
        """
        for record in self._history.records:
            if of in (record.action, record.run) and number in (None, record.attempt):
                log = self._context.launcher.log(record.action, record.run, record.attempt)
                return record, log
        which = "attempt" if number is None else f"attempt {number}"
        raise Refused(
            f"{self._state.name} remembers no {which} of {of!r}; it is an action or a run's id"
        )

    def retry(self, action: str | None, now: float) -> tuple[str, ...]:
        """Run at once what failed, and return which: one action, or all that wait or were given up.

        Of a stage whose runnable has failed that is asked again.

        Raises:
            Refused: nothing of it failed.
        """
        state = self._state
        if action is not None:
            state.require_step(action)
        names = tuple(
            spec.name
            for spec in state.dataflow.spec.actions
            if action in (None, spec.name) and self._has_failed(spec.name)
        )
        if not names:
            raise Refused(f"nothing failed of {action or 'any action'} of {state.name}")
        for name in names:
            state.quarantined.pop(name, None)
            self._port.handle(RetryRequested(now, name))
        return names

    def _has_failed(self, name: str) -> bool:
        stage = self._state.engine.stages.get(name)
        failed = self._attempts.action_state(name) in {"retrying", "quarantined"}
        return failed or (stage is not None and bool(stage.failure))

    def release(self, action: str | None, now: float) -> tuple[str, ...]:
        """Let an action, or all, out of quarantine, and return which.

        Raises:
            Refused: the action is not in quarantine.
        """
        state = self._state
        if action is not None:
            state.require_step(action)
            if action not in state.quarantined:
                raise Refused(f"action {action!r} of {state.name} is not in quarantine")
        names = (action,) if action is not None else tuple(state.quarantined)
        if not names:
            raise Refused(f"no action of {state.name} is in quarantine")
        for name in names:
            del state.quarantined[name]
            self._port.handle(Released(now, name))
        return names

    def change(self, definition: Definition, dataflow: Dataflow, now: float) -> None:
        """Go on with another definition; what is unchanged keeps its state."""
        state = self._state
        before, started = state.dataflow, session_start(state.dataflow, state.definition)
        state.definition = definition
        state.dataflow = dataflow
        start = session_start(dataflow, definition)
        if start != started:
            self._context.launcher.use(start)
        self._have_advisers_read()
        if dataflow.waves != before.waves:
            self._waves.schedule(now)
        names = {action.name for action in dataflow.spec.actions}
        state.quarantined = {n: why for n, why in state.quarantined.items() if n in names}
        self._consumption.subscribe(now)
        self._port.handle(SpecificationChanged(now, dataflow.spec))
        for name in tuple(state.quarantined):
            if state.engine.actions[name].state is not RunState.QUARANTINED:
                del state.quarantined[name]  # it is rebuilt
        # Asked for again, it would bring the former watch list back.
        self._barriers.drop(WatchesInEffect)
        self._barriers.narrow(state.tables, now)
        self._watches.publish(now)
        self._attempts.begin_next(now)

    def reload(self) -> None:
        """Replace the worker when it has nothing to do, so that modules are read again."""
        start = session_start(self._state.dataflow, self._state.definition)
        self._context.launcher.use(start)
        self._have_advisers_read()

    def _have_advisers_read(self) -> None:
        roots = python_path(self._state.dataflow.python_path, self._state.definition)
        for adviser in self._context.advisers.values():
            adviser.use(roots, self._state.dataflow.spec)

    def withdraw(self, on_withdrawn: Callable[[], None], now: float) -> None:
        """Publish that the dataflow watches nothing any more; ``stop`` then leaves nothing.

        ``on_withdrawn`` is called when nothing of its notify columns is left.
        """
        self._state.withdrawn = self._state.draining = True
        self._gates.open_all(now)
        self._context.admission.leave(self._state.name)
        self._watches.withdraw(on_withdrawn, now)
