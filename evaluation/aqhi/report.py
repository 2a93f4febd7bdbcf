"""The page about the paper's evaluation: its figures 7 to 19 and 22, drawn from a run."""

from __future__ import annotations

import html
import json
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from aqhi.chart import CITY_COLOURS
from aqhi.generator import Trend
from matplotlib.figure import Figure

from evaluation.aqhi import findings
from evaluation.aqhi.figures import (
    INDEX_LIMIT,
    SIGMAS,
    Series,
    StepRuns,
    Waves,
    accumulated,
    executions,
    expected_executions,
    mean_concentration,
    percentage,
    relative_errors,
    shown,
)
from evaluation.drawing import COLOURS, INK, PAGE_STYLE, STYLE, WIDTH, axes_of_page, svg

_DAY = 24
_GAP = 2  # points between two maps
_FRAME = "#d9dfe6"
_PAGE = Path(__file__).with_name("evaluation.html")
"""The page around the drawings; ``$name`` is filled in."""
_MISSING = "<p>Not part of this run.</p>"


def write_evaluation(
    waves: Mapping[Trend, Waves],
    found: Sequence[StepRuns],
    result: Mapping[str, Any],
    path: Path,
) -> Path:
    """Write the page and return its absolute path; folders are made.

    Args:
        waves: what the synchronous dataflow showed, by the trend of its input.
        found: the runs under each setting.
        result: the figures as they are printed.
        path: where to.

    Raises:
        OSError: the file cannot be written.
    """
    path = path.expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        text = _render(waves, found, result)
    path.write_text(text, encoding="utf-8")
    return path


def _render(
    waves: Mapping[Trend, Waves], found: Sequence[StepRuns], result: Mapping[str, Any]
) -> str:
    increasing, uniform = waves[Trend.INCREASING], waves[Trend.UNIFORM]
    c, d, e, both, f, every_update, everything = (
        {s.setting.sigma: s for s in found if s.setting.name.startswith(f"{prefix} ")}
        for prefix in ("C", "D", "E", "C+E", "F", "F-updates", "all")
    )
    drawings = {
        "figure7": _lines(
            increasing.zones.mean(axis=(1, 2)), _seen(increasing.zones, c, "zones", _mean), "units"
        ),
        "figure8": _bars(
            {s: _largest(increasing.zones, r.runs["zones"]) for s, r in c.items()}, "units"
        ),
        "figure9": _executions({"step C": (c, "zones")}, increasing, expected=True),
        "figure10": _tiles(increasing.maps[:_DAY]),
        "figure11": "".join(_differences(increasing.maps, r, s) for s, r in d.items()),
        "figure12": _lines(
            mean_concentration(uniform.hotspots),
            _seen(uniform.hotspots, e, "hotspots", mean_concentration),
            "units",
        ),
        "figure13": _lines(
            percentage(uniform.hotspots),
            _seen(uniform.hotspots, e, "hotspots", percentage),
            "% of the zones",
        ),
        "figure14": _bars(
            {
                s: float(
                    np.abs(
                        mean_concentration(uniform.hotspots)
                        - mean_concentration(shown(uniform.hotspots, r.runs["hotspots"]))
                    ).max()
                )
                for s, r in e.items()
            },
            "units",
        ),
        "figure15": _executions(
            {"no bounds on C": (e, "hotspots"), "the same σ on C": (both, "hotspots")}, uniform
        ),
        "figure16": _lines(
            accumulated(uniform.index), _seen(uniform.index, f, "index", accumulated), "points"
        ),
        "figure17": _bars(
            {s: _largest(uniform.index, r.runs["index"]) for s, r in f.items()}, "points"
        ),
        "figure18": _executions(
            {"changed hotspots": (f, "index"), "every update": (every_update, "index")}, uniform
        ),
        "figure19": _loads(result["seconds of 24 waves by detectors"]),
        "figure22": _lines(
            None,
            {
                s: 100
                * relative_errors(
                    uniform.index[:, None], shown(uniform.index, r.runs["index"])[:, None]
                )
                for s, r in everything.items()
            },
            "% of the index",
        ),
    }
    figures = result["figures"]
    return string.Template(_PAGE.read_text(encoding="utf-8")).substitute(
        style=PAGE_STYLE.read_text(encoding="utf-8"),
        waves=result["waves"],
        detectors=f"{result['detectors']:,}",
        seed=result["seed"],
        outputs=result["outputs"],
        spared_by_c=findings.spared_by_c(figures["E"], figures["E with C"]),
        held_by_divergence=findings.held_by_divergence(figures["F"], INDEX_LIMIT),
        papers_f=findings.papers_f(figures["F"]),
        index_limit=f"{INDEX_LIMIT:g}",
        choices=_choices(result),
        real=", and one was run for real beside it" if _ran_for_real(result) else "",
        figures=html.escape(json.dumps(result, indent=1)),
        **drawings,
    )


def _choices(result: Mapping[str, Any]) -> str:
    """Return the table of F's executions by what the paper leaves open, where it was computed."""
    title, found = next(
        ((name, found) for name, found in result.items() if name.startswith("F by ")), ("", {})
    )
    if not found:
        return ""
    sigmas = list(next(iter(found.values())))
    head = "".join(f"<th>runs at σ {s} %, %</th><th>largest error, points</th>" for s in sigmas)
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(
            f"<td>{by_sigma[s]['executions_percent']:.0f}</td>"
            f"<td>{by_sigma[s]['max_error_points']:.2f}</td>"
            for s in sigmas
        )
        + "</tr>"
        for name, by_sigma in found.items()
    )
    return (
        f"<figure><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<figcaption>{html.escape(title)}: how far F's figures depend on it. The first row was "
        "fitted to the paper's executions of F.</figcaption></figure>"
    )


