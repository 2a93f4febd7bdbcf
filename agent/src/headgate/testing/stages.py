"""Stages of a dataflow file over tables in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.agent import Definition, stage_request
from headgate.engine import Advance, Cause, FlowId, FlowTaken, Increment, Launch, Rebuild
from headgate.events import Cut
from headgate.flows import Dataflow, StepLauncher
from headgate.spark import Run, decode_result
from headgate.testing.dataflow import TestedDataflow

_CAUSE = Cause("test", "a test asked for it")


class StageTester(TestedDataflow):
    """Runs the stages of a dataflow file as an agent would, over tables in memory.

    States and increments are files in a folder of the test. Each run of a stage reads what came for
    it since its last run that did not raise: changes of containers, and all increments that other
    stages made. For the rest it is as with ``StepTester``. There is no Kafka: a stage that reads or
    writes topics cannot be run.

    Args:
        spark: the session of the test.
        dataflow: the file, or what was read of it.
        state: an empty folder, such as pytest's ``tmp_path``.
        profile: profile whose bounds count, where the file has several.

    Raises:
        DataflowErrors: the file is not in order.
        LookupError: it has no stage.
    """

    __test__ = False

    def __init__(
        self,
        spark: SparkSession,
        dataflow: Dataflow | Path | str,
        state: Path,
        profile: str | None = None,
    ) -> None:
        super().__init__(spark, dataflow, profile)
        stages = {one.name: one.stage for one in self.dataflow.spec.actions if one.stage}
        if not stages:
            message = f"{self.dataflow.file} has no stage; test its steps with StepTester"
            raise LookupError(message)
        self._stages = stages
        self._state = str(state.resolve())
        directory = str(Path(self.dataflow.file).resolve().parent)
        self._definition = Definition(self.dataflow.name, "", directory, 1, 0.0)
        self._since = {name: self.beginning() for name in stages}
        self._results: dict[str, str] = {}
        self._waiting: dict[str, dict[str, list[Increment]]] = {
            name: {flow: [] for flow in stage.inputs} for name, stage in stages.items()
        }
        """By stage and input flow, the increments that it has not read."""
        self._numbers = count()

    def run(
        self,
        action: str,
        stage: Callable[[Run], object],
        *,
        rebuild: bool = False,
        **parameters: Any,
    ) -> Run:
        """Run a stage once and commit, unless it raises.

        Args:
            action: its name in the file.
            stage: the stage.
            rebuild: True to begin with an empty state and read whole containers.
            parameters: instead of those of the same names in the file.

        Returns:
            The run, with what it has counted.

        Raises:
            LookupError: the file has no such stage, or it needs Kafka.
            Exception: what the stage raises; the next run then reads the same again, and more.
        """
        launcher = self._launcher_of(action)
        flows = self._stages[action]
        cut = self.end()
        taken = {
            flow: FlowTaken(source, tuple(self._waiting[action][flow]))
            for flow, source in flows.inputs.items()
        }
        since = Cut(dict(self._since[action]))
        work = Rebuild(taken) if rebuild else Advance(taken)
        launch = Launch(action, self.begin_run(), 1, Cut(cut), since, _CAUSE, work=work)
        request = stage_request(
            self.dataflow, self._definition, launch, self._needed_of(action), self._state,
            self._results,
        )  # fmt: skip
        with self.attempt(
            action,
            entry=launcher.step,
            parameters={**launcher.parameters, **parameters},
            cut=launch.cut,
            since=launch.since,
            previous=self._results.get(action, ""),
            stage=request,
        ) as run:
            stage(run)
            run.follow_commit()
        self._since[action] = cut
        for increments in self._waiting[action].values():
            increments.clear()
        self._hand_on(action, run)
        return run

    def waiting(self, action: str) -> dict[str, int]:
        """Return how many rows of each input flow from other stages wait for a stage."""
        return {
            flow: sum(one.rows for one in increments)
            for flow, increments in self._waiting[action].items()
        }

    def _launcher_of(self, action: str) -> StepLauncher:
        launcher = self.dataflow.launchers.get(action)
        if action not in self._stages or not isinstance(launcher, StepLauncher):
            known = ", ".join(self._stages)
            message = f"{self.dataflow.file} has no stage {action!r}; it has: {known}"
            raise LookupError(message)
        (of_file,) = [one for one in self.dataflow.spec.actions if one.name == action]
        topics = self.dataflow.topics.keys() & {*of_file.reads, *of_file.writes}
        if topics:
            named = ", ".join(sorted(topics))
            message = f"stage {action!r} needs topics, which are not there in a test: {named}"
            raise LookupError(message)
        return launcher

    def _needed_of(self, action: str) -> list[str]:
        """Return the increments of a stage that others have not read."""
        return [
            increment.name
            for reader, stage in self._stages.items()
            for flow, source in stage.inputs.items()
            if source.action == action
            for increment in self._waiting[reader][flow]
        ]

    def _hand_on(self, action: str, run: Run) -> None:
        """Give what a run has made to the stages that read it."""
        result = decode_result(run.result)
        if result is None:
            return
        self._results[action] = run.result
        for made in result.produced:
            increment = Increment(made.name, next(self._numbers), made.rows, made.key)
            source = FlowId(action, made.flow)
            for reader, stage in self._stages.items():
                for flow, wanted in stage.inputs.items():
                    if wanted == source:
                        self._waiting[reader][flow].append(increment)
