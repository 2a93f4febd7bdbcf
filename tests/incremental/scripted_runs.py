"""A dataflow of stages without agent, HBase or Spark: containers are lists, the ledger a dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from headgate.engine import FilesSpec, OnChange, RunPurpose, TopicSpec
from headgate.events import Cut, KeyForm
from headgate.incremental import Stage
from headgate.incremental.state import FileStore
from headgate.spark import Increment, KafkaAddress, NamedColumns, Run, StageRequest, decode_result


class ScriptedRun:
    """One attempt, as a stage sees it."""

    def __init__(
        self, flow: ScriptedFlow, action: str, number: int, attempt: int, stage: StageRequest | None
    ) -> None:
        self._flow = flow
        self.spark = flow.spark
        self.dataflow = "flow"
        self.action = action
        self.id = f"{action}-{number}"
        self.attempt = attempt
        self.token = number
        self.stage = stage
        self.previous = flow.results.get(action, "")
        self.containers = tuple(flow.containers)
        self.cut = Cut({name: (len(rows),) for name, rows in flow.containers.items()})
        self.driver_rows = flow.driver_rows
        self.code = dict(flow.code)
        self.parameters: dict[str, Any] = {}
        self.written: dict[str, list[dict[str, Any]]] = {}
        self.result = ""
        self.kafka = KafkaAddress("127.0.0.1:1")
        self.following: list[Callable[[], object]] = []

    def increment(
        self, container: str, *, since: Cut | None = None, whole: bool = False
    ) -> Increment:
        start = 0 if since is None or whole else since.offsets[container][0]
        rows = self._flow.containers[container][start : self.cut.offsets[container][0]]
        return Increment(pa.Table.from_pylist(rows, self._flow.schema), whole=whole)

    def naming(self, container: str) -> NamedColumns:
        return self._flow.namings.get(container, NamedColumns("f", (), KeyForm.TEXT, is_open=False))

    def write(self, table: pa.Table, container: str) -> int:
        self.written[container] = table.to_pylist()
        return len(table)

    def commit_as(self, result: str) -> None:
        self.result = result

    def when_committed(self, follow: Callable[[], object]) -> None:
        self.following.append(follow)


class ScriptedFlow:
    """Stages by action, what is written to containers, and what runs have committed.

    Args:
        path: where states are.
        containers: names of those that are read and written.
        schema: of the rows of containers that are read.
    """

    def __init__(self, path: Path, containers: Sequence[str], schema: pa.Schema) -> None:
        self.path = path
        self.containers: dict[str, list[dict[str, Any]]] = {name: [] for name in containers}
        self.schema = schema
        self.results: dict[str, str] = {}
        self.outputs: dict[str, list[dict[str, Any]]] = {}
        """By container, what committed runs have written."""
        self.namings: dict[str, NamedColumns] = {}
        """Naming of columns, by container, unless all are declared and of one family."""
        self.driver_rows = 50_000
        self.code: dict[str, str] = {}
        """Hashes of the modules of the stages that run."""
        self.described: dict[str, str] = {}
        """Hashes of what the containers are."""
        self.spark: Any = None
        """A session, where runs are to have one."""
        self._runs = 0

    @property
    def store(self) -> FileStore:
        """Where the files of the stages are."""
        return FileStore.at(self.path)

    def request(
        self,
        reads: Mapping[str, Sequence[str]] | None = None,
        out: Sequence[str] = (),
        needed: Sequence[str] = (),
        on_change: OnChange = OnChange.REFUSE,
        purpose: RunPurpose = RunPurpose.ADVANCE,
        sources: Mapping[str, FilesSpec | TopicSpec] | None = None,
        sinks: Mapping[str, FilesSpec | TopicSpec] | None = None,
    ) -> StageRequest:
        return StageRequest(
            str(self.path),
            {flow: tuple(names) for flow, names in (reads or {}).items()},
            tuple(out),
            tuple(needed),
            on_change,
            purpose,
            dict(sources or {}),
            dict(sinks or {}),
            dict(self.described),
        )

    def attempt(
        self, action: str, stage: StageRequest | None = None, attempt: int = 1
    ) -> ScriptedRun:
        """Return an attempt of a run that begins now."""
        self._runs += 1
        return ScriptedRun(self, action, self._runs, attempt, stage)

    def commit(self, run: ScriptedRun) -> dict[str, str]:
        """Have an attempt count; return the names of its increments by flow.

        What is to follow the commit is left to ``run``: whoever commits may be gone by then.
        """
        if run.stage is not None and run.stage.purpose.maintains and not run.result:
            return {}  # there was nothing to do
        self.results[run.action] = run.result
        for container, rows in run.written.items():
            self.outputs.setdefault(container, []).extend(rows)
        result = decode_result(run.result)
        assert result is not None
        return {one.flow: one.name for one in result.produced}

    def run(self, action: str, stage: Stage, request: StageRequest) -> dict[str, str]:
        """Have a run of a stage made and committed; return the names of its increments by flow."""
        run = self.attempt(action, request)
        stage(cast(Run, run))
        made = self.commit(run)
        for follow in run.following:
            follow()
        return made
