"""Steps of a dataflow file over tables in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.events import Cut
from headgate.flows import Dataflow, StepLauncher
from headgate.spark import Run
from headgate.testing.dataflow import TestedDataflow

Step = Callable[[Run], object]


class StepTester(TestedDataflow):
    """Runs a step of a dataflow file as an agent would, over tables in memory.

    Containers, codecs, names of columns, parameters and what becomes of undecodable values are
    those of the file. Each run sees the changes since the last one that did not raise. There are
    no older versions of cells, no times to live, and no tasks of Spark that read or write: the
    driver does all of that.

    Args:
        spark: the session of the test.
        dataflow: the file, or what was read of it.
        action: the name of the step.
        profile: profile whose bounds count, where the file has several.

    Raises:
        DataflowErrors: the file is not in order.
        LookupError: it has no such step.
    """

    def __init__(
        self,
        spark: SparkSession,
        dataflow: Dataflow | Path | str,
        action: str,
        profile: str | None = None,
    ) -> None:
        super().__init__(spark, dataflow, profile)
        launchers = self.dataflow.launchers
        steps = {n: one for n, one in launchers.items() if isinstance(one, StepLauncher)}
        if action not in steps:
            known = ", ".join(steps) or "none"
            message = f"{self.dataflow.file} has no step {action!r}; it has: {known}"
            raise LookupError(message)
        self._action = action
        self._launcher = steps[action]
        self._result = ""
        self._since = self.beginning()

    def run(self, step: Step, **parameters: Any) -> Run:
        """Run the step once and commit, unless it raises.

        Args:
            step: the function.
            parameters: instead of those of the same names in the file.

        Returns:
            The run, with what it has counted and named.

        Raises:
            Exception: what the step raises; the next run then sees its changes too.
        """
        self.begin_run()
        cut = self.end()
        with self.attempt(
            self._action,
            entry=self._launcher.step,
            parameters={**self._launcher.parameters, **parameters},
            cut=Cut(cut),
            since=Cut(dict(self._since)),
            previous=self._result,
        ) as run:
            step(run)
            run.follow_commit()
        self._since = cut
        self._result = run.result or self._result
        return run
