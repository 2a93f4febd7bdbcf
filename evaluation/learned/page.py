"""The page about SmartFlux's evaluation: its figures 7 to 12, drawn from a run."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec import Struct

from evaluation.drawing import COLOURS, INK, PAGE_STYLE, STYLE, WIDTH, svg
from evaluation.learned.classification import FIGURE_7_BOUND
from evaluation.learned.evaluation import BOUNDS, CONFIDENCE, SETTLED, Outcome, Seed
from evaluation.learned.figures import chosen, running_confidence, running_executions, table_of
from evaluation.learned.sentences import (
    classifiers_in_words,
    decisions_in_words,
    missed_in_words,
    naive_in_words,
    savings_in_words,
)
from evaluation.learned.tables import (
    classifier_table,
    confidence_table,
    denominator_table,
    execution_table,
    overhead_table,
    quality_table,
)

_PAGE = Path(__file__).with_name("page.html")
"""The page around the drawings; ``$name`` is filled in."""
_PANEL = 2.6  # inches, the height of a panel
_NAIVE: Final = ("learned", "random", "seq2", "seq3", "seq4", "seq5")
"""What figure 11 compares, at its bound."""
_NAIVE_BOUND: Final = 0.05
_MISSING = "<p>Not part of this run.</p>"

Results = Mapping[str, Sequence[Seed]]
"""Of each dataflow, seed by seed."""


class Conditions(Struct, frozen=True):
    """What a run was of."""

    seeds: int
    detectors: int
    """Of AQHI."""
    seconds: float


def write_page(
    results: Results, figures: Mapping[str, Any], conditions: Conditions, path: Path
) -> Path:
    """Write the page and return its absolute path; folders are made.

    Args:
        results: of each dataflow, seed by seed; of the first, the extra measurements are drawn.
        figures: of each dataflow, as they are printed.
        conditions: of the run.
        path: where to.

    Raises:
        OSError: the file cannot be written.
    """
    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        text = _render(results, figures, conditions)
    path.write_text(text, encoding="utf-8")
    return path


def _render(results: Results, figures: Mapping[str, Any], conditions: Conditions) -> str:
    drawings = {
        "figure7": _each(results, _impacts),
        "figure8": _each(figures, _learning_curves),
        "figure9": _each(results, _last_step),
        "figure10": _each(results, _confidences),
        "figure11": _each(results, _naive),
        "figure12": _each(results, _executions),
    }
    tables = {
        "calibrated": _each(figures, quality_table),
        "classifiers": _each(figures, classifier_table),
        "confidences": _each(figures, confidence_table),
        "executions": _each(figures, execution_table),
        "denominators": _each(figures, denominator_table),
        "overheads": _each(figures, overhead_table),
        "policies": "".join(
            f"<h3>{name}</h3><pre>{html.escape(table_of(each))}</pre>"
            for name, each in figures.items()
        ),
    }
    sentences = {
        "classifiers_in_words": _sentences(figures, classifiers_in_words),
        "missed_in_words": _sentences(figures, missed_in_words),
        "naive_in_words": _sentences(figures, naive_in_words),
        "savings_in_words": _sentences(figures, savings_in_words),
        "decisions_in_words": _sentences(figures, decisions_in_words),
    }
    return string.Template(_PAGE.read_text(encoding="utf-8")).substitute(
        style=PAGE_STYLE.read_text(encoding="utf-8"),
        dataflows=" and ".join(results),
        seeds=conditions.seeds,
        detectors=f"{conditions.detectors:,}",
        minutes=f"{conditions.seconds / 60.0:.0f}",
        confidence=f"{100 * CONFIDENCE:g}",
        settled=SETTLED,
        figure7_bound=f"{100 * FIGURE_7_BOUND:g}",
        figures=html.escape(json.dumps(figures, indent=1)),
        **drawings,
        **tables,
        **sentences,
    )


def _each(found: Mapping[str, Any], draw: Callable[[Any], str]) -> str:
    """Return what is drawn of each dataflow, below its name."""
    return "".join(f"<h3>{name}</h3>{draw(each) or _MISSING}" for name, each in found.items())


def _sentences(figures: Mapping[str, Any], say: Callable[[Any], str]) -> str:
    found = {name: say(each) for name, each in figures.items()}
    return html.escape(" ".join(f"{name}: {words}" for name, words in found.items() if words))


def _outcomes(seeds: Sequence[Seed]) -> list[Outcome]:
    return [outcome for seed in seeds for outcome in seed.outcomes]


def _impacts(seeds: Sequence[Seed]) -> str:
    """Draw figure 7: ι against ε of the simulated runs, one panel a step."""
    found = next((seed.classification for seed in seeds if seed.classification), None)
    if found is None:
        return ""
    figure, panels = _panels(-(-len(found.points) // 3), 3)
    for axes, (step, points) in zip(panels, found.points.items(), strict=False):
        impacts, known = np.array(points).T
        axes.plot(impacts, known, "o", color=COLOURS[0], markersize=1.6, alpha=0.6)
        axes.axhline(FIGURE_7_BOUND, color=INK, linewidth=0.8, linestyle="--")
        axes.set(title=f"step {step}", xlabel="ι", ylabel="ε", xlim=(0, None), ylim=(0, None))
    for axes in panels[len(found.points) :]:
        axes.set_axis_off()
    return svg(figure)


def _learning_curves(figures: Mapping[str, Any]) -> str:
    """Draw figure 8: accuracy, precision and recall by waves of training, one panel a bound."""
    if "figure_8" not in figures:
        return ""
    figure, panels = _panels(1, len(BOUNDS))
    for axes, (bound, ways) in zip(panels, figures["figure_8"].items(), strict=True):
        for way, line in (("learned", "-"), ("paper", ":")):
            for name, colour in zip(("accuracy", "precision", "recall"), COLOURS, strict=False):
                values = [(int(count), each[name]) for count, each in ways[way].items()]
                known = [(count, 100 * value) for count, value in values if value is not None]
                label = name if way == "learned" else f"{name}, paper's forest"
                waves, shares = np.reshape(known, (-1, 2)).T
                axes.plot(waves, shares, line, color=colour, linewidth=1.3, label=label)
        axes.set(title=_percent(bound), xlabel="waves of training", ylabel="%", ylim=(0, 102))
    _legend(figure, panels[0], 3)
    return svg(figure)


def _last_step(seeds: Sequence[Seed]) -> str:
    """Draw figure 9: ε of the last step, as predicted and as is possible, and how they differ."""
    last = _outcomes(seeds[:1])
    step = next(each.name for each in reversed(last) if each.setting == "step")
    figure, panels = _panels(2, len(BOUNDS))
    for at, bound in enumerate(BOUNDS):
        learned, optimal = (
            np.array(next(o for o in chosen(last, "step", p, bound) if o.name == step).errors)
            for p in ("learned", "oracle")
        )
        above, below = panels[at], panels[at + len(BOUNDS)]
        waves = np.arange(1, len(learned) + 1)
        above.plot(waves, optimal, color=COLOURS[1], linewidth=0.7, label="measured (optimal runs)")
        above.plot(
            waves, learned, color=COLOURS[0], linewidth=0.7, label="predicted (learned runs)"
        )
        above.axhline(bound, color=INK, linewidth=0.8, linestyle="--")
        above.set(title=f"step {step}, {_percent(bound)}", ylabel="ε", ylim=(0, None))
        below.plot(waves, learned - optimal, ".", color=COLOURS[3], markersize=3)
        below.axhline(0.0, color=INK, linewidth=0.8)
        below.set(xlabel="wave", ylabel="predicted − measured")
    _legend(figure, panels[0], 2)
    return svg(figure)


def _confidences(seeds: Sequence[Seed]) -> str:
    """Draw figure 10: waves within the bound, of steps as in the paper and of the whole."""
    outcomes = _outcomes(seeds)
    figure, panels = _panels(1, 2)
    for axes, (setting, title) in zip(
        panels,
        (("step", "all steps, each on synchronous input"), ("whole", "outputs of the whole")),
        strict=True,
    ):
        for bound, colour in zip(BOUNDS, COLOURS, strict=False):
            shares = running_confidence(chosen(outcomes, setting, "learned", bound))
            _running(axes, shares, _percent(bound), colour)
        axes.set(title=title, ylim=(80, 100.5))
        _goal(axes)
    _legend(figure, panels[0], 4)
    return svg(figure)


def _naive(seeds: Sequence[Seed]) -> str:
    """Draw figure 11: confidence of learned triggers and of policies that look at nothing."""
    outcomes = _outcomes(seeds)
    figure, panels = _panels(1, 1)
    for policy, colour in zip(_NAIVE, COLOURS, strict=False):
        shares = running_confidence(chosen(outcomes, "step", policy, _NAIVE_BOUND))
        _running(panels[0], shares, policy, colour)
    panels[0].set(ylim=(0, 102))
    _goal(panels[0])
    _legend(figure, panels[0], len(_NAIVE) + 1)
    return svg(figure)


def _executions(seeds: Sequence[Seed]) -> str:
    """Draw figure 12: executions wave by wave against synchronous ones, and in all."""
    outcomes = _outcomes(seeds)
    figure, (left, right) = _panels(1, 2)
    for bound, colour in zip(BOUNDS, COLOURS, strict=False):
        for policy, line in (("learned", "-"), ("oracle", ":")):
            shares = running_executions(chosen(outcomes, "step", policy, bound))
            label = _percent(bound) + (", optimal" if policy == "oracle" else "")
            _running(left, shares, label, colour, line)
    left.set(ylabel="executions (%)", ylim=(0, 102))
    left.legend(fontsize="x-small", ncols=3, loc="lower right")
    places = np.arange(len(BOUNDS))
    for at, (policy, colour) in enumerate((("learned", COLOURS[0]), ("oracle", COLOURS[1]))):
        totals = [
            sum(sum(each.ran) for each in chosen(outcomes, "step", policy, bound))
            for bound in BOUNDS
        ]
        label = "optimal" if policy == "oracle" else policy
        bars = right.bar(places + 0.28 * at, totals, 0.26, color=colour, label=label)
        right.bar_label(bars, fmt="{:,.0f}", fontsize="x-small")
    waves = [
        sum(len(each.ran) for each in chosen(outcomes, "step", "learned", bound))
        for bound in BOUNDS
    ]
    bars = right.bar(places + 0.56, waves, 0.26, color=COLOURS[2], label="synchronous")
    right.bar_label(bars, fmt="{:,.0f}", fontsize="x-small")
    right.set_xticks(places + 0.28, list(map(_percent, BOUNDS)))
    right.set(ylabel="executions in all", ylim=(0, 1.25 * max(waves)))
    right.legend(fontsize="small", ncols=3, loc="upper left")
    return svg(figure)


def _running(axes: Axes, shares: Any, label: str, colour: str, line: str = "-") -> None:
    waves = np.arange(1, len(shares) + 1)
    axes.plot(waves, 100 * shares, line, color=colour, linewidth=1.3, label=label)
    axes.set(xlabel="wave", ylabel="confidence (%)")


def _goal(axes: Axes) -> None:
    label = f"{100 * CONFIDENCE:g} %"
    axes.axhline(100 * CONFIDENCE, color=INK, linewidth=0.8, linestyle="--", label=label)


def _panels(rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as the page, and its panels row by row."""
    figure = Figure(figsize=(WIDTH, _PANEL * rows + 0.4), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of one panel below all."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _percent(bound: float | str) -> str:
    return f"ε {100 * float(bound):g} %"
