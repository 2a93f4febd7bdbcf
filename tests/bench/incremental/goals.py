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
    return [*_of_flatness(figures.get("flat", {})), *_of_rivals(figures.get("spark", {}))]


def _of_flatness(flat: Mapping[str, Any]) -> Iterator[Goal]:
    for kind, ways, most in (
        ("driver", "by the driver", _BY_DRIVER),
        ("spark", "as Spark jobs", _BY_SPARK),
    ):
        if kind not in flat:
            continue
        for keys, ratio in flat[kind]["last_to_first"].items():
            words = f"last increment / first, {int(keys):,} keys, {ways}, processor"
            yield Goal(words, ratio, _FLAT)
        sizes = flat[kind]["largest_to_smallest"]
        low, high = sizes["keys"]
        if low != high:
            yield Goal(f"{high:,} keys / {low:,}, {ways}, processor", sizes["ratio"], most)
    if "shuffled_per_delta_byte" in flat:
        values = [value for each in flat["shuffled_per_delta_byte"].values() for value in each]
        spread = round(max(values) / min(values), 3)
        yield Goal("bytes shuffled per byte of increments, most / least", spread, _SPREAD)
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


def table_of(goals: Sequence[Goal]) -> str:
    """Return the goals as text, those that were missed named as such."""
    lines = [
        f"{'met   ' if goal.met else 'MISSED'} {goal.value:>8g} "
        f"{'>=' if goal.at_least else '<='} {goal.bound:<5g} {goal.words}"
        for goal in goals
    ]
    return "\n".join(lines)
