"""A dataflow twice over the same waves: as its file says, and beside it without bounds.

The second is the synchronous reference: every step runs after every wave. It reads the same input,
and has tables of its own for everything else. After each wave what people see in both is compared.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import yaml
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headgate.cli.demo.dataflows import AgentDataflows
from headgate.cli.demo.hbase import FreshTables, create_tables_of, put_rows
from headgate.cli.demo.narration import Narrator
from headgate.engine import ActionRole, CodecName, DataflowSpec
from headgate.flows import parse_dataflow

_REFERENCE = "synchronous-"
"""Begins the names of the reference and of its tables."""

_BATCH = 1000  # rows of one answer to a scan

Cell = tuple[bytes, bytes]
"""Row, column."""

Cells = dict[Cell, bytes]


class Services(Protocol):
    """Where the dataflows run: a proxy for HBase's first Thrift API, and an agent's address."""

    thrift1: tuple[str, int]
    api: str


class WaveInput(Struct, frozen=True):
    """What is written before the dataflow is looked at again."""

    label: str
    """What people call it."""
    puts: Mapping[str, Iterable[tuple[bytes, Mapping[bytes, bytes]]]]
    """By table: row and cells."""


class ComparedStep(Struct):
    """One step in both dataflows."""

    name: str
    description: str
    runs_synchronous: int = 0
    runs: int = 0
    seconds: float = 0.0
    """From launch to commit, of all its runs under bounds."""
    errors: list[float] = []
    """After each wave, 0 to 1: see :func:`difference`."""
    why: str = ""
    """Why it last ran, and what it needs for its next run."""

    @property
    def saved(self) -> float:
        """Share of the synchronous runs that were left out."""
        return 1 - self.runs / self.runs_synchronous if self.runs_synchronous else 0.0

    @property
    def mean_error(self) -> float:
        """Over all waves."""
        return sum(self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def worst_error(self) -> float:
        """Of all waves."""
        return max(self.errors, default=0.0)


def read_example(file: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return a dataflow file's tree; ``change`` may put the input's own parameters into it."""
    tree: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    change(tree)
    return tree


