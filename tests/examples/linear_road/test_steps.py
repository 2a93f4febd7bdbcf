"""The PySpark steps, on a local session, against all waves computed by the formulas."""

import numpy as np
import pyarrow as pa
import pytest
from linear_road import model, steps
from linear_road.all_waves import all_waves
from linear_road.records import Field, Kind, Minute, recorded
from linear_road.traffic import generate
from road_scenes import journey, minute, record, report
from test_records import REAL

MILE = 5280
STEPS = ("split", "positions", "speeds", "cars", "accidents", "congestion", "areas")
QUERIES = ("rank", "answer")
WAVES = 5
SKIPPED = 3


def thinned(minutes, share, kept=()):
    """Return minutes with one car in so many, and those that are kept in any case."""
    for one in minutes:
        car = one.records[:, Field.CAR]
        yield Minute(one.number, one.records[(car % share == 0) | np.isin(car, kept)])


@pytest.fixture(scope="module")
def traffic():
    """Some minutes around an accident, with one car in ten and those that crash."""
    every = list(generate(200, seed=2))
    still = [one.reports[one.reports[:, Field.SPEED] == 0] for one in every]
    first = next(at for at in range(2, 200) if len(still[at]) and not len(still[at - 2]))
    crashed = still[first + 1][:, Field.CAR]
    return list(thinned(every[first - 2 : first - 2 + WAVES], 10, crashed))


def segments(cells, name):
    """Return a column of a container by segment, NaN where there is no cell."""
    keys = model.segment_keys()
    assert set(cells) <= set(keys)
    return np.array([cells.get(key, {}).get(name, np.nan) for key in keys])


def same(found, expected):
    return np.allclose(found, expected, equal_nan=True, rtol=1e-12, atol=1e-12)


def check(road, waves, wave):
    """Compare every container with a wave."""
    for container in ("reports", "positions"):
        expected = getattr(waves, container)[wave]
        keys = [f"c{car:010d}" for car in expected.cars.tolist()]
        assert road.column(container) == dict(zip(keys, expected.values.tolist(), strict=True))
    assert set(road.cells("history")) == set(road.cells("latest")) == set(road.cells("reports"))
    minutes = road.cells("minutes")
    for slot in range(model.WINDOW):
        assert same(segments(minutes, f"speed{slot}"), waves.minute_speeds[wave, :, slot])
        assert same(segments(minutes, f"cars{slot}"), waves.minute_cars[wave, :, slot])
    assert road.column("standing") == waves.standing[wave]
    assert same(segments(road.cells("speeds"), "speed"), waves.speeds[wave])
    assert same(segments(road.cells("cars"), "cars"), waves.cars[wave])
    assert same(segments(road.cells("accidents"), "accidents"), waves.accidents[wave])
    assert same(segments(road.cells("levels"), "congestion"), waves.congestion[wave])
    assert same(segments(road.cells("levels"), "toll"), waves.tolls[wave])
    areas = road.column("areas")
    assert same([areas.get(key, np.nan) for key in model.area_keys()], waves.areas[wave])


def test_the_steps_follow_the_formulas_also_after_waves_that_were_skipped(road, traffic):
    waves = all_waves(traffic)
    assert np.nan_to_num(waves.accidents).any(), "an accident among them"
    assert len(set(traffic[0].reports[:, Field.CAR]) - set(traffic[-1].reports[:, Field.CAR]))
    answered = 0
    for wave, one in enumerate(traffic):
        road.feed(one)
        if wave < SKIPPED:
            road.run("split", "rank")
            continue
        road.run(*STEPS, *QUERIES)
        check(road, waves, wave)
        answers = road.cells("answers")
        for row, expected in waves.answers[wave].items():
            cells = answers[row]
            assert cells["rank"] == expected.rank
            assert cells["minutes"] == pytest.approx(expected.minutes)
            assert cells["cents"] == pytest.approx(expected.cents)
            answered += 1
    assert answered > 5


def test_an_attempt_that_is_repeated_changes_nothing(road, traffic):
    road.feed(traffic[0])
    road.run("split", "rank")
    consumed = dict(road.seen)
    road.feed(traffic[1])
    road.run(*STEPS, *QUERIES)
    before = {name: road.cells(name) for name in road.containers}
    assert all(before[name] for name in set(before) - {"standing", "accidents"})
    road.seen = consumed
    road.run(*STEPS, *QUERIES)
    assert {name: road.cells(name) for name in road.containers} == before


