"""Seeded input: an expressway of 100 miles with rush hours, accidents and jams.

SmartFlux's input came from MIT-SIMLab; this is a simpler model. Cars enter where entries are busy
and the road is not full, drive as fast as the density ahead allows, and leave after some miles. Two
cars that crash stand for a while; the segment behind fills up, and empties when they drive on.

Demand, capacities and the rate of accidents are fitted: to some 4,000 cars at the peak, and to
steps of which some can be skipped under an error bound of 5 %, and some under 20 % only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from linear_road.model import FEET_PER_SEGMENT, SEGMENTS
from linear_road.records import Field, Kind, Minute, Records

CYCLE = 500
"""Minutes after which rush hours return: the paper's pattern (section 5) has 500 waves."""

_WARM_UP = 60
"""Minutes that pass before the first one that is sent: the road is as full as it stays then."""
_REPORT_SECONDS = 30
_MILES_PER_STEP = _REPORT_SECONDS / 3600
"""Of one mile per hour."""

_DEMAND = 42.0
"""Cars that want to enter in a minute and direction outside rush hours."""
_RUSH = 130.0
"""Cars that want to enter more at the peak of the rush hour in its main direction."""
_OTHER_DIRECTION = 0.55
"""Share of it in the other direction."""
_RUSH_HOURS = ((0.25, 0.07, 0), (0.70, 0.09, 1))
"""Peak and width in cycles, and the main direction."""
_SURGE, _SURGE_MINUTES = 0.15, 37.0
"""Logarithmic swing of the demand, and its period."""
_FLICKER = 0.1
"""Logarithmic standard deviation of the demand from one half minute to the next."""
_MILES = 18.0
"""Mean length of a journey, besides a first mile."""

_CAPACITY, _BLOCKED_CAPACITY = 85.0, 25.0
"""Cars that bring a segment to a halt, and one with an accident in it."""
_TOP_SPEED, _CREEP, _FASTEST = 68.0, 8.0, 100.0
_CAUTION = 1.5
"""Power of the density in what it takes from the speed."""
_WILFULNESS = 4.0
"""Standard deviation of a car's speed."""
_INERTIA = 0.5
"""Share of its speed that a car keeps in half a minute."""

_ACCIDENT_RATE = 1 / 150
"""Chance of an accident in half a minute."""
_ACCIDENT_CARS = 500
"""Cars on the road from which on there are accidents."""
_ACCIDENT_STEPS = (20, 50)
"""Half minutes that the two cars stand: from, below."""

_QUERY_SHARE = 0.01
"""Chance that a car adds a query to its report (benchmark)."""
_QUERY_KINDS = {Kind.BALANCE: 0.5, Kind.EXPENDITURE: 0.1, Kind.TRAVEL: 0.4}
"""Shares of the queries (benchmark)."""
_MINUTES_OF_DAY = 1440
_HISTORY_DAYS = 69
"""Days that a query of expenditure may be about (benchmark: ten weeks but today)."""


class _Cars(Struct):
    """The cars on the road; all arrays have shape (n,)."""

    number: NDArray[np.int64]
    direction: NDArray[np.int64]
    miles: NDArray[np.float64]
    """From where the direction begins."""
    exit: NDArray[np.float64]
    """Miles at which the car leaves."""
    speed: NDArray[np.float64]
    standing: NDArray[np.int64]
    """Half minutes that it still stands after an accident."""
    lane: NDArray[np.int64]
    second: NDArray[np.int64]
    """When it reports, within each half minute."""
    reported: NDArray[np.bool_]

    def kept(self, which: NDArray[np.bool_]) -> _Cars:
        """Return some of the cars."""
        return _Cars(**{name: values[which] for name, values in structs.asdict(self).items()})

    def joined(self, others: _Cars) -> _Cars:
        """Return these cars and others."""
        more = structs.asdict(others)
        return _Cars(
            **{
                name: np.concatenate([values, more[name]])
                for name, values in structs.asdict(self).items()
            }
        )

    @property
    def segment(self) -> NDArray[np.int64]:
        """The mile of its direction that each car is in."""
        return np.minimum(self.miles.astype(np.int64), SEGMENTS - 1)