def _ran_for_real(result: Mapping[str, Any]) -> bool:
    return any("real_setting" in check for check in result["checks"].values())


def _mean(zones: Series) -> Series:
    mean: Series = zones.mean(axis=(1, 2))
    return mean


def _seen(
    outputs: Series,
    settings: Mapping[int, StepRuns],
    action: str,
    measure: Callable[[Series], Series],
) -> dict[int, Series]:
    return {
        sigma: measure(shown(outputs, found.runs[action]))
        for sigma, found in settings.items()
        if sigma in SIGMAS
    }


def _largest(outputs: Series, runs: Sequence[int]) -> float:
    return float(np.abs(outputs - shown(outputs, runs)).max())


def _lines(synchronous: Series | None, bounded: Mapping[int, Series], unit: str) -> str:
    figure, axes = axes_of_page()
    if synchronous is not None:
        waves = range(1, len(synchronous) + 1)
        axes.plot(waves, synchronous, color=INK, linewidth=1.4, label="no bounds")
    for (sigma, values), colour in zip(bounded.items(), COLOURS, strict=False):
        waves = range(1, len(values) + 1)
        axes.step(waves, values, where="post", color=colour, linewidth=1.2, label=f"σ {sigma} %")
    axes.set(xlabel="wave", ylabel=unit)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, borderaxespad=0.2)
    return svg(figure)


def _bars(values: Mapping[int, float], unit: str) -> str:
    figure, axes = axes_of_page()
    axes.bar(list(map(str, values)), list(values.values()), color=COLOURS[0], width=0.6)
    for place, value in enumerate(values.values()):
        axes.annotate(
            f"{value:.2f}", (place, value), (0, 3), textcoords="offset points", ha="center"
        )
    axes.set(xlabel="σ (%)", ylabel=f"largest error ({unit})")
    return svg(figure)


def _executions(
    steps: Mapping[str, tuple[Mapping[int, StepRuns], str]], waves: Waves, *, expected: bool = False
) -> str:
    figure, axes = axes_of_page()
    places = ((0, 6), (0, -14))  # of the numbers, in points: above the first line, below the second
    for (label, (settings, action)), colour, place in zip(
        steps.items(), COLOURS, places, strict=False
    ):
        sigmas = list(settings)
        values = [executions(f.runs[action], len(waves.changed)) for f in settings.values()]
        axes.plot(sigmas, values, "o-", color=colour, label=label)
        for sigma, value in zip(sigmas, values, strict=True):
            axes.annotate(f"{value:.0f}", (sigma, value), place, textcoords="offset points")
    if expected:
        sigmas = list(range(5, 101))
        expectation = [expected_executions(s) for s in sigmas]
        axes.plot(sigmas, expectation, "--", color=INK, linewidth=1, label="e^−σ")
    axes.set(xlabel="σ (%)", ylabel="executions (% of the waves)", ylim=(0, 110), xlim=(0, 105))
    axes.legend()
    return svg(figure)


def _loads(seconds: Mapping[int, float]) -> str:
    if not seconds:
        return _MISSING
    figure, axes = axes_of_page()
    axes.plot(list(seconds), list(seconds.values()), "o-", color=COLOURS[0])
    axes.set(xlabel="detectors", ylabel="seconds for 24 waves", ylim=(0, None))
    return svg(figure)


def _tiles(maps: Series) -> str:
    figure = Figure(figsize=(WIDTH, 3.6))
    _draw_tiles(figure, maps, CITY_COLOURS, 100.0)
    return svg(figure)


def _draw_tiles(figure: Any, maps: Series, colours: Any, high: float) -> None:
    """Draw up to a day of maps side by side, as one picture: 24 axes would take seconds."""
    across = _DAY // 3
    height, width = maps.shape[1] + _GAP, maps.shape[2] + _GAP
    sheet = np.full((3 * height, across * width), np.nan)
    for place, square in enumerate(maps[:_DAY]):
        row, column = divmod(place, across)
        top, left = (2 - row) * height, column * width
        sheet[top : top + height - _GAP, left : left + width - _GAP] = square
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.set_axis_off()
    framed = mpl.colormaps.get_cmap(colours).with_extremes(bad=_FRAME)
    axes.imshow(sheet, origin="lower", cmap=framed, vmin=0, vmax=high, interpolation="nearest")


def _differences(maps: Series, found: StepRuns, sigma: int) -> str:
    """Return the maps that were shown in a day, and how far each stood from the right one."""
    exact = maps[:_DAY]
    seen = shown(maps, found.runs["city-map"])[:_DAY]
    whole = np.abs(exact).mean(axis=(1, 2), keepdims=True)
    apart = 100 * np.abs(seen - exact) / np.where(whole > 0, whole, 1)
    figure = Figure(figsize=(WIDTH, 1.9))
    halves: Any = figure.subfigures(1, 2)
    left, right = halves
    _draw_tiles(left, seen, CITY_COLOURS, 100.0)
    _draw_tiles(right, apart, "Greys", 5.0)
    ran = sum(wave <= _DAY for wave in found.runs["city-map"])
    errors = 100 * relative_errors(exact, seen)
    return (
        f"<figure>{svg(figure)}<figcaption>σ {sigma} %: {ran} of {len(exact)} maps drawn; left as "
        f"shown, right the difference, black from 5 % of the mean on; at most {errors.max():.1f} % "
        "of the whole map.</figcaption></figure>"
    )
