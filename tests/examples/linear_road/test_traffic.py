"""Generated traffic: what cars report, rush hours, accidents and jams, queries."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from linear_road.model import FEET_PER_SEGMENT, SEGMENTS
from linear_road.records import Field, Kind
from linear_road.traffic import CYCLE, generate, stretch

SEED = 1


@pytest.fixture(scope="module")
def cycle():
    """A whole cycle, both rush hours."""
    return list(generate(CYCLE, SEED))


@pytest.fixture(scope="module")
def journeys(cycle):
    """By car, its reports in the first half of the cycle."""
    reports = np.concatenate([minute.reports for minute in cycle[: CYCLE // 2]])
    order = np.argsort(reports[:, Field.CAR], kind="stable")
    ordered = reports[order]
    edges = np.flatnonzero(np.diff(ordered[:, Field.CAR])) + 1
    return np.split(ordered, edges)


def cars(minute):
    return len(np.unique(minute.reports[:, Field.CAR]))


def test_the_same_seed_gives_the_same_minutes_however_many_are_asked_for(cycle):
    for one, other in zip(generate(4, SEED), cycle, strict=False):
        assert one.number == other.number
        assert (one.records == other.records).all()


def test_another_seed_gives_other_minutes(cycle):
    assert not np.array_equal(next(generate(1, SEED + 1)).records, cycle[0].records)


def test_minutes_have_their_own_records_by_time(cycle):
    for number, minute in enumerate(cycle):
        times = minute.records[:, Field.TIME]
        assert minute.number == number
        assert (times // 60 == number).all()
        assert (np.diff(times) >= 0).all()


def test_a_car_reports_every_thirty_seconds_from_where_its_speed_took_it(journeys):
    for reports in journeys:
        west = -1 if reports[0, Field.DIRECTION] else 1
        assert (np.diff(reports[:, Field.TIME]) == 30).all()
        assert (reports[:, Field.DIRECTION] == reports[0, Field.DIRECTION]).all()
        assert (reports[:, Field.POSITION] // FEET_PER_SEGMENT == reports[:, Field.SEGMENT]).all()
        moved = west * np.diff(reports[:, Field.POSITION])
        miles = reports[1:, Field.SPEED] / 120
        crashed = reports[1:, Field.SPEED] == 0
        assert (np.abs(moved / FEET_PER_SEGMENT - miles)[~crashed] < 0.01).all()
        # Where two have crashed one may be taken to the other, then they stand.
        assert (moved[1:][crashed[1:] & crashed[:-1]] == 0).all()


def test_a_car_enters_by_lane_0_and_leaves_by_lane_4(cycle, journeys):
    first, last = cycle[0].number, cycle[CYCLE // 2 - 1].number
    inside = [
        reports
        for reports in journeys
        if reports[0, Field.TIME] // 60 > first and reports[-1, Field.TIME] // 60 < last
    ]
    assert len(inside) > 1000
    assert np.mean([reports[0, Field.LANE] == 0 for reports in inside]) > 0.9
    assert np.mean([reports[-1, Field.LANE] == 4 for reports in inside]) > 0.8
    for reports in inside:
        assert set(reports[1:-1, Field.LANE].tolist()) <= {1, 2, 3, 4}


def test_rush_hours_come_in_one_direction_and_go_in_the_other(cycle):
    def going(at, direction):
        reports = np.concatenate([minute.reports for minute in cycle[at - 20 : at + 20]])
        return (reports[:, Field.DIRECTION] == direction).mean()

    counts = np.array([cars(minute) for minute in cycle])
    quiet, morning, evening = counts[:30].mean(), counts[110:170].mean(), counts[330:400].mean()
    assert morning > 1.7 * quiet
    assert evening > 1.7 * quiet
    assert 2_500 < counts.max() < 5_000
    assert going(130, 0) > 0.53
    assert going(360, 1) > 0.53


def crashes(minutes):
    """Return by (direction, lane, feet) the minutes in which two cars or more stand there."""
    found = defaultdict(list)
    for minute in minutes:
        still = minute.reports[minute.reports[:, Field.SPEED] == 0]
        places = still[:, [Field.DIRECTION, Field.LANE, Field.POSITION, Field.CAR]]
        at, counts = np.unique(np.unique(places, axis=0)[:, :3], axis=0, return_counts=True)
        for place in at[counts >= 2].tolist():
            found[tuple(place)].append(minute.number)
    return found


def test_who_stands_has_crashed_with_another_and_drives_on_after_a_while(cycle):
    accidents = crashes(cycle)
    whole = [minutes for minutes in accidents.values() if minutes[-1] < CYCLE - 1]
    assert 2 <= len(whole) <= 20
    for minutes in whole:
        assert minutes == list(range(minutes[0], minutes[-1] + 1))
        assert 9 <= len(minutes) <= 27
    stands = sum((m.reports[:, Field.SPEED] == 0).any() for m in cycle)
    assert stands <= sum(map(len, accidents.values())) + 2 * len(accidents)


def test_a_jam_builds_up_behind_an_accident_and_dissolves_after_it(cycle):
    slower = []
    for (direction, _, feet), minutes in crashes(cycle).items():
        segment = feet // FEET_PER_SEGMENT
        behind = segment + (1 if direction else -1)
        if not 0 <= behind < SEGMENTS or minutes[-1] + 60 >= CYCLE or minutes[0] < 5:
            continue

        def speed(at, behind=behind, direction=direction):
            some = np.concatenate([minute.reports for minute in cycle[at : at + 3]])
            there = (some[:, Field.SEGMENT] == behind) & (some[:, Field.DIRECTION] == direction)
            return some[there, Field.SPEED].mean() if there.any() else np.nan

        slower.append([speed(minutes[0] - 4), speed(minutes[-1] - 3), speed(minutes[-1] + 50)])
    before, during, after = np.nanmean(slower, axis=0)
    assert len(slower) >= 2
    assert during < 0.8 * before
    assert after > 1.1 * during


def test_queries_come_with_one_report_in_a_hundred(cycle):
    queries = np.concatenate([minute.queries for minute in cycle])
    reports = sum(len(minute.reports) for minute in cycle)
    assert len(queries) / reports == pytest.approx(0.01, rel=0.05)
    assert sorted(queries[:, Field.QUERY]) == list(range(len(queries)))
    shares = [(queries[:, Field.KIND] == kind).mean() for kind in (2, 3, 4)]
    assert shares == pytest.approx([0.5, 0.1, 0.4], abs=0.03)


def test_each_query_has_the_fields_of_its_kind_and_is_asked_along_with_a_report(cycle):
    used = {
        Kind.BALANCE: set(),
        Kind.EXPENDITURE: {Field.DAY},
        Kind.TRAVEL: {Field.START, Field.END, Field.DAY_OF_WEEK, Field.MINUTE_OF_DAY},
    }
    for minute in cycle[:50]:
        seen = set(map(tuple, minute.reports[:, [Field.CAR, Field.TIME]].tolist()))
        for query in minute.queries:
            assert (query[Field.CAR], query[Field.TIME]) in seen
            given = {field for field in Field if query[field] != -1}
            assert given == used[Kind(query[Field.KIND])] | {
                *(Field.KIND, Field.TIME, Field.CAR, Field.EXPRESSWAY, Field.QUERY)
            }
        travel = minute.queries[minute.queries[:, Field.KIND] == Kind.TRAVEL]
        assert (travel[:, [Field.START, Field.END]] < SEGMENTS).all()


def test_cars_are_numbered_as_they_enter(journeys):
    firsts = [int(reports[0, Field.TIME]) // 30 for reports in journeys]
    assert all(one <= other for one, other in pairwise(firsts))


def test_a_stretch_has_the_reports_from_its_miles_and_the_journeys_within_them(cycle):
    for whole, part in zip(cycle[::50], stretch(cycle[::50], 40, 60), strict=True):
        assert part.number == whole.number
        segments = whole.reports[:, Field.SEGMENT]
        there = whole.reports[(segments >= 40) & (segments <= 59)]
        assert (part.reports == there).all()
        kinds = part.queries[:, Field.KIND]
        journeys = part.queries[kinds == Kind.TRAVEL][:, [Field.START, Field.END]]
        assert ((journeys >= 40) & (journeys <= 59)).all()
        others = whole.queries[whole.queries[:, Field.KIND] != Kind.TRAVEL]
        assert (part.queries[kinds != Kind.TRAVEL] == others).all()


def test_journeys_within_a_stretch_stay(cycle):
    queries = np.concatenate([minute.queries for minute in cycle])
    asked = queries[queries[:, Field.KIND] == Kind.TRAVEL][:, [Field.START, Field.END]]
    within = int(((asked >= 40) & (asked < 60)).all(1).sum())
    parts = np.concatenate([minute.queries for minute in stretch(cycle, 40, 60)])
    assert (parts[:, Field.KIND] == Kind.TRAVEL).sum() == within > 0


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (5, 5), (90, 101)])
def test_a_stretch_that_is_not_on_the_road_is_refused(first, last):
    with pytest.raises(ValueError, match="choose two numbers from 0 to 100"):
        list(stretch(generate(1, SEED), first, last))