def test_real_records_take_the_same_steps(road):
    if not REAL.is_dir():
        pytest.skip(f"{REAL} is not on this machine")
    minutes = list(thinned(recorded(REAL / "mitsim_1xway_first_seconds.csv.gz"), 9))
    waves = all_waves(minutes)
    for one in minutes:
        road.feed(one)
        road.run("split")
    road.run(*STEPS[1:])
    check(road, waves, len(minutes) - 1)


def test_two_minutes_that_come_at_once_are_both_kept(road):
    road.feed(minute(report(car=1, time=0, feet=10, speed=20)))
    road.feed(minute(report(car=1, time=61, feet=700, speed=40)))
    road.run("split", "positions", "speeds")
    assert road.column("speeds") == {"x00d0s000": 30}


def test_split_drops_cars_and_queries_after_five_minutes(road):
    road.feed(minute(report(car=1, time=59, feet=10), journey(query=5, time=59, start=1, end=2)))
    road.run("split", "rank", "positions", "answer")
    for number, stays in ((4, True), (5, False)):
        road.feed(
            minute(
                report(car=2, time=60 * number, feet=10),
                journey(query=10 + number, time=60 * number + 59, start=1, end=2),
            )
        )
        road.run("split", "rank", "positions", "answer")
        assert ("c0000000001" in road.cells("history")) is stays
        assert ("c0000000001" in road.cells("latest")) is stays
        assert "c0000000001" not in road.cells("positions")
        for container in ("queries", "ranked", "answers"):
            assert ("q0000000005" in road.cells(container)) is stays


def test_split_writes_the_minute_that_has_come_and_leaves_the_others(road):
    road.feed(minute(report(car=1, time=0, feet=10)))
    road.run("split")
    road.feed(minute(report(car=1, time=60, feet=20, speed=50), report(car=1, time=90, feet=30)))
    road.run("split")
    assert road.cells("history") == {
        "c0000000001": {
            "minute0": "0,60,0,1,0,0,10",
            "minute1": "60,50,0,1,0,0,20;90,60,0,1,0,0,30",
        }
    }
    assert road.cells("latest") == {"c0000000001": {"position": 30, "time": 90}}


def test_a_car_that_comes_back_after_more_than_five_minutes_brings_no_old_reports(road):
    for numbers in ([0], range(1, 6), [6]):
        for number in numbers:
            car = 1 if number in {0, 6} else 2
            road.feed(minute(report(car=car, time=60 * number, feet=10 + number)))
        road.run("split")
    road.run("positions")
    assert road.column("positions") == {"c0000000001": 16}
    assert road.cells("minutes") == {
        "x00d0s000": {
            f"{name}{slot}": value
            for slot in range(5)
            for name, value in (("speed", 60.0), ("cars", 1.0))
        }
    }


