"""The picture of a replay: runs of each step, and its error over the waves."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headgate.replay import OutputReplay, Replayed, ReplayReport, StepReplay

_COLOURS = ("#8b97a5", "#2f80d0", "#e08a00", "#12a17c", "#c25b9b", "#8a7cf0", "#b0483a", "#5c7a29")
"""Lines and bars: apart for the colour-blind, readable on black and on white."""

_INK = "#010203"
"""Drawn in this colour, then replaced by the page's own text colour, dark or light."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "replay",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_ON_PAGE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Roboto", "Helvetica", "Arial", "DejaVu Sans"],
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}

_WIDTH = 9.6  # inches: the page's column at 96 pixels an inch

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Replay of {name}</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
body {{ max-width: 960px; margin: 2rem auto; padding: 0 1rem; }}
svg {{ width: 100%; height: auto; }}
</style>
<h1>Replay of {name}</h1>
<p>{words}</p>
{runs}
<h2>Error of what is shown</h2>
<p>ε = Σ|x−x′| / Σmax(|x|, |x′|) over the whole output after each wave, x recorded, x′ shown.</p>
{errors}
</html>
"""


def draw(report: ReplayReport, path: Path) -> Path:
    """Write the picture; the name's ending says whether as HTML, SVG or PNG.

    Returns:
        Its absolute path.

    Raises:
        OSError: it cannot be written.
        ValueError: the ending is another.
    """
    path = path.expanduser().absolute()
    match path.suffix.lower():
        case ".html":
            content = _page(report).encode()
        case ".svg" | ".png" as suffix:
            content = _image(report, suffix[1:])
        case _:
            raise ValueError(f"{path.name}: a picture ends in .html, .svg or .png")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _page(report: ReplayReport) -> str:
    with mpl.rc_context(_STYLE | _ON_PAGE):
        outputs = len(_outputs(report.replays[0]))
        runs = Figure(figsize=(_WIDTH, _runs_height(report)), layout="constrained")
        _draw_runs(runs.subplots(), report)
        errors = Figure(figsize=(_WIDTH, 1.6 * max(1, outputs) + 0.5), layout="constrained")
        below = errors.subplots(max(1, outputs), 1, sharex=True, squeeze=False)[:, 0]
        _draw_errors(list(below), report)
        return _PAGE.format(
            name=html.escape(report.dataflow),
            words=html.escape(_words(report)),
            runs=_svg(runs),
            errors=_svg(errors),
        )


def _image(report: ReplayReport, kind: str) -> bytes:
    with mpl.rc_context(_STYLE):
        outputs = max(1, len(_outputs(report.replays[0])))
        top = _runs_height(report)
        figure = Figure(figsize=(_WIDTH, top + 1.6 * outputs), layout="constrained", dpi=120)
        panels = figure.subplots(outputs + 1, 1, height_ratios=[top, *[1.6] * outputs])
        _draw_runs(panels[0], report)
        _draw_errors(list(panels[1:]), report)
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
        return stream.getvalue()


def _words(report: ReplayReport) -> str:
    return "; ".join(
        f"{replayed.label}: {replayed.runs} runs of {replayed.recorded}"
        for replayed in report.replays
    )


def _runs_height(report: ReplayReport) -> float:
    return 1.2 + 0.22 * len(report.replays[0].steps) * len(report.replays)


def _coloured(replays: Sequence[Replayed]) -> Iterator[tuple[Replayed, str]]:
    for place, replayed in enumerate(replays):
        yield replayed, _COLOURS[place % len(_COLOURS)]


def _draw_runs(axes: Axes, report: ReplayReport) -> None:
    thickness = 0.8 / len(report.replays)
    steps = report.replays[0].steps
    for depth, (replayed, colour) in enumerate(_coloured(report.replays)):
        for level, step in enumerate(replayed.steps):
            height = level + (depth - (len(report.replays) - 1) / 2) * thickness
            label = replayed.label if level == 0 else None
            runs = len(step.runs)
            axes.barh(height, runs, height=thickness * 0.9, color=colour, label=label)
            axes.annotate(
                str(runs), (runs, height), (4, 0), textcoords="offset points", va="center"
            )
    axes.set_yticks(range(len(steps)), [step.action for step in steps])
    axes.invert_yaxis()
    axes.set(xlabel="runs")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def _outputs(replayed: Replayed) -> list[tuple[StepReplay, OutputReplay]]:
    return [(step, output) for step in replayed.steps for output in step.outputs]


def _draw_errors(panels: Sequence[Axes], report: ReplayReport) -> None:
    for replayed, colour in _coloured(report.replays):
        for axes, (step, output) in zip(panels, _outputs(replayed), strict=False):
            values = [100 * error.epsilon for error in output.errors]
            waves = range(1, len(values) + 1)
            axes.step(waves, values, where="mid", color=colour, linewidth=1.6)
            axes.set_title(f"{step.action} · {output.container}")
            axes.set_ylabel("error ε (%)")
    for axes in panels:
        axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 0.1))
        axes.grid(axis="y", color="#8b97a5", alpha=0.3, linewidth=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[-1].set_xlabel("wave" if report.replays[0].waves else "recorded run")


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")
