"""A dataflow twice over the same waves: as its file says, and beside it without bounds.

The second is the synchronous reference: every step runs after every wave. It reads the same input,
and has tables of its own for everything else. After each wave what people see in both is compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from headgate.cli.demo.example import SettledWave, Stand, Submission, Wave
from headgate.engine import ActionRole, CodecName, DataflowSpec
from headgate.flows import parse_dataflow

_REFERENCE = "synchronous-"
"""Prefix of the names of the reference and of its tables."""

_BATCH = 1000  # rows of one answer to a scan

Cell = tuple[bytes, bytes]
"""Row, column."""

Cells = dict[Cell, bytes]


class ComparedStep(Struct):
    """One step in both dataflows."""

    name: str
    description: str
    runs_synchronous: int = 0
    runs: int = 0
    seconds: float = 0.0
    """Sum over all runs under bounds, from launch to commit."""
    errors: list[float] = []
    """Error after each wave, 0 to 1: see :func:`difference`."""
    why: str = ""
    """Reason of its last run, and what it needs for the next one."""

    @property
    def saved(self) -> float:
        """Return the share of the synchronous runs that were left out."""
        return 1 - self.runs / self.runs_synchronous if self.runs_synchronous else 0.0

    @property
    def mean_error(self) -> float:
        """Return the mean error over all waves."""
        return sum(self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def worst_error(self) -> float:
        """Return the largest error of any wave."""
        return max(self.errors, default=0.0)


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
    """Both dataflows, and how far what one shows is from what the other shows: a trial.

    Args:
        tree: the dataflow under its bounds.
        file: where it was read from; steps are looked for beside it.
        waves: that are sent.
        errors: measures by step, where :func:`difference` says too little of an output: called with
            the synchronous one and the one under bounds, after each wave.

    Attributes:
        steps: by name, what each has cost and missed so far.
        waves: how many were measured so far.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        file: Path,
        waves: Iterable[Wave],
        errors: Mapping[str, Callable[[Cells, Cells], float]] | None = None,
    ) -> None:
        self._tree = tree
        self._file = file
        self._feed = waves
        self._errors = errors or {}
        parsed = [parse_dataflow(text, file.name) for text in self._texts()]
        self._specs = [one.spec for one in parsed]
        self._shown: list[dict[str, Cells]] = [{}, {}]
        self.waves = 0
        self.steps = {
            action.name: ComparedStep(action.name, parsed[1].actions[action.name].description)
            for action in self._specs[1].actions
            if action.role is not ActionRole.INPUT
        }

    def dataflows(self, _: Path) -> Sequence[Submission]:
        """Return the synchronous dataflow, and the one under bounds."""
        return [Submission(text, self._file) for text in self._texts()]

    def feed(self, stand: Stand) -> Iterator[Wave]:
        """Yield the waves; note after the last why each step has last run."""
        yield from self._feed
        for name, why in stand.dataflows.reasons(self._specs[1].name).items():
            if name in self.steps:
                self.steps[name].why = why

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare the outputs; return which steps ran under bounds."""
        self.waves += 1
        for spec, shown in zip(self._specs, self._shown, strict=True):
            for action in {run.action for run in wave.runs[spec.name]}:
                shown[action] = dict(_cells(stand, spec, action))
        synchronous, bounded = (wave.runs[spec.name] for spec in self._specs)
        for run in synchronous:
            self.steps[run.action].runs_synchronous += 1
        for run in bounded:
            self.steps[run.action].runs += 1
            self.steps[run.action].seconds += run.seconds
        self._compare()
        ran = {run.action for run in bounded}
        left = [name for name in self.steps if name not in ran]
        done = ", ".join(name for name in self.steps if name in ran) or "nothing"
        words = f"{'; left out ' if left else ''}{', '.join(left)}; {wave.seconds:.1f} s"
        return [f"{wave.label}: ran {done}{words}"]

    def output(self, action: str) -> Cells:
        """Return what a step under bounds has written, as it was after the last wave."""
        return self._shown[1].get(action, {})

    def shown(self) -> Iterator[RenderableType]:
        """Yield what each step cost and missed, and why it last ran, for people."""
        table = Table("step")
        for title in ("runs\nsync.", "runs\nbounds", "left\nout", "mean\nerror ε", "max\nerror ε"):
            table.add_column(title, justify="right")
        for step in self.steps.values():
            table.add_row(
                step.name,
                str(step.runs_synchronous),
                str(step.runs),
                f"{step.saved:.0%}",
                f"{step.mean_error:.2%}",
                f"{step.worst_error:.2%}",
            )
        yield table
        for step in self.steps.values():
            yield f"[bold]{step.name}[/bold] ({escape(step.description)}): {escape(step.why)}"
        yield "ε = Σ|x−x′| / Σmax(|x|, |x′|) of the step's whole output, after each wave."

    def document(self) -> dict[str, Any]:
        """Return the same for programs."""
        return {
            "waves": self.waves,
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
                for step in self.steps.values()
            },
        }

    def _texts(self) -> list[str]:
        both = (reference(self._tree), self._tree)
        return [yaml.safe_dump(one, sort_keys=False, allow_unicode=True) for one in both]

    def _compare(self) -> None:
        codecs = {watched.id: watched.codec.name for watched in self._specs[1].containers}
        for action in self._specs[1].actions:
            if action.name not in self.steps:
                continue
            numbers = all(codecs[one] is not CodecName.OPAQUE for one in action.writes)
            measure = self._errors.get(action.name, partial(difference, numbers=numbers))
            outputs = (outputs.get(action.name, {}) for outputs in self._shown)
            self.steps[action.name].errors.append(measure(*outputs))


def _cells(stand: Stand, spec: DataflowSpec, action: str) -> Iterator[tuple[Cell, bytes]]:
    """Yield what a step has written, as it is now."""
    written = next(one.writes for one in spec.actions if one.name == action)
    for watched in spec.containers:
        if watched.id not in written:
            continue
        for item in watched.container.items:
            column = item.column if item.qualifier is not None else item.family
            scan = stand.tables.table(item.table).scan(columns=[column], batch_size=_BATCH)
            for row, cells in scan:
                for name, value in cells.items():
                    yield (row, name), value
