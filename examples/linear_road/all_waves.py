"""What every container holds after each wave when all steps run, without HBase and without Spark.

The formulas of :mod:`linear_road.model`, minute after minute. The steps are checked against them,
and learned triggers can be evaluated on them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from linear_road import model
from linear_road.records import Field, Kind, Minute, Records

Numbers = NDArray[np.int64]


class PerCar(Struct, frozen=True, eq=False):
    """A container with a row for each car."""

    cars: Numbers
    """Ascending, shape (n,)."""
    values: NDArray[np.float64]
    """Shape (n,)."""


class Answer(Struct, frozen=True):
    """What step 5b reports of a journey."""

    rank: int
    minutes: float
    cents: float


class Waves(Struct, frozen=True, eq=False):
    """All containers, wave by wave; NaN where there is no cell."""

    minutes: Numbers
    """Of the latest reports, shape (waves,)."""
    reports: list[PerCar]
    """Latest position in feet of the cars that have reported in the last five minutes."""
    reported: Numbers
    """Cars that reported in the wave, shape (waves,)."""
    positions: list[PerCar]
    """2a: feet, of the cars that have reported in the last minute."""
    minute_speeds: NDArray[np.float64]
    """2a: by minute modulo five, shape (waves, segments, 5)."""
    minute_cars: NDArray[np.float64]
    """2a: likewise."""
    standing: list[dict[str, float]]
    """2a: by place, the cars that stand there."""
    speeds: NDArray[np.float64]
    """3a: miles per hour, shape (waves, segments)."""
    cars: NDArray[np.float64]
    """3b: cars in a minute, likewise."""
    accidents: NDArray[np.float64]
    """3c: likewise."""
    congestion: NDArray[np.float64]
    """4: levels, likewise."""
    tolls: NDArray[np.float64]
    """4: cents, likewise."""
    areas: NDArray[np.float64]
    """5a: classes, shape (waves, areas)."""
    answers: list[dict[str, Answer]]
    """5b: by query, those of the wave alone, from what steps 3a and 4 show after it."""


class _Window:
    """The reports of the last five minutes, as far as steps 2a to 3c need them.

    Args:
        segments: how many there are.
    """

    def __init__(self, segments: int) -> None:
        self._segments = segments
        self._latest: deque[tuple[int, PerCar]] = deque()
        self._halts: deque[tuple[int, Numbers]] = deque()
        self.minute = -1
        self.speeds = np.full((segments, model.WINDOW), np.nan)
        self.cars = np.full((segments, model.WINDOW), np.nan)

    def add(self, reports: Records) -> None:
        """Add the reports of one minute, by time, at least one; those that are too old go."""
        minute = int(reports[-1, Field.TIME]) // 60
        for passed in range(max(self.minute + 1, minute - model.WINDOW + 1), minute + 1):
            self.speeds[:, passed % model.WINDOW] = np.nan
            self.cars[:, passed % model.WINDOW] = np.nan
        self.minute = minute
        wide = reports.astype(np.int64)
        car = wide[:, Field.CAR]
        road = 2 * wide[:, Field.EXPRESSWAY] + wide[:, Field.DIRECTION]
        segment = road * model.SEGMENTS + wide[:, Field.SEGMENT]
        in_segment, seen = np.unique(car * self._segments + segment, return_inverse=True)
        speed_of_car = np.bincount(seen, wide[:, Field.SPEED]) / np.bincount(seen)
        places = in_segment % self._segments
        cars = np.bincount(places, minlength=self._segments).astype(np.float64)
        total = np.bincount(places, speed_of_car, self._segments)
        slot = minute % model.WINDOW
        self.cars[:, slot] = np.where(cars > 0, cars, np.nan)
        np.divide(total, cars, out=self.speeds[:, slot], where=cars > 0)
        numbers, backwards = np.unique(car[::-1], return_index=True)
        position = wide[::-1][backwards, Field.POSITION].astype(np.float64)
        self._latest.append((minute, PerCar(numbers, position)))
        still = wide[:, Field.SPEED] == 0
        halts = np.stack([wide[:, Field.LANE], wide[:, Field.POSITION], car, segment], axis=1)
        self._halts.append((minute, halts[still]))
        for queue in (self._latest, self._halts):
            while queue[0][0] <= minute - model.WINDOW:
                queue.popleft()

    def reports(self) -> PerCar:
        """Return the latest position of each car."""
        newest_first = [latest for _, latest in reversed(self._latest)]
        every = np.concatenate([latest.cars for latest in newest_first])
        numbers, first = np.unique(every, return_index=True)
        return PerCar(numbers, np.concatenate([latest.values for latest in newest_first])[first])

    def positions(self) -> PerCar:
        """Return the position of each car that has reported in the last minute."""
        return self._latest[-1][1]

    def standing(self) -> dict[tuple[int, int, int], int]:
        """Return by (segment, lane, feet) how many cars stand there."""
        halts = np.concatenate([halts for _, halts in self._halts])
        found, counts = np.unique(halts, axis=0, return_counts=True)
        stand: dict[tuple[int, int, int], int] = {}
        for lane, feet, _, segment in found[counts >= model.REPORTS_TO_STAND].tolist():
            place = (segment, lane, feet)
            stand[place] = stand.get(place, 0) + 1
        return stand


def all_waves(minutes: Iterable[Minute], expressways: int = 1) -> Waves:
    """Return what all containers hold after each wave.

    Args:
        minutes: in their order. Where one has no reports everything stays as it was.
        expressways: how many there are, numbered from 0.

    Raises:
        ValueError: there are no minutes, the first one has no reports, or a record is of another
            expressway.
    """
    keys = model.segment_keys(expressways)
    window = _Window(len(keys))
    states: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _STATES}
    perceived: list[tuple[int, int]] = []
    reports: list[PerCar] = []
    positions: list[PerCar] = []
    standing: list[dict[str, float]] = []
    answers: list[dict[str, Answer]] = []
    for minute in minutes:
        sent = minute.reports
        if minute.records[:, Field.EXPRESSWAY].max(initial=0) >= expressways:
            message = f"{minute.label}: expressways of records must be below {expressways}"
            raise ValueError(f"{message}; pass as expressways how many the input has")
        if len(sent):
            window.add(sent)
        elif not reports:
            raise ValueError(f"{minute.label} has no reports; begin with a minute that has")
        perceived.append((window.minute, len(np.unique(sent[:, Field.CAR]))))
        reports.append(window.reports())
        positions.append(window.positions())
        stand = window.standing()
        standing.append(
            {f"{keys[s]}l{lane}p{feet:06d}": float(n) for (s, lane, feet), n in stand.items()}
        )
        state = _state(window, stand)
        for name, values in states.items():
            values.append(state[name])
        answers.append(_answers(minute.queries, state["speeds"], state["tolls"]))
    if not reports:
        raise ValueError("no minutes; give one at least")
    numbers, reported = np.array(perceived).T
    return Waves(
        minutes=numbers,
        reports=reports,
        reported=reported,
        positions=positions,
        standing=standing,
        answers=answers,
        **{name: np.array(values) for name, values in states.items()},
    )


_STATES = (
    "minute_speeds",
    "minute_cars",
    "speeds",
    "cars",
    "accidents",
    "congestion",
    "tolls",
    "areas",
)


def _state(
    window: _Window, standing: dict[tuple[int, int, int], int]
) -> dict[str, NDArray[np.float64]]:
    """Return by name what steps 2a to 5a show of segments and areas."""
    known = ~np.isnan(window.cars)
    minutes = known.sum(1)
    total = np.nan_to_num(window.speeds).sum(1)
    speeds = np.full(len(total), np.nan)
    np.divide(total, minutes, out=speeds, where=minutes > 0)
    cars = np.where(minutes > 0, np.nan_to_num(window.cars).sum(1) / model.WINDOW, np.nan)
    accidents = np.full(len(total), np.nan)
    for (segment, _, _), count in standing.items():
        if count >= model.CARS_TO_CRASH:
            accidents[segment] = np.nan_to_num(accidents[segment]) + 1
    congestion = model.congestion(speeds, cars, accidents)
    return {
        "minute_speeds": window.speeds.copy(),
        "minute_cars": window.cars.copy(),
        "speeds": speeds,
        "cars": cars,
        "accidents": accidents,
        "congestion": congestion,
        "tolls": model.tolls(speeds, cars, accidents),
        "areas": model.areas(congestion),
    }


def _answers(queries: Records, speeds: model.Values, tolls: model.Values) -> dict[str, Answer]:
    """Return by query's row the answers to a wave's queries for journeys."""
    seconds = [model.ALLOWED_SECONDS[Kind(kind)] for kind in queries[:, Field.KIND].tolist()]
    deadline = queries[:, Field.TIME] + np.array(seconds, np.int64)
    order = np.lexsort((queries[:, Field.QUERY], deadline))
    return {
        f"q{query[Field.QUERY]:010d}": Answer(
            rank,
            *model.journey(
                speeds, tolls, query[Field.EXPRESSWAY], query[Field.START], query[Field.END]
            ),
        )
        for rank, query in enumerate(queries[order].tolist(), 1)
        if query[Field.KIND] == Kind.TRAVEL
    }