def test_two_cars_make_an_accident_where_both_reported_four_times_without_speed(road):
    def stand(car, mile, reports=4, speed=0, lane=1):
        return [
            report(car=car, time=30 * at, feet=mile * MILE + 7, speed=speed, lane=lane)
            for at in range(reports)
        ]

    sent = [
        *(*stand(1, 3), *stand(2, 3), *stand(3, 3, lane=2), *stand(4, 3, lane=2), *stand(5, 3)),
        *(*stand(6, 5), *stand(7, 5, reports=3), *stand(8, 5, lane=2)),
        *(*stand(9, 7, speed=1), *stand(10, 7, speed=1)),
        *(*stand(11, 9), *stand(12, 9)),
    ]
    for number in (0, 1):
        road.feed(minute(*(one for one in sent if one[Field.TIME] // 60 == number)))
    road.run("split", "positions", "accidents")
    assert sorted(road.column("standing").values()) == [1, 1, 2, 2, 3]
    assert road.column("accidents") == {"x00d0s003": 2, "x00d0s009": 1}


def test_only_what_differs_is_written(road):
    road.feed(minute(report(car=1, time=0, feet=10), report(car=2, time=0, feet=MILE)))
    road.run(*STEPS)
    road.feed(minute(report(car=1, time=60, feet=10), report(car=2, time=60, feet=2 * MILE)))
    road.run(*STEPS)
    assert road.writes["speeds"] == [["x00d0s000", "x00d0s001"], ["x00d0s002"]]
    assert road.writes["areas"] == [["x00d0a00"], []]


def test_levels_are_those_of_the_formulas(spark):
    random = np.random.default_rng(1)
    keys = model.segment_keys(2)
    speeds, cars = random.uniform(0, 80, len(keys)), random.uniform(30, 90, len(keys))
    accidents = np.where(random.uniform(size=len(keys)) < 0.03, 1.0, np.nan)
    speeds[::17], cars[5::19] = np.nan, np.nan

    def frame(values, name):
        rows = pa.table({"row": keys, name: values})
        return spark.createDataFrame(rows.filter(~np.isnan(values)))

    levels = steps.levels_frame(
        frame(speeds, "speed"), frame(cars, "cars"), frame(accidents, "accidents")
    )
    found = {row["row"]: row for row in levels.toArrow().to_pylist()}
    for name, formula in (("congestion", model.congestion), ("toll", model.tolls)):
        expected = formula(speeds, cars, accidents)
        assert (expected > 0).sum() > 50
        assert same([found.get(key, {name: np.nan})[name] for key in keys], expected)


def test_areas_are_those_of_the_formulas(spark):
    levels = np.random.default_rng(2).uniform(0, 1.1, 200) * np.repeat(
        np.linspace(0.2, 1.5, 20), 10
    )
    levels[30:40], levels[::7] = np.nan, np.nan
    rows = pa.table({"row": model.segment_keys(), "congestion": levels})
    known = spark.createDataFrame(rows.filter(~np.isnan(levels)))
    found = steps.areas_frame(known)
    expected = model.areas(levels)
    assert set(expected[~np.isnan(expected)]) == {1, 2, 3}
    assert {row["row"]: row["class"] for row in found.toArrow().to_pylist()} == {
        key: value
        for key, value in zip(model.area_keys(), expected.tolist(), strict=True)
        if not np.isnan(value)
    }


def test_queries_are_ranked_once_by_when_they_are_due(road):
    def other(kind, query, time):
        return record(kind=kind, time=time, car=7, query=query)

    road.feed(
        minute(
            report(car=1, time=0, feet=0),
            journey(query=1, time=20, start=0, end=0),
            journey(query=2, time=10, start=1, end=0),
            other(Kind.BALANCE, 3, 36),
            other(Kind.EXPENDITURE, 4, 29),
        )
    )
    road.run("split", "rank", "answer")
    ranks = {row: cells["rank"] for row, cells in road.cells("ranked").items()}
    assert ranks == dict(zip([f"q{n:010d}" for n in (4, 2, 3, 1)], (1, 2, 3, 4), strict=True))
    assert set(road.cells("answers")) == {"q0000000001", "q0000000002"}
    road.feed(minute(report(car=1, time=60, feet=0), journey(query=9, time=60, start=3, end=3)))
    road.run("split", "rank", "answer")
    assert road.writes["ranked"][1] == road.writes["answers"][1] == ["q0000000009"]
    assert road.cells("ranked")["q0000000009"]["rank"] == 1


def test_a_journey_is_estimated_from_what_its_segments_show(road):
    for segment, speed in (("x00d1s004", 30.0), ("x00d1s003", 1.0), ("x00d0s003", 60.0)):
        road.put("lr-speeds", segment, "s:speed", speed)
    for segment, toll in (("x00d1s004", 12.0), ("x00d1s003", 0.0), ("x00d0s003", 99.0)):
        road.put("lr-levels", segment, "l:toll", toll)
    road.feed(minute(report(car=1, time=0, feet=0), journey(query=1, time=9, start=4, end=2)))
    road.run("split", "rank", "answer")
    (answer,) = road.cells("answers").values()
    assert answer.pop("minutes") == pytest.approx(2 + 60 / model.SLOWEST + 60 / model.FREE_SPEED)
    assert answer == {"rank": 1, "time": 9, "cents": 12}


def test_frames_are_computed_without_python_in_the_executors(road, traffic):
    """Native operators only: a Python function per row would cost a second a run."""
    road.feed(traffic[0])
    road.run(*STEPS, *QUERIES)

    read = road.frame
    reports = steps.recent_frame(steps.reports_frame(read("history", steps._HISTORY)))
    for result in (
        steps.positions_frame(reports),
        steps.minutes_frame(reports),
        steps.standing_frame(reports),
        steps.speeds_frame(read("minute-speeds")),
        steps.cars_frame(read("minute-cars")),
        steps.accidents_frame(read("standing")),
        steps.levels_frame(read("speeds"), read("cars"), read("accidents")),
        steps.areas_frame(read("congestion")),
        steps.ranked_frame(read("queries")),
        steps.answers_frame(read("ranked"), read("speeds"), read("tolls")),
    ):
        plan = result._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert result.count() >= 0
