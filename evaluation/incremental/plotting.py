"""The page about incremental stages: the paper's figures 8 to 10 again, and Spark's own state."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.drawing import COLOURS, PAGE_STYLE, STYLE, WIDTH, svg
from evaluation.incremental.goals import Goal, table_of

_PAGE = Path(__file__).with_name("page.html")
"""The page around the drawings; ``$name`` is filled in."""
_PANEL = 2.8  # inches, the height of a panel
_MISSING = "<p>Not part of this run.</p>"
_GROWING = (
    "Figure 8: increments of new pages from nothing on, as Spark jobs. CountLinks extracts and "
    "counts links, DecideCrawl scores."
)
_IN_THREE = (
    "Figure 8 with many more links: all of them in three increments, from nothing on, both jobs."
)
_SIZES = (
    "Direct increments on states of several sizes, medians of chains that each begin with the same "
    "state. Processor time of the driver alone on the left, of Spark with its workers on the right."
)
_IN_FOUR = (
    "Figure 9: cumulative time of increments of 4,000 pages at once and each divided into four, on "
    "a state of 500,000 URLs."
)


def write_page(
    figures: Mapping[str, Any], goals: Sequence[Goal], conditions: str, path: Path
) -> Path:
    """Write the page and return its absolute path; folders are made.

    Args:
        figures: as they are printed.
        goals: beside their values.
        conditions: of the run, in words.
        path: where to.

    Raises:
        OSError: the file cannot be written.
    """
    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    flat, spark = figures.get("flat", {}), figures.get("spark", {})
    missed = [goal for goal in goals if not goal.met]
    with mpl.rc_context(STYLE):
        text = string.Template(_PAGE.read_text(encoding="utf-8")).substitute(
            style=PAGE_STYLE.read_text(encoding="utf-8"),
            conditions=html.escape(conditions),
            goals=html.escape(table_of(goals)),
            missed=html.escape("; ".join(goal.words for goal in missed) or "none"),
            figure8=_growing(flat) or _MISSING,
            direct=_direct(flat) or _MISSING,
            figure9=_divided(flat) or _MISSING,
            crawl=_crawl(figures.get("crawl", {})) or _MISSING,
            rivals=_rivals(spark) or _MISSING,
            figure10=_cube(figures.get("cube", {})) or _MISSING,
            figures=html.escape(json.dumps(figures, indent=1)),
        )
    path.write_text(text, encoding="utf-8")
    return path


def _growing(flat: Mapping[str, Any]) -> str:
    """Draw figure 8: each increment's time with landmarks, as a black box and directly."""
    return _by_mode(flat.get("growing", {}), ("landmark", "black-box", "direct"), "rows")


def _by_mode(
    sizes: Mapping[str, Mapping[str, Sequence[float]]], modes: Sequence[str], unit: str
) -> str:
    if not sizes:
        return ""
    figure, panels = _panels(len(modes))
    highest = max(max(each) for modes in sizes.values() for each in modes.values())
    for axes, mode, letter in zip(panels, modes, "abc", strict=False):
        for (count, seconds), colour in zip(sizes.items(), COLOURS, strict=False):
            _line(axes, seconds[mode], f"{int(count):,} {unit} in all", colour)
        axes.set(title=f"({letter}) {mode}", ylim=(0, 1.1 * highest))
    panels[0].legend(fontsize="small")
    return svg(figure)


def _crawl(crawl: Mapping[str, Any]) -> str:
    """Draw the crawl queue: figure 8 with both jobs, larger states, and figure 9."""
    drawings = (
        (_jobs(crawl), _GROWING),
        (_shares(crawl), _IN_THREE),
        (_direct(crawl, "URLs"), _SIZES),
        (_divided(crawl), _IN_FOUR),
    )
    return "".join(
        f"<figure>{drawing}<figcaption>{words}</figcaption></figure>"
        for drawing, words in drawings
        if drawing
    )


def _shares(crawl: Mapping[str, Any]) -> str:
    sizes = {
        links: {mode: jobs["total"] for mode, jobs in modes.items()}
        for links, modes in crawl.get("shares", {}).items()
    }
    return _by_mode(sizes, ("landmark", "black-box"), "links")


