"""The page about a comparison: one self-contained HTML file with inline SVG."""

from __future__ import annotations

import html
import io
import string
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from aqhi.chart import CITY_COLOURS
from aqhi.grid import SIDE_UNITS
from aqhi.model import risk
from aqhi.results import STEPS, Comparison, StepInfo, Way

_INK = "#010203"
"""Drawn in this colour, then replaced by the page's own text colour, dark or light."""

_WAYS = ("#2f80d0", "#e08a00", "#12a17c", "#c25b9b", "#8a7cf0")
"""Lines of the ways under bounds: apart for the colour-blind, readable on black and on white."""

_RISKS = (
    (0.0, 3.5, "#4caf50"),
    (3.5, 6.5, "#ffc107"),
    (6.5, 10.5, "#ff7043"),
    (10.5, 14.0, "#b71c1c"),
)
"""From, to and colour of the classes of the index; a class holds what rounds into it."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "aqhi",
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Roboto", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}

_PAGE = Path(__file__).with_name("report.html")
"""The page around the drawings; ``$name`` is filled in."""

_WIDTH = 9.6  # inches: the page's column at 96 pixels an inch


def write_report(comparison: Comparison, path: Path) -> Path:
    """Write the page and return its absolute path; folders are made.

    Raises:
        OSError: the file cannot be written.
    """
    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(comparison), encoding="utf-8")
    return path


def render(comparison: Comparison) -> str:
    """Return the page as HTML that refers to nothing outside itself."""
    with mpl.rc_context(_STYLE):
        return string.Template(_PAGE.read_text(encoding="utf-8")).substitute(
            source=html.escape(comparison.source),
            detectors=f"{comparison.side**2:,}",
            waves=len(comparison.labels),
            lead=_lead(comparison),
            tiles=_tiles(comparison),
            table=_table(comparison),
            index=_svg(_index_figure(comparison)),
            timeline=_svg(_timeline_figure(comparison)),
            errors=_svg(_errors_figure(comparison)),
            runs=_svg(_runs_figure(comparison)),
            maps="".join(_map_section(comparison, way) for way in comparison.bounded),
            conditions="".join(
                f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"
                for name, value in [*comparison.conditions, *_times(comparison)]
            ),
        )


def _total(way: Way) -> int:
    return sum(len(runs) for runs in way.runs.values())


def _lead(comparison: Comparison) -> str:
    most = _total(comparison.synchronous)
    first, *others = comparison.bounded
    fewer = _total(first)
    lead = (
        f"Run after every wave, the five steps ran <b>{most}</b> times. Run only when their input "
        f"had changed enough ({html.escape(first.name)}), they ran <b>{fewer}</b> times, "
        f"<b>{100 * (1 - fewer / most):.0f} % fewer</b>, and the index that people saw was off by "
        f"<b>{_mean_off(first):.2f}</b> points on average."
    )
    more = "".join(
        f" With {html.escape(way.name)}: <b>{_total(way)}</b> times, off by "
        f"<b>{_mean_off(way):.2f}</b>."
        for way in others
    )
    return lead + more


def _mean_off(way: Way) -> float:
    return float(np.mean([error.largest for error in way.errors["index"]]))


def _tiles(comparison: Comparison) -> str:
    way = comparison.bounded[0]
    most, fewer = _total(comparison.synchronous), _total(way)
    facts = (
        (f"{100 * (1 - fewer / most):.0f} %", "of all step runs saved", f"bounds with {way.name}"),
        (f"{_mean_off(way):.2f}", "points mean error of the index", "scale 1 to 13"),
        (f"{way.largest_error('index'):.2f}", "points largest error of the index", "of any wave"),
        (
            f"{100 * way.mean_error('city-map'):.1f} %",
            "mean error of the city map",
            f"at most {100 * way.worst_error('city-map'):.1f} %",
        ),
    )
    return "".join(
        f'<div class="tile"><strong>{value}</strong><span>{what}</span><small>{html.escape(note)}'
        "</small></div>"
        for value, what, note in facts
    )


def _table(comparison: Comparison) -> str:
    rows = []
    for way in comparison.bounded:
        if len(comparison.bounded) > 1:
            rows.append(f'<tr class="way"><th colspan="7">{html.escape(way.name)}</th></tr>')
        for step in STEPS:
            action = step.action
            rows.append(
                f"<tr><th>{step.letter}</th><td>{action}<small>{step.output}</small></td>"
                f"<td>{len(comparison.synchronous.runs[action])}</td>"
                f"<td>{len(way.runs[action])}</td>"
                f"<td><b>{way.saved(action, comparison.synchronous):.0f} %</b></td>"
                f"<td>{100 * way.mean_error(action):.2f} %</td>"
                f"<td>{100 * way.worst_error(action):.2f} %"
                f"<small>{way.largest_error(action):.2f} {_unit(step)}</small></td></tr>"
            )
    return "".join(rows)


def _times(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for way in (comparison.synchronous, *comparison.bounded):
        seconds, runs = sum(way.seconds.values()), _total(way)
        each = f", {seconds / runs:.2f} s each from launch to commit" if runs else ""
        yield f"runs, {way.name}", f"{runs} in {seconds:.0f} s{each}"


def _unit(step: StepInfo) -> str:
    return "points" if step.action == "index" else "units"


def _coloured(comparison: Comparison) -> Iterator[tuple[Way, str]]:
    for position, way in enumerate(comparison.bounded):
        yield way, _WAYS[position % len(_WAYS)]


def _waves_axis(axes: Axes, comparison: Comparison) -> None:
    count = len(comparison.labels)
    axes.set_xlim(0.4, count + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    named = f" ({comparison.labels[0]} to {comparison.labels[-1]})"
    hourly = not comparison.labels[0].startswith("wave")
    axes.set_xlabel("wave" + (named if hourly else ""))


def _numbers(comparison: Comparison) -> list[int]:
    return list(range(1, len(comparison.labels) + 1))


def _index_figure(comparison: Comparison) -> Figure:
    figure = Figure(figsize=(_WIDTH, 3.7), layout="constrained")
    axes = figure.subplots()
    waves = _numbers(comparison)
    everything = [comparison.synchronous, *comparison.bounded]
    low = min(min(way.index) for way in everything) - 0.6
    high = max(max(way.index) for way in everything) + 0.6
    for start, end, colour in _RISKS:
        axes.axhspan(start, end, color=colour, alpha=0.13, linewidth=0)
        middle = (max(start, low) + min(end, high)) / 2
        if min(end, high) - max(start, low) > 0.5:
            axes.annotate(
                risk(middle).value,
                (1.008, middle),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
            )
    axes.step(
        waves,
        comparison.synchronous.index,
        where="mid",
        color=_INK,
        linewidth=1.2,
        label="synchronous",
    )
    for way, colour in _coloured(comparison):
        axes.step(waves, way.index, where="mid", color=colour, linewidth=2, label=way.name)
        ran = sorted(set(way.runs["index"]))
        if len(waves) <= 60:
            axes.plot(
                [wave + 1 for wave in ran],
                [way.index[wave] for wave in ran],
                "o",
                color=colour,
                markersize=4.5,
            )
    axes.set(ylim=(low, high), ylabel="index (points)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    _waves_axis(axes, comparison)
    return figure


def _timeline_figure(comparison: Comparison) -> Figure:
    ways = comparison.bounded
    rows = len(STEPS) * len(ways)
    figure = Figure(figsize=(_WIDTH, 2.2 + 0.22 * rows), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 0.24 * rows])
    waves = _numbers(comparison)
    above.bar(waves, [100 * part for part in comparison.changed], color="#8b97a5", width=0.8)
    above.set(ylabel="changed (%)", ylim=(0, 100), title="A · detectors that reported")
    colours = [colour for _, colour in _coloured(comparison)]
    size = 34 if len(waves) <= 30 else 12 if len(waves) <= 80 else 5
    places = []
    for level, step in enumerate(STEPS):
        for depth, (way, colour) in enumerate(zip(ways, colours, strict=True)):
            height = -(level * (len(ways) + 0.8) + depth)
            ran = set(way.runs[step.action])
            skipped = [wave for wave in waves if wave - 1 not in ran]
            below.scatter(
                skipped, [height] * len(skipped), s=size / 5, color="#8b97a5", linewidth=0
            )
            below.scatter(
                [wave + 1 for wave in ran], [height] * len(ran), s=size, color=colour, linewidth=0
            )
        places.append(-(level * (len(ways) + 0.8) + (len(ways) - 1) / 2))
    below.margins(y=0.5 / rows)
    below.set_yticks(places, [f"{step.letter} · {step.action}" for step in STEPS])
    below.tick_params(axis="y", length=0)
    below.spines["left"].set_visible(False)
    _waves_axis(below, comparison)
    handles = [
        below.scatter([], [], s=34, color=colour, label=way.name)
        for way, colour in zip(ways, colours, strict=True)
    ]
    handles.append(below.scatter([], [], s=7, color="#8b97a5", label="not run"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _errors_figure(comparison: Comparison) -> Figure:
    shown = [step for step in STEPS if step.action != "combine"]
    figure = Figure(figsize=(_WIDTH, 1.55 * len(shown) + 0.5), layout="constrained")
    waves = _numbers(comparison)
    panels = figure.subplots(len(shown), 1, sharex=True)
    for axes, step in zip(panels, shown, strict=True):
        for way, colour in _coloured(comparison):
            errors = way.errors[step.action]
            values = [
                error.largest if step.action == "index" else 100 * error.epsilon for error in errors
            ]
            axes.fill_between(waves, values, step="mid", color=colour, alpha=0.18, linewidth=0)
            axes.step(waves, values, where="mid", color=colour, linewidth=1.6, label=way.name)
        points = step.action == "index"
        axes.set_title(f"{step.letter} · {step.output}")
        axes.set_ylabel("error (points)" if points else "error ε (%)")
        axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 0.1 if points else 1.0))
        axes.grid(axis="y", color="#8b97a5", alpha=0.3, linewidth=0.6)
    _waves_axis(panels[-1], comparison)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _runs_figure(comparison: Comparison) -> Figure:
    ways = [comparison.synchronous, *comparison.bounded]
    colours = ["#8b97a5", *(colour for _, colour in _coloured(comparison))]
    figure = Figure(
        figsize=(_WIDTH, 0.9 + 0.3 * len(STEPS) * len(ways) * 0.75), layout="constrained"
    )
    axes = figure.subplots()
    thickness = 0.8 / len(ways)
    for depth, (way, colour) in enumerate(zip(ways, colours, strict=True)):
        for level, step in enumerate(STEPS):
            runs = len(way.runs[step.action])
            height = level + (depth - (len(ways) - 1) / 2) * thickness
            axes.barh(
                height,
                runs,
                height=thickness * 0.9,
                color=colour,
                label=way.name if level == 0 else None,
            )
            saved = way.saved(step.action, comparison.synchronous)
            note = f"{runs}" if depth == 0 else f"{runs} (−{saved:.0f} %)"
            axes.annotate(
                note,
                (runs, height),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
    axes.set_yticks(range(len(STEPS)), [f"{step.letter} · {step.action}" for step in STEPS])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set(xlabel="runs", xlim=(0, len(comparison.labels) * 1.16))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=len(ways))
    return figure


def _map_section(comparison: Comparison, way: Way) -> str:
    errors = [error.epsilon for error in way.errors["city-map"]]
    worst = int(np.argmax(errors))
    label = html.escape(comparison.labels[worst])
    largest = way.errors["city-map"][worst].largest
    return (
        f"<figure>{_svg(_map_figure(comparison, way, worst))}<figcaption>"
        f"<b>{html.escape(way.name)}</b>, {label}: the wave in which the two maps differ most, by "
        f"{100 * errors[worst]:.1f} % of the whole (ε) and by at most {largest:.1f} units in any "
        "point. Right: the map under bounds minus the synchronous one; white is no difference, red "
        "shows more pollution than there is, blue less.</figcaption></figure>"
    )


def _map_figure(comparison: Comparison, way: Way, wave: int) -> Figure:
    exact = np.array(comparison.synchronous.maps[wave], dtype=float)
    shown = np.array(way.maps[wave], dtype=float)
    apart = shown - exact
    widest = max(float(np.nanmax(np.abs(apart))), 1.0)
    figure = Figure(figsize=(_WIDTH, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    extent = (0, SIDE_UNITS, 0, SIDE_UNITS)
    for axes, square, title in (
        (panels[0], exact, "synchronous"),
        (panels[1], shown, "under bounds"),
    ):
        picture = axes.imshow(
            square, origin="lower", extent=extent, cmap=CITY_COLOURS, vmin=0, vmax=100
        )
        axes.set(title=title, xlabel="east (units)")
    panels[0].set_ylabel("north (units)")
    difference = panels[2].imshow(
        apart, origin="lower", extent=extent, cmap="RdBu_r", vmin=-widest, vmax=widest
    )
    panels[2].set(title="difference", xlabel="east (units)")
    for drawn, axes, label, aspect in (
        (picture, panels[:2], "concentration (0 to 100)", 40),
        (difference, panels[2], "units", 20),
    ):
        figure.colorbar(
            drawn, ax=axes, label=label, location="bottom", shrink=0.8, aspect=aspect, pad=0.03
        )
    return figure


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    drawing = text[text.index("<svg") :]
    return drawing.replace(_INK, "currentColor").replace("<svg ", '<svg role="img" ', 1)