class _Road:
    """Cars and what becomes of them, half a minute at a time.

    Args:
        random: all choices.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        busy = random.uniform(0.3, 1.0, (2, SEGMENTS))
        smooth = np.ones(9) / 9
        around = [np.convolve(np.pad(row, 4, mode="edge"), smooth, "valid") for row in busy]
        self._entries = np.array([row / row.sum() for row in around])
        self._entered = 0
        self.cars = self._entering(0, 0)

    def step(self, minutes: float) -> None:
        """Let half a minute pass.

        Args:
            minutes: from the start of a cycle.
        """
        random = self._random
        for direction, wish in enumerate(self._demand(minutes)):
            wanting = self._entering(int(random.poisson(wish / 2)), direction)
            room = 1 - self._density()[wanting.segment + SEGMENTS * direction]
            self.cars = self.cars.joined(wanting.kept(random.random(len(room)) < room))
        cars = self.cars
        self._accelerate()
        cars.miles = cars.miles + cars.speed * _MILES_PER_STEP
        if len(cars.miles) > _ACCIDENT_CARS and random.random() < _ACCIDENT_RATE:
            self._crash()
        self.cars = cars.kept(cars.miles < cars.exit)

    def reports(self, start: int) -> Records:
        """Return a position report of each car, shape (n, 15).

        Args:
            start: second at which the half minute begins.
        """
        cars = self.cars
        records = np.full((len(cars.number), len(Field)), -1, np.int32)
        feet = (cars.miles * FEET_PER_SEGMENT).astype(np.int64)
        feet = np.where(cars.direction == 0, feet, SEGMENTS * FEET_PER_SEGMENT - 1 - feet)
        leaving = cars.miles + cars.speed * _MILES_PER_STEP >= cars.exit
        lane = np.where(leaving, 4, np.where(cars.reported, cars.lane, 0))
        records[:, Field.KIND] = Kind.POSITION
        records[:, Field.TIME] = start + cars.second
        records[:, Field.CAR] = cars.number
        records[:, Field.SPEED] = np.rint(cars.speed)
        records[:, Field.EXPRESSWAY] = 0
        records[:, Field.LANE] = np.where(cars.speed > 0, lane, cars.lane)
        records[:, Field.DIRECTION] = cars.direction
        records[:, Field.SEGMENT] = feet // FEET_PER_SEGMENT
        records[:, Field.POSITION] = feet
        cars.reported[:] = True
        return records

    def _demand(self, minutes: float) -> tuple[float, float]:
        """Return the cars that want to enter in a minute in each direction."""
        phase = minutes % CYCLE / CYCLE
        demand = np.full(2, _DEMAND)
        for peak, width, direction in _RUSH_HOURS:
            rush = _RUSH * np.exp(-0.5 * ((phase - peak) / width) ** 2)
            demand[direction] += rush
            demand[1 - direction] += _OTHER_DIRECTION * rush
        surge = _SURGE * np.sin(2 * np.pi * minutes / _SURGE_MINUTES)
        demand *= np.exp(surge + _FLICKER * self._random.standard_normal())
        return float(demand[0]), float(demand[1])

    def _entering(self, count: int, direction: int) -> _Cars:
        """Return cars that enter in a direction, in the order of their numbers."""
        random = self._random
        entry = random.choice(SEGMENTS, count, p=self._entries[direction]) + random.random(count)
        number = np.arange(self._entered, self._entered + count)
        self._entered += count
        return _Cars(
            number=number,
            direction=np.full(count, direction),
            miles=entry,
            exit=np.minimum(SEGMENTS, entry + 1 + random.exponential(_MILES, count)),
            speed=np.full(count, 55.0),
            standing=np.zeros(count, np.int64),
            lane=1 + number % 3,
            second=random.integers(0, _REPORT_SECONDS, count),
            reported=np.zeros(count, np.bool_),
        )

    def _accelerate(self) -> None:
        """Bring each car's speed half way to what the density of its and the next mile allows."""
        cars, segment = self.cars, self.cars.segment
        density, base = self._density(), cars.direction * SEGMENTS
        here, ahead = base + segment, base + np.minimum(segment + 1, SEGMENTS - 1)
        crowd = np.maximum(density[here], density[ahead])
        allowed = _TOP_SPEED * (1 - crowd**_CAUTION)
        wanted = allowed + _WILFULNESS * self._random.standard_normal(len(crowd))
        reached = _INERTIA * cars.speed + (1 - _INERTIA) * np.clip(wanted, _CREEP, _FASTEST)
        cars.speed = np.where(cars.standing > 0, 0.0, reached)
        cars.standing = np.maximum(cars.standing - 1, 0)

    def _density(self) -> NDArray[np.float64]:
        """Return the cars in each direction's segments, as shares of what halts them."""
        here = self.cars.direction * SEGMENTS + self.cars.segment
        blocked = np.bincount(here[self.cars.standing > 0], minlength=2 * SEGMENTS) > 0
        capacity = np.where(blocked, _BLOCKED_CAPACITY, _CAPACITY)
        density: NDArray[np.float64] = np.bincount(here, minlength=2 * SEGMENTS) / capacity
        return density

    def _crash(self) -> None:
        """Let one car and the next in its direction stand at one place."""
        cars = self.cars
        first = int(self._random.integers(len(cars.miles)))
        apart = np.abs(cars.miles - cars.miles[first])
        apart[(cars.direction != cars.direction[first]) | (cars.miles >= cars.exit)] = np.inf
        apart[first] = np.inf
        both = [first, int(np.argmin(apart))]
        cars.miles[both] = min(cars.miles[first], cars.exit[both].min() - 1e-3)
        cars.lane[both] = cars.lane[first]
        cars.speed[both] = 0.0
        cars.standing[both] = self._random.integers(*_ACCIDENT_STEPS)


