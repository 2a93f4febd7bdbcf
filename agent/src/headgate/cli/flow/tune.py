"""``headgate flow tune``: bounds for a target error or a target saving, found by replays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headgate.agent import POLICIES, TRIGGER_KINDS, FlowRecording
from headgate.cli.json_document import JsonOption, print_document
from headgate.cli.replay import ConfigOption, KafkaOption, kafka_of, outcome
from headgate.engine import ActionRole, DataflowSpec
from headgate.flows import bounded_actions, parse_dataflow, scale_limits
from headgate.replay import ErrorTarget, Factors, Replayed, SavingTarget, Target, Trial, Tuned, tune

_ROWS = 16
"""Lines of the trade-off that are printed; ``--json`` has all."""


class TuningError(ValueError):
    """What was asked for can't be searched; the message says why."""


class Point(Struct, frozen=True):
    """One point of the trade-off."""

    saved: float
    error: float
    runs: int
    factors: dict[str, float]


class TuneResult(Struct, frozen=True):
    """What ``--json`` prints."""

    dataflow: str
    met: bool
    """Whether the target was met; otherwise the proposal is what comes nearest."""
    passes: int
    proposed: Point
    runs: dict[str, int]
    """Runs of each step under the proposed bounds."""
    recorded: dict[str, int]
    curve: tuple[Point, ...]
    source: str
    """The proposed dataflow file."""


def flow_tune(
    name: Annotated[str, typer.Argument(help="Name of the dataflow.")],
    *,
    error: Annotated[
        float | None,
        typer.Option(help="Target: mean error ε of the outputs in percent, at most."),
    ] = None,
    saving: Annotated[
        float | None, typer.Option(help="Target: runs saved in percent, at least.")
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(help="Step whose error counts. Default: those that no other follows."),
    ] = None,
    bounds: Annotated[
        Path | None,
        typer.Option("--bounds", "-b", help="Dataflow file to start from, not the recorded one."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Where to write the proposed dataflow file.")
    ] = None,
    kafka: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Propose bounds for a target, by replaying what was recorded under many.

    All limits of a step keep their proportions. A dataflow without any bounds gets one for each
    step: a percentage of the elements of what it reads.
    """
    console = Console(stderr=json)
    with outcome(console, "flow tune"):
        target = _target(error, saving)
        recording = FlowRecording(kafka_of(kafka, config), name, POLICIES)
        _refuse_without_limits(recording.triggered, f"{name} was recorded with")
        source = bounds.read_text(encoding="utf-8") if bounds else recording.dataflow.source
        spec = parse_dataflow(source, str(bounds or name)).spec
        _refuse_without_limits(
            lambda kind: [action.name for action in spec.triggered(kind)], f"{bounds or name} has"
        )
        fresh = {} if bounded_actions(source) else _watched(spec)
        actions = bounded_actions(source) or tuple(fresh)
        if not actions:
            raise TuningError(f"no step of {name} reads a container on which it could be bounded")

        def evaluate(candidates: Sequence[Factors]) -> list[Replayed]:
            texts = {str(i): scale_limits(source, c, fresh) for i, c in enumerate(candidates)}
            specs = {label: parse_dataflow(text, label).spec for label, text in texts.items()}
            console.print(f"replaying under {len(specs)} sets of bounds", highlight=False)
            return list(recording.replay(specs).report.replays[1:])

        found = tune(evaluate, actions, _outputs(spec, output or []), target)
        text = scale_limits(source, found.best.factors, fresh)
        if write is not None:
            write.write_text(text, encoding="utf-8")
    result = _result(name, found, text)
    if json:
        print_document(result)
        return
    _show(console, result, write)


def _target(error: float | None, saving: float | None) -> Target:
    if (error is None) == (saving is None):
        raise TuningError("give one target: --error 5 (percent, at most) or --saving 60 (at least)")
    if not all(math.isfinite(each) for each in (error, saving) if each is not None):
        raise TuningError("a target is a number of percent, such as --error 5 or --saving 60")
    if error is not None:
        return ErrorTarget(error / 100)
    return SavingTarget((saving or 0.0) / 100)


def _refuse_without_limits(triggered: Callable[[str], Sequence[str]], who: str) -> None:
    """Refuse steps whose triggers go by a section of the dataflow file, not by bounds.

    Args:
        triggered: returns the steps with triggers of a kind.
        who: has them, in words.
    """
    for kind in TRIGGER_KINDS:
        steps = triggered(kind.kind) if kind.section else ()
        if steps:
            raise TuningError(
                f"{who} {kind.kind} triggers on {', '.join(steps)}: they have no limits that could "
                f"be scaled, and go by `{kind.section}`; compare settings with `headgate replay "
                "--bounds`"
            )


def _watched(spec: DataflowSpec) -> dict[str, str]:
    """Return what each step reads first."""
    return {a.name: a.reads[0] for a in spec.actions if a.role is ActionRole.STEP and a.reads}


def _outputs(spec: DataflowSpec, chosen: list[str]) -> list[str]:
    steps = {a.name: a for a in spec.actions if a.role is ActionRole.STEP}
    unknown = [name for name in chosen if name not in steps or not steps[name].writes]
    if unknown:
        known = ", ".join(name for name, step in steps.items() if step.writes)
        raise TuningError(f"{unknown[0]!r} is no step that writes; there are: {known}")
    followed = {name for step in steps.values() for name in step.after}
    outputs = chosen or [n for n, step in steps.items() if n not in followed and step.writes]
    if not outputs:
        raise TuningError("no step that others do not follow says what it writes; name --output")
    return outputs


def _result(name: str, found: Tuned, text: str) -> TuneResult:
    steps = found.best.replayed.steps
    return TuneResult(
        dataflow=name,
        met=found.met,
        passes=found.passes,
        proposed=_point(found.best),
        runs={step.action: len(step.runs) for step in steps},
        recorded={step.action: step.recorded for step in steps},
        curve=tuple(map(_point, found.curve)),
        source=text,
    )


def _point(trial: Trial) -> Point:
    return Point(trial.saved, trial.error, trial.replayed.runs, dict(trial.factors))


def _show(console: Console, result: TuneResult, write: Path | None) -> None:
    table = Table(title="Trade-off", title_justify="left", title_style="bold")
    for heading in ("saved", "mean ε", "runs"):
        table.add_column(heading, justify="right")
    table.add_column("limits times")
    for point in _thinned(result):
        mark = "bold" if point == result.proposed else None
        factors = ", ".join(f"{action} {factor:.3g}" for action, factor in point.factors.items())
        table.add_row(
            f"{100 * point.saved:.1f} %",
            f"{100 * point.error:.2f} %",
            str(point.runs),
            factors,
            style=mark,
        )
    console.print(table)
    proposed = result.proposed
    words = "meets the target" if result.met else "misses the target; nothing tried comes nearer"
    console.print(
        f"Proposed (bold): saves {100 * proposed.saved:.1f} % of the recorded runs with a mean "
        f"error of {100 * proposed.error:.2f} %; it {words}."
    )
    if write is not None:
        console.print(f"Written: [bold]{escape(str(write))}[/bold]", soft_wrap=True)
    else:
        console.print(escape(result.source), highlight=False, soft_wrap=True)


def _thinned(result: TuneResult) -> list[Point]:
    curve = list(result.curve)
    step = max(1, -(-len(curve) // _ROWS))
    kept = [p for i, p in enumerate(curve) if i % step == 0 or p == result.proposed]
    return kept if result.proposed in kept else [*kept, result.proposed]