def _jobs(crawl: Mapping[str, Any]) -> str:
    if "growing" not in crawl:
        return ""
    figure, panels = _panels(3)
    growing = crawl["growing"]
    highest = max(max(jobs["total"]) for jobs in growing.values())
    for axes, mode, letter in zip(panels, ("landmark", "black-box", "direct"), "abc", strict=True):
        for (job, seconds), colour in zip(growing[mode].items(), COLOURS, strict=False):
            _line(axes, seconds, job, colour)
        axes.set(title=f"({letter}) {mode}", ylim=(0, 1.1 * highest))
    panels[0].legend(fontsize="small")
    return svg(figure)


def _direct(flat: Mapping[str, Any], unit: str = "keys") -> str:
    """Draw direct increments on states of several sizes."""
    kinds = [kind for kind in ("driver", "spark") if kind in flat]
    if not kinds:
        return ""
    figure, panels = _panels(len(kinds))
    for axes, kind in zip(panels, kinds, strict=True):
        for (keys, seconds), colour in zip(flat[kind]["seconds"].items(), COLOURS, strict=False):
            _line(axes, seconds, f"{int(keys):,} {unit}", colour)
        title = "by the driver" if kind == "driver" else "as Spark jobs"
        axes.set(title=title, ylim=(0, None))
        axes.legend(fontsize="small")
    return svg(figure)


def _divided(flat: Mapping[str, Any]) -> str:
    """Draw figure 9: cumulative time with increments at once and in four."""
    if "divided" not in flat:
        return ""
    figure, panels = _panels(1)
    for (mode, both), colour in zip(flat["divided"].items(), COLOURS, strict=False):
        for seconds, style in zip(both, ("-", ":"), strict=True):
            share = np.arange(1, len(seconds) + 1) / len(seconds) * len(both[0])
            label = f"{mode}, {'at once' if style == '-' else 'in four'}"
            panels[0].plot(share, np.cumsum(seconds), style, color=colour, marker=".", label=label)
    panels[0].set(xlabel="increments", ylabel="processor s so far", xlim=(0, None), ylim=(0, None))
    panels[0].legend(fontsize="small")
    return svg(figure)


def _rivals(spark: Mapping[str, Any]) -> str:
    """Draw keys a second of all ways to count."""
    found = {name: each for name, each in spark.items() if not name.startswith("ratios")}
    if not found:
        return ""
    figure, panels = _panels(1)
    places = np.arange(len(found))
    for at, (unit, label) in enumerate(
        (("keys_per_second", "a second"), ("keys_per_processor_second", "a processor's second"))
    ):
        paces = [each[unit] for each in found.values()]
        bars = panels[0].barh(places + 0.4 * at, paces, 0.38, color=COLOURS[at], label=label)
        panels[0].bar_label(bars, fmt="{:,.0f}", fontsize="x-small", padding=2)
    names = [f"{name}\n({each['keys']:,} keys)" for name, each in found.items()]
    panels[0].set_yticks(places + 0.2, names, fontsize="small")
    panels[0].invert_yaxis()
    panels[0].set(xlabel="keys", xscale="log")
    panels[0].legend(fontsize="small")
    return svg(figure)


def _cube(cube: Mapping[str, Any]) -> str:
    """Draw figure 10: what three scenarios have made so far, of increments as in the paper."""
    if not cube:
        return ""
    figure, panels = _panels(3)
    scenarios = next(iter(cube["sizes"].values()))["scenarios"]
    graphs = {
        "updates": "(a) updates computed",
        "writes": "(b) updates written",
        "results": "(c) query results",
    }
    for axes, (graph, title) in zip(panels, graphs.items(), strict=True):
        for (name, found), colour in zip(scenarios.items(), COLOURS, strict=False):
            times = found["over_time"]
            axes.plot([0, *times["seconds"]], [0, *times[graph]], color=colour, label=name)
        axes.set(title=title, xlabel="processor s", xlim=(0, None), ylim=(0, None))
    panels[0].set_ylabel("increments so far")
    panels[0].legend(fontsize="small")
    return svg(figure)


def _line(axes: Axes, seconds: Sequence[float], label: str, colour: str) -> None:
    axes.plot(range(1, len(seconds) + 1), seconds, color=colour, marker=".", label=label)
    axes.set(xlabel="increment", ylabel="processor s", xticks=range(1, len(seconds) + 1))


def _panels(columns: int) -> tuple[Figure, list[Axes]]:
    """Return a figure as wide as the page, and its panels."""
    figure = Figure(figsize=(WIDTH, _PANEL + 0.4), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False).flat)
