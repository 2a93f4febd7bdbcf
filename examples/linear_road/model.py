"""The road's geometry and the formulas of steps 3a to 5b over all its segments.

Toll and accidents are the benchmark's (Arasu et al., "Linear Road: A Stream Data Management
Benchmark", VLDB 2004). SmartFlux (section 5, "LRB") says what congestion, areas and estimates
depend on and leaves the formulas open; these are ours. The PySpark steps compute the same numbers
from the tables.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""By segment, shape (segments,), in the order of ``segment_keys``; NaN where nothing is known."""

SEGMENTS = 100
"""Of an expressway in each direction, a mile each."""
FEET_PER_SEGMENT = 5280

WINDOW = 5
"""Minutes that steps 3a, 3b and 3c look back."""
REPORTS_TO_STAND = 4
"""Reports from one place after which a car stands there (benchmark)."""
CARS_TO_CRASH = 2
"""Cars that stand at one place: an accident (benchmark)."""
NEARBY = 4
"""Segments by which an accident may be further down the road to be nearby (benchmark)."""

TOLL_SPEED = 40.0
"""Miles per hour from which on a segment is free of toll (benchmark)."""
TOLL_CARS = 50.0
"""Cars up to which a segment is free of toll (benchmark)."""
CENTS_PER_SQUARE = 2.0
"""Toll in cents per square of the cars above that (benchmark)."""

FREE_SPEED = 65.0
"""Miles per hour where nobody is in the way."""
SLOWEST = 5.0
"""Miles per hour that an estimated journey makes in a jam at least."""
CARS_OF_LEVEL = 45.0
"""Cars in a minute that are ``STANDSTILL`` levels of congestion if they stand."""
STANDSTILL = 1.6
"""One level more than they are at free speed."""
ACCIDENT_LEVEL = 1.0
"""Levels that an accident nearby adds."""

ALLOWED_SECONDS = {2: 5, 3: 10, 4: 30}
"""By type of query, the seconds within which it is to be answered (benchmark)."""

AREA = 10
"""Segments of an area, in one direction."""
MEDIUM, HIGH = 0.4, 0.7
"""Mean level from which on the congestion of an area is medium, and high."""


class Congestion(IntEnum):
    """The class of an area (section 5: low, medium or high)."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


def segment_keys(expressways: int = 1) -> list[str]:
    """Return the row of every segment: by expressway, direction and mile."""
    return [
        f"x{expressway:02d}d{direction}s{segment:03d}"
        for expressway in range(expressways)
        for direction in (0, 1)
        for segment in range(SEGMENTS)
    ]


def area_keys(expressways: int = 1) -> list[str]:
    """Return the row of every area, in the order of its segments."""
    return [
        f"x{expressway:02d}d{direction}a{area:02d}"
        for expressway in range(expressways)
        for direction in (0, 1)
        for area in range(SEGMENTS // AREA)
    ]


def near_accident(accidents: Values) -> NDArray[np.bool_]:
    """Return where an accident is in the segment or up to ``NEARBY`` segments down the road.

    Args:
        accidents: of each segment; NaN or 0 for none.
    """
    there = (np.nan_to_num(accidents) > 0).reshape(-1, 2, SEGMENTS)
    near = there.copy()
    for further in range(1, NEARBY + 1):
        near[:, 0, :-further] |= there[:, 0, further:]
        near[:, 1, further:] |= there[:, 1, :-further]
    return near.ravel()


def congestion(speeds: Values, cars: Values, accidents: Values) -> Values:
    """Step 4: the level of congestion of each segment, 0 for an empty road.

    cars / 45 · (1.6 − speed / 65), and 1 more near an accident. NaN without cars.

    Args:
        speeds: 3a, miles per hour.
        cars: 3b, in a minute.
        accidents: 3c.
    """
    slowness = STANDSTILL - speeds / FREE_SPEED
    level = np.maximum(cars / CARS_OF_LEVEL * slowness, 0.0)
    result: Values = level + ACCIDENT_LEVEL * near_accident(accidents)
    return result


def tolls(speeds: Values, cars: Values, accidents: Values) -> Values:
    """Step 4: the benchmark's toll of each segment in cents: 2 · (cars − 50)².

    None where the road is fast or nearly empty, or an accident nearby; NaN without cars.
    """
    due = (speeds < TOLL_SPEED) & (cars > TOLL_CARS) & ~near_accident(accidents)
    toll = np.where(due, CENTS_PER_SQUARE * (cars - TOLL_CARS) ** 2, 0.0)
    return np.where(np.isnan(speeds + cars), np.nan, toll)


def areas(levels: Values) -> Values:
    """Step 5a: the class of each area, by the mean level of its segments; an empty one counts 0.

    Returns:
        Shape (areas,); NaN where no segment of the area has a level.
    """
    parts = levels.reshape(-1, AREA)
    mean = np.nan_to_num(parts).mean(1)
    result: Values = np.where(mean >= HIGH, Congestion.HIGH, Congestion.LOW).astype(np.float64)
    result[(mean >= MEDIUM) & (mean < HIGH)] = Congestion.MEDIUM
    result[np.isnan(parts).all(1)] = np.nan
    return result


def journey(
    speeds: Values, segment_tolls: Values, expressway: int, start: int, end: int
) -> tuple[float, float]:
    """Step 5b: return minutes and cents of a journey through its first and last segment.

    Where no speed is known nobody is in the way.
    """
    direction = 0 if end >= start else 1
    base = (2 * expressway + direction) * SEGMENTS
    through = slice(base + min(start, end), base + max(start, end) + 1)
    speed = np.nan_to_num(speeds[through], nan=FREE_SPEED)
    minutes = float((60.0 / np.maximum(speed, SLOWEST)).sum())
    return minutes, float(np.nan_to_num(segment_tolls[through]).sum())
