"""The stages of a dataflow: how they stand, and what people ask of their states."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runs.attempts import Attempts
from headgate.agent.dataflow.runs.starting import stage_location
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.dataflow.views import RebuildAnswer, RunAnswer, StageStatus
from headgate.agent.errors import Refused
from headgate.engine import (
    CompactionRequested,
    RebuildRequested,
    RunPurpose,
    Unrebuildable,
)
from headgate.settings import shell_word
from headgate.spark import decode_result


class Stages:
    """Says how stages stand, and has their states made anew or compacted."""

    def __init__(
        self, state: FlowState, port: RuntimePort, context: RuntimeContext, attempts: Attempts
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._attempts = attempts

    def listed(self, now: float) -> tuple[StageStatus, ...]:
        """Return how all stages stand, in the order of the dataflow."""
        state = self._state
        location = stage_location(state.dataflow, state.definition, self._context.stages)
        explained = {each.action: each for each in state.engine.explain(now).actions}
        found = []
        for spec in state.dataflow.spec.actions:
            action = state.engine.actions[spec.name]
            stage = state.engine.stages.get(spec.name)
            if stage is None:
                continue
            makers = {stage.spec.inputs[flow].action for flow in stage.awaited}
            found.append(
                StageStatus(
                    action=spec.name,
                    state=self._attempts.action_state(spec.name),
                    location=location,
                    manifest=self._manifest(spec.name),
                    on_change=state.dataflow.actions[spec.name].on_change,
                    flows=explained[spec.name].flows,
                    held_by=explained[spec.name].held_by,
                    wanted=stage.wanted,
                    awaits=tuple(sorted(makers)),
                    failure=action.failure or stage.failure,
                )
            )
        return tuple(found)

    def rebuild(self, action: str, *, with_sources: bool, now: float) -> RebuildAnswer:
        """Have a stage begin with nothing, and all that are rebuilt with it.

        Raises:
            Refused: it is no stage, its inputs do not come anew, or nothing is launched.
        """
        engine = self._state.engine
        self._require_stage(action)
        try:
            names = engine.rebuilt_together(action, with_sources=with_sources)
        except Unrebuildable as error:
            raise Refused(f"{action!r} of {self._state.name} cannot be rebuilt: {error}") from error
        writing = {
            spec.name: self._containers(spec.writes)
            for spec in self._state.dataflow.spec.actions
            if spec.name in names and self._containers(spec.writes)
        }
        manifests = {name: self._manifest(name) for name in writing}
        for name in names:
            self._state.quarantined.pop(name, None)
        self._port.handle(RebuildRequested(now, action, with_sources))
        self._port.settle()
        waits = {name: engine.parked(name) for name in names}
        return RebuildAnswer(
            names,
            {name: self._run(name) for name in names if waits[name] is None},
            {name: words for name, words in waits.items() if words is not None},
            writing,
            stage_location(self._state.dataflow, self._state.definition, self._context.stages),
            {name: manifest for name, manifest in manifests.items() if manifest},
        )

    def compact(self, action: str, now: float) -> RunAnswer:
        """Have a run of its own merge the files of a stage's state.

        Raises:
            Refused: it is no stage, has no state yet, is in quarantine or to be rebuilt, or nothing
                is launched.
        """
        state = self._state
        self._require_stage(action)
        known = state.engine.actions[action]
        if known.last is None or not known.last.result:
            raise Refused(f"{action!r} of {state.name} has no state yet")
        if action in state.quarantined:
            raise Refused(
                f"{action!r} of {state.name} is in quarantine ({state.quarantined[action]}); "
                f"`headgate flow release {shell_word(state.name)} {shell_word(action)}` lets it "
                "out, and where its state is damaged "
                f"`headgate stage rebuild {shell_word(state.name)} {shell_word(action)} "
                "--with-sources` makes it anew"
            )
        if state.engine.stages[action].wanted is RunPurpose.REBUILD:
            raise Refused(f"{action!r} of {state.name} is to be rebuilt, which leaves few files")
        before = known.run
        self._port.handle(CompactionRequested(now, action))
        self._port.settle()
        run = known.run
        if run is not None and run is not before:
            return RunAnswer(action, run.run)
        waits = state.engine.obstacle(action) or ""
        return RunAnswer(action, None, waits, follows=before is not None)

    def _manifest(self, action: str) -> str:
        last = self._state.engine.actions[action].last
        result = None if last is None else decode_result(last.result)
        return "" if result is None else result.manifest

    def _containers(self, writes: Iterable[str]) -> tuple[str, ...]:
        outside = self._state.dataflow.outside
        return tuple(name for name in writes if name not in outside)

    def _run(self, action: str) -> str:
        run = self._state.engine.actions[action].run
        return "" if run is None else run.run

    def _require_stage(self, action: str) -> None:
        state = self._state
        state.require_step(action)
        if action not in state.engine.stages:
            raise Refused(f"{action!r} of {state.name} is a step and has no state; see `stage:`")
        if state.definition.shadow:
            raise Refused(
                f"{state.name} is in shadow mode and launches nothing; `headgate flow update "
                f"{shell_word(state.name)} --launch` ends that"
            )