def reference(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same dataflow without bounds, with the same input and tables of its own."""
    result: dict[str, Any] = copy.deepcopy(dict(tree))
    result["name"] = _REFERENCE + tree["name"]
    inputs: set[str] = set()
    for action in result["actions"].values():
        given = action.get("input", [])
        inputs.update([given] if isinstance(given, str) else given)
        for key in ("when", "combine", "evaluate"):
            action.pop(key, None)
    result["containers"] = {
        name: place if name in inputs else _moved(place)
        for name, place in result["containers"].items()
    }
    return result


def _moved(place: str | dict[str, Any]) -> str | dict[str, Any]:
    match place:
        case str():
            return _REFERENCE + place
        case {"group": parts}:
            return {**place, "group": [_moved(part) for part in parts]}
        case _:
            return {**place, "table": _REFERENCE + place["table"]}


def difference(synchronous: Cells, shown: Cells, *, numbers: bool) -> float:
    """Return how far a step's whole output is from the synchronous one, 0 to 1.

    Numbers: Σ|x−x′| / Σmax(|x|, |x′|), design's ε; a missing one is 0. Anything else: the share of
    cells that are another, or in one output only.
    """
    cells = synchronous.keys() | shown.keys()
    if not numbers:
        apart = sum(synchronous.get(cell) != shown.get(cell) for cell in cells)
        return apart / len(cells) if cells else 0.0
    pairs = [(float(synchronous.get(cell, 0)), float(shown.get(cell, 0))) for cell in cells]
    scale = sum(abs(x) + abs(y) if x * y < 0 else max(abs(x), abs(y)) for x, y in pairs)
    return sum(abs(x - y) for x, y in pairs) / scale if scale else 0.0


class SynchronousComparison:
    """Both dataflows on running services.

    Args:
        tree: the dataflow under its bounds.
        file: where it was read from; steps are looked for beside it.
        services: everything that it needs.
        narrator: prints what goes on.
        errors: measures by step, where :func:`difference` says too little of an output: called with
            the synchronous one and the one under bounds, after each wave.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        file: Path,
        services: Services,
        narrator: Narrator,
        errors: Mapping[str, Callable[[Cells, Cells], float]] | None = None,
    ) -> None:
        self._errors = errors or {}
        self._texts = [
            yaml.safe_dump(one, sort_keys=False, allow_unicode=True)
            for one in (reference(tree), tree)
        ]
        parsed = [parse_dataflow(text, file.name) for text in self._texts]
        self._specs = [one.spec for one in parsed]
        self._file = file
        self._services = services
        self._narrator = narrator
        self._hbase = FreshTables(*services.thrift1)
        self._shown: list[dict[str, Cells]] = [{}, {}]
        self._known = [-1, -1]
        self.waves: list[str] = []
        self.steps = {
            action.name: ComparedStep(action.name, parsed[1].actions[action.name].description)
            for action in self._specs[1].actions
            if action.role is not ActionRole.INPUT
        }

    def send(self, waves: Iterable[WaveInput]) -> None:
        """Send all waves, and compare the outputs after each.

        Raises:
            DemoError: a dataflow is stuck.
        """
        dataflows = AgentDataflows(self._services.api)
        names = [spec.name for spec in self._specs]
        try:
            self._narrator.say("tables: creating")
            create_tables_of(*self._services.thrift1, self._specs)
            self._narrator.say(f"dataflows: submitting {' and '.join(names)}")
            with ThreadPoolExecutor(len(names)) as pool:
                list(
                    pool.map(
                        lambda text: dataflows.submit(text, self._file.parent, self._file.name),
                        self._texts,
                    )
                )
            self._narrator.say("Spark: starting a session for each dataflow")
            dataflows.wait_warm(names)
            for wave in waves:
                began = time.monotonic()
                self._feed(wave)
                dataflows.end_wave(names)
                ran = [self._look(at, dataflows) for at in range(len(names))]
                self._compare()
                self.waves.append(wave.label)
                self._report(wave.label, ran[1], time.monotonic() - began)
            for name, why in dataflows.reasons(names[1]).items():
                if name in self.steps:
                    self.steps[name].why = why
        finally:
            dataflows.close()

    def output(self, action: str) -> Cells:
        """Return what a step under bounds has written, as it was after the last wave."""
        return self._shown[1].get(action, {})

    def _feed(self, wave: WaveInput) -> None:
        for table, puts in wave.puts.items():
            put_rows(self._hbase, table, puts)

    def _look(self, at: int, dataflows: AgentDataflows) -> set[str]:
        """Note what ran in a dataflow since the last look, and read again what it wrote."""
        spec = self._specs[at]
        runs = dataflows.finished(spec.name, self._known[at])
        self._known[at] = max((self._known[at], *(run.number for run in runs)))
        for run in runs:
            step = self.steps[run.action]
            if at == 0:
                step.runs_synchronous += 1
            else:
                step.runs += 1
                step.seconds += run.seconds
        ran = {run.action for run in runs}
        for action in ran:
            self._shown[at][action] = dict(self._cells(spec, action))
        return ran

    def _cells(self, spec: DataflowSpec, action: str) -> Iterator[tuple[Cell, bytes]]:
        written = next(one.writes for one in spec.actions if one.name == action)
        for watched in spec.containers:
            if watched.id not in written:
                continue
            for item in watched.container.items:
                column = item.column if item.qualifier is not None else item.family
                scan = self._hbase.table(item.table).scan(columns=[column], batch_size=_BATCH)
                for row, cells in scan:
                    for name, value in cells.items():
                        yield (row, name), value

    def _compare(self) -> None:
        codecs = {watched.id: watched.codec.name for watched in self._specs[1].containers}
        for action in self._specs[1].actions:
            if action.name not in self.steps:
                continue
            numbers = all(codecs[one] is not CodecName.OPAQUE for one in action.writes)
            measure = self._errors.get(action.name, partial(difference, numbers=numbers))
            outputs = (outputs.get(action.name, {}) for outputs in self._shown)
            self.steps[action.name].errors.append(measure(*outputs))

    def _report(self, label: str, ran: set[str], seconds: float) -> None:
        self._narrator.done(len(self.waves))
        left: Sequence[str] = [name for name in self.steps if name not in ran]
        done = ", ".join(name for name in self.steps if name in ran) or "nothing"
        self._narrator.say(
            f"{label}: ran {done}{'; left out ' if left else ''}{', '.join(left)}; {seconds:.1f} s"
        )


def print_steps(console: Console, comparison: SynchronousComparison) -> None:
    """Print what each step cost and missed, and why it last ran."""
    table = Table()
    table.add_column("step")
    for title in ("runs\nsync.", "runs\nbounds", "left\nout", "mean\nerror ε", "max\nerror ε"):
        table.add_column(title, justify="right")
    for step in comparison.steps.values():
        table.add_row(
            step.name,
            str(step.runs_synchronous),
            str(step.runs),
            f"{step.saved:.0%}",
            f"{step.mean_error:.2%}",
            f"{step.worst_error:.2%}",
        )
    console.print(table)
    for step in comparison.steps.values():
        console.print(f"[bold]{step.name}[/bold] ({escape(step.description)}): {escape(step.why)}")
    console.print("ε = Σ|x−x′| / Σmax(|x|, |x′|) of the step's whole output, after each wave.")


def summary(comparison: SynchronousComparison) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "waves": len(comparison.waves),
        "steps": {
            step.name: {
                "runs_synchronous": step.runs_synchronous,
                "runs": step.runs,
                "saved_percent": 100 * step.saved,
                "mean_error": step.mean_error,
                "max_error": step.worst_error,
                "seconds": step.seconds,
                "why": step.why,
            }
            for step in comparison.steps.values()
        },
    }
