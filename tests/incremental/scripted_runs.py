"""A dataflow of stages without agent, HBase or Spark: containers are lists, the ledger a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from headgate.engine import Codec, FilesSpec, OnChange, RunPurpose, TopicSpec
from headgate.events import Cut, Item, KeyForm
from headgate.incremental import Stage
from headgate.incremental.state import FileStore
from headgate.spark import (
    Increment,
    KafkaAddress,
    NamedColumns,
    Removal,
    Run,
    StageRequest,
    WrittenCell,
    decode_result,
)
from headgate.spark.removing import remove_cells
from headgate.spark.source.tables import CELLS, ColumnTarget, written_cells
from headgate.spark.views import ContainerView


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
        self.files = dict(flow.files)
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

    def write(self, frame: Any, container: str) -> int:
        table = frame if isinstance(frame, pa.Table) else frame.toArrow()
        self.written[container] = table.to_pylist()
        cells = self._flow.hbase.setdefault(self.table_of(container), {})
        for cell in self.cells(table, container).to_pylist():
            self._flow.hbase_calls()
            if cell["value"] is None:
                cells.pop((cell["row"], cell["column"]), None)
            else:
                cells[cell["row"], cell["column"]] = cell["value"]
        return len(table)

    def cells(self, table: pa.Table, container: str) -> pa.Table:
        names = list(table.column_names)
        if "row" not in names:
            table = table.rename_columns(["row", *names[1:]])
        is_text = pa.types.is_string(table.column("row").type)
        if not self._flow.strict_rows and not (is_text and all(table.column("row").to_pylist())):
            return CELLS.empty_table()  # tests that do not look at HBase have any keys
        # Days have no bytes in HBase: tests that do not look there have columns of them.
        days = [f.name for f in table.schema if pa.types.is_date(f.type)]
        table = table.drop_columns(days)
        targets = {
            name: ColumnTarget(f"f:{name}".encode()) for name in table.column_names if name != "row"
        }
        return written_cells(table, targets)

    def table_of(self, container: str) -> str:
        return self._flow.tables.get(container, container)

    def remove(self, cells: Iterable[WrittenCell], container: str) -> Removal:
        items = (Item(self.table_of(container), b"f"),)
        view = ContainerView(container, self.table_of(container), items, Codec())
        connection: Any = ScriptedConnection(self._flow)
        return remove_cells(connection, view, cells, None, lambda: None)

    def commit_as(self, result: str) -> None:
        self.result = result

    def when_committed(self, follow: Callable[[], object]) -> None:
        self.following.append(follow)


class ScriptedConnection:
    """HBase's cells, as far as cells are removed."""

    def __init__(self, flow: ScriptedFlow) -> None:
        self._flow = flow

    def get(self, table: str, row: bytes, columns: Sequence[bytes]) -> dict[bytes, bytes]:
        cells = self._flow.hbase.get(table, {})
        return {name: cells[row, name] for name in columns if (row, name) in cells}

    def check_and_delete(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes,
        delete: Sequence[bytes],
        origin: object,
    ) -> bool:
        self._flow.hbase_calls()
        cells = self._flow.hbase[table]
        if cells.get((row, column)) != expected:
            return False
        for name in delete:
            cells.pop((row, name), None)
        return True


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
        self.files: dict[str, str] = {}
        """Hashes of the files that they depend on."""
        self.described: dict[str, str] = {}
        """Hashes of what the containers are."""
        self.hbase: dict[str, dict[tuple[bytes, bytes], bytes]] = {}
        """Values by row and column, by table: what attempts have written, committed or not."""
        self.tables: dict[str, str] = {}
        """Tables of containers that have another name than these."""
        self.strict_rows = False
        """True if rows that have no key in HBase are refused, as a run does."""
        self.hbase_calls: Callable[[], object] = lambda: None
        """Called before each write; may raise."""
        self.spark: Any = None
        """A session, where runs are to have one."""
        self._runs = 0

    @property
    def store(self) -> FileStore:
        """Location of the stages' files."""
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
            {
                action: result.manifest
                for action, named in self.results.items()
                if (result := decode_result(named)) is not None
            },
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