def generate(minutes: int, seed: int) -> Iterator[Minute]:
    """Yield so many minutes, the same for the same arguments.

    Each car reports every 30 seconds, and with a small chance asks a query along with it.

    Args:
        minutes: how many.
        seed: of all random choices.
    """
    random = np.random.default_rng(seed)
    asking = random.spawn(1)[0]
    road = _Road(random)
    asked = 0
    for minute in range(-_WARM_UP, minutes):
        parts = []
        for half in (0, 1):
            road.step(minute + half / 2)
            if minute >= 0:
                reports = road.reports(60 * minute + half * _REPORT_SECONDS)
                queries = _queries(reports, asked, asking)
                asked += len(queries)
                parts += [reports, queries]
        if minute >= 0:
            records = np.concatenate(parts)
            yield Minute(minute, records[np.argsort(records[:, Field.TIME], kind="stable")])


def stretch(minutes: Iterable[Minute], first: int, last: int) -> Iterator[Minute]:
    """Yield what is sent from some miles alone: a small expressway, as busy as the whole.

    Queries stay that are about these miles, whoever asks.

    Args:
        minutes: of the whole road.
        first: the first segment.
        last: the segment after the last one.

    Raises:
        ValueError: there is no such stretch.
    """
    if not 0 <= first < last <= SEGMENTS:
        message = f"no stretch from segment {first} to before {last}"
        raise ValueError(f"{message}; choose two numbers from 0 to {SEGMENTS}, in this order")
    for minute in minutes:
        records = minute.records
        report = records[:, Field.KIND] == Kind.POSITION
        travel = records[:, Field.KIND] == Kind.TRAVEL
        here = [
            (records[:, field] >= first) & (records[:, field] < last)
            for field in (Field.SEGMENT, Field.START, Field.END)
        ]
        kept = np.where(report, here[0], ~travel | (here[1] & here[2]))
        yield Minute(minute.number, records[kept])


def _queries(reports: Records, first: int, random: np.random.Generator) -> Records:
    """Return what cars ask along with their reports; queries are numbered from ``first`` on."""
    asking = reports[random.random(len(reports)) < _QUERY_SHARE]
    count = len(asking)
    kinds = random.choice(list(_QUERY_KINDS), count, p=list(_QUERY_KINDS.values()))
    day = random.integers(1, _HISTORY_DAYS + 1, count)
    start, end = random.integers(0, SEGMENTS, (2, count))
    travel, spent = kinds == Kind.TRAVEL, kinds == Kind.EXPENDITURE
    queries = np.full((count, len(Field)), -1, np.int32)
    for field in (Field.TIME, Field.CAR, Field.EXPRESSWAY):
        queries[:, field] = asking[:, field]
    queries[:, Field.KIND] = kinds
    queries[:, Field.QUERY] = np.arange(first, first + count)
    queries[:, Field.START] = np.where(travel, start, -1)
    queries[:, Field.END] = np.where(travel, end, -1)
    queries[:, Field.DAY_OF_WEEK] = np.where(travel, 1 + day % 7, -1)
    queries[:, Field.MINUTE_OF_DAY] = np.where(
        travel, 1 + asking[:, Field.TIME] // 60 % _MINUTES_OF_DAY, -1
    )
    queries[:, Field.DAY] = np.where(spent, day, -1)
    return queries
