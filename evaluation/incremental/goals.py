"""What the figures had to be, and whether they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_FLAT: Final = 1.1
_BY_SPARK: Final = 1.5
_BY_DRIVER: Final = 2.5
_SPREAD: Final = 1.1
_WRITTEN: Final = 5.0
_DIVIDED: Final = 1.3
_FASTER: Final = 50.0
_SMALL_FASTER: Final = 12.0
_OF_NATIVE: Final = 0.7
_OF_TABLES: Final = 0.25
_USELESS: Final = 0.78
"""Four of five, of some dozens of runs."""
_QUERIES: Final = 1.25
_OFF_SIMULATED: Final = 0.1


class Goal(Struct, frozen=True):
    """A figure beside its bound."""

    words: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the value is within the bound."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def goals_of(figures: Mapping[str, Any]) -> list[Goal]:
    """Return the goals of what was measured."""
    return [
        *_of_flatness(figures.get("flat", {})),
        *_of_crawl(figures.get("crawl", {})),
        *_of_rivals(figures.get("spark", {})),
        *_of_cube(figures.get("cube", {})),
    ]


def _of_states(found: Mapping[str, Any], unit: str, of: str = "") -> Iterator[Goal]:
    """Yield the goals of direct increments on states of several sizes.

    Args:
        found: figures of one dataflow.
        unit: of what states are counted in.
        of: begins the words.
    """
    for kind, ways, most in (
        ("driver", "by the driver", _BY_DRIVER),
        ("spark", "as Spark jobs", _BY_SPARK),
    ):
        if kind not in found:
            continue
        for size, ratio in found[kind]["last_to_first"].items():
            words = f"{of}last increment / first, {int(size):,} {unit}, {ways}, processor"
            yield Goal(words, ratio, _FLAT)
        sizes = found[kind]["largest_to_smallest"]
        low, high = sizes["keys"]
        if low != high:
            words = f"{of}{high:,} {unit} / {low:,}, {ways}, processor"
            yield Goal(words, sizes["ratio"], most)
    if "shuffled_per_delta_byte" in found:
        values = [value for each in found["shuffled_per_delta_byte"].values() for value in each]
        spread = round(max(values) / min(values), 3)
        yield Goal(f"{of}bytes shuffled per byte of increments, most / least", spread, _SPREAD)


def _of_crawl(crawl: Mapping[str, Any]) -> Iterator[Goal]:
    of = "crawl queue: "
    yield from _of_states(crawl, "URLs", of)
    if "growing" in crawl:
        seconds = crawl["growing"]["direct"]["total"]
        ratio = round(seconds[-1] / seconds[0], 2)
        yield Goal(f"{of}last increment / first, direct, from nothing on", ratio, _FLAT)
    for links, modes in crawl.get("shares", {}).items():
        for mode, jobs in modes.items():
            ratio = round(jobs["total"][-1] / jobs["total"][0], 2)
            words = f"{of}last increment / first, {mode}, {int(links):,} links: grows"
            yield Goal(words, ratio, _FLAT, at_least=True)
    sizes = crawl.get("black_box", {})
    if len(sizes) > 1:
        low, high = min(sizes, key=int), max(sizes, key=int)
        words = f"{of}{int(high):,} URLs / {int(low):,}, black-box: grows"
        yield Goal(words, round(sizes[high] / sizes[low], 2), _FLAT, at_least=True)


def _of_flatness(flat: Mapping[str, Any]) -> Iterator[Goal]:
    yield from _of_states(flat, "keys")
    if "written" in flat:
        words = f"bytes written / delta's, over {flat['written']['increments']} increments"
        yield Goal(words, flat["written"]["per_delta_byte"], _WRITTEN)
    for rows, modes in flat.get("growing", {}).items():
        for mode in ("black-box", "landmark"):
            ratio = round(modes[mode][-1] / modes[mode][0], 2)
            words = f"last increment / first, {mode}, {int(rows):,} rows: grows"
            yield Goal(words, ratio, _FLAT, at_least=True)
    if "four_against_one" in flat:
        yield Goal(
            "4 M rows in four increments / one, processor", flat["four_against_one"], _DIVIDED
        )


def _of_rivals(spark: Mapping[str, Any]) -> Iterator[Goal]:
    if not spark:
        return
    for unit in ("wall", "processor"):
        ratios = spark[f"ratios_{unit}"]
        by = "by the clock" if unit == "wall" else "by the processor"
        for mine, least in (
            ("driver", _FASTER),
            ("Spark job, large", _FASTER),
            ("Spark job", _SMALL_FASTER),
        ):
            for other in ("transformWithStateInPandas", "applyInPandasWithState"):
                ratio = ratios[f"{mine} / {other}"]
                yield Goal(f"keys/s, {mine} / {other}, {by}", ratio, least, at_least=True)
        native = ratios["native / Spark job"]
        yield Goal(f"time, Spark job / native aggregation, {by}", native, _OF_NATIVE)
        one = ratios["driver, by group / driver"]
        yield Goal(f"keys/s, by group / by tables, {by}", one, _OF_TABLES, at_least=True)


def _of_cube(cube: Mapping[str, Any]) -> Iterator[Goal]:
    for size, found in cube.get("sizes", {}).items():
        scenarios = found["scenarios"]
        place = f"data cube, increments {size}"
        alone = scenarios["priority"]["useless"]
        yield Goal(f"{place}: useless updates, priority alone", alone, _USELESS, at_least=True)
        known = scenarios["priority, bottlenecks known"]["useless"]
        yield Goal(f"{place}: useless updates, bottlenecks known", known, 0.0)
        words = f"{place}: query results, both / no priority"
        yield Goal(words, found["gain"], _QUERIES, at_least=True)
        for name, scenario in scenarios.items():
            off = round(abs(scenario["to_simulated"] - 1), 3)
            yield Goal(f"{place}: query results off the simulated, {name}", off, _OFF_SIMULATED)
    if "equal" in cube:
        words = "data cube, simulated at equal costs: query results, both / no priority"
        yield Goal(words, cube["equal"], _QUERIES, at_least=True)


def table_of(goals: Sequence[Goal]) -> str:
    """Return the goals as text, those that were missed named as such."""
    lines = [
        f"{'met   ' if goal.met else 'MISSED'} {goal.value:>8g} "
        f"{'>=' if goal.at_least else '<='} {goal.bound:<5g} {goal.words}"
        for goal in goals
    ]
    return "\n".join(lines)
