"""All containers of all waves, against what happens on roads of a few cars."""

import numpy as np
import pytest
from linear_road.all_waves import PerCar, all_waves
from linear_road.histories import CONTAINERS, history, in_slots
from linear_road.records import Kind, Minute
from linear_road.traffic import generate
from road_scenes import journey, minute, record, report

from headgate.learning import ErrorMetric, errors, measured_pairs

MILE = 5280


def standing(minutes, cars, feet=3 * MILE + 7, lane=2):
    """Return a minute each in which the cars report twice from one place."""
    return [
        minute(
            *(
                report(car=car, time=60 * number + 30 * half, feet=feet, speed=0, lane=lane)
                for car in cars
                for half in (0, 1)
            )
        )
        for number in minutes
    ]


def one_car(*numbers, car=1, feet=100):
    return [minute(report(car=car, time=60 * number, feet=feet)) for number in numbers]


def test_a_car_counts_once_in_a_minute_and_segment_with_its_mean_speed():
    waves = all_waves(
        [
            minute(
                report(car=1, time=0, feet=0, speed=10),
                report(car=1, time=30, feet=MILE - 1, speed=30),
                report(car=2, time=5, feet=10, speed=50),
                report(car=2, time=35, feet=MILE, speed=40),
                report(car=3, time=6, feet=10, speed=99, direction=1),
            )
        ]
    )
    assert waves.minute_cars[0, [0, 1, 100], 0].tolist() == [2, 1, 1]
    assert waves.minute_speeds[0, [0, 1, 100], 0].tolist() == [35, 40, 99]
    assert np.isnan(waves.minute_cars[0, :, 1:]).all()
    assert waves.speeds[0, [0, 1, 100]].tolist() == [35, 40, 99]
    assert waves.cars[0, [0, 1, 100]] == pytest.approx([2 / 5, 1 / 5, 1 / 5])


def test_what_is_older_than_five_minutes_no_longer_counts():
    seen = [minute(report(car=9, time=0, feet=0, speed=20)), *one_car(*range(1, 8), feet=50)]
    waves = all_waves(seen)
    assert waves.speeds[:, 0] == pytest.approx([20, 40, 140 / 3, 50, 52, 60, 60, 60])
    assert waves.cars[:, 0] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1])
    assert [9 in reports.cars for reports in waves.reports] == [True] * 5 + [False] * 3
    assert [9 in positions.cars for positions in waves.positions] == [True] + [False] * 7


def test_minutes_without_reports_of_a_segment_have_no_speed_and_no_cars():
    waves = all_waves([*one_car(0), *one_car(3, feet=9 * MILE)])
    assert waves.speeds[1, [0, 9]].tolist() == [60, 60]
    assert waves.cars[1, [0, 9]] == pytest.approx([0.2, 0.2])
    again = all_waves([*one_car(0), *one_car(7, feet=9 * MILE)])
    assert np.isnan(again.speeds[1, 0])
    assert again.speeds[1, 9] == 60


def test_a_wave_without_reports_leaves_all_as_it_was():
    empty = Minute(1, minute(report(car=1, time=60, feet=1)).records[:0])
    waves = all_waves([*one_car(0), empty])
    assert waves.minutes.tolist() == [0, 0]
    assert waves.reported.tolist() == [1, 0]
    assert np.array_equal(waves.speeds[0], waves.speeds[1], equal_nan=True)


def test_a_car_is_where_it_reported_last():
    moved = minute(report(car=1, time=30, feet=700), report(car=1, time=0, feet=500))
    waves = all_waves([moved, *one_car(1, car=2)])
    assert waves.positions[0].values.tolist() == [700]
    assert waves.reports[1].values.tolist() == [700, 100]


def test_two_cars_that_stand_at_one_place_are_an_accident():
    two = all_waves([*standing(range(3), (1, 2)), *one_car(*range(3, 9))])
    place = f"x00d0s003l2p{3 * MILE + 7:06d}"
    assert two.standing[:3] == [{}, {place: 2.0}, {place: 2.0}]
    expected = [0, 1, 1, 1, 1, 1, 0, 0, 0]  # after minute 5 fewer than four reports are left
    assert np.nan_to_num(two.accidents[:, 3]).tolist() == expected
    assert np.isnan(two.accidents[:, 4:]).all()


@pytest.mark.parametrize(
    "minutes",
    [
        standing(range(3), (1,)),
        [*standing(range(1), (1, 2))],
        [
            minute(*a.records.tolist(), *b.records.tolist())
            for a, b in zip(standing(range(3), (1,)), standing(range(3), (2,), lane=3), strict=True)
        ],
        [
            minute(*a.records.tolist(), *b.records.tolist())
            for a, b in zip(
                standing(range(3), (1,)), standing(range(3), (2,), feet=3 * MILE + 8), strict=True
            )
        ],
    ],
    ids=["one car", "two reports", "two lanes", "two places"],
)
def test_others_that_stand_are_none(minutes):
    assert np.isnan(all_waves(minutes).accidents).all()


def test_queries_are_ranked_by_when_they_are_due_and_journeys_answered():
    def other(kind, query, time):
        return record(kind=kind, time=time, car=7, query=query)

    waves = all_waves(
        [
            minute(
                report(car=1, time=0, feet=0, speed=30),
                journey(query=1, time=20, start=0, end=0),  # due at 50
                journey(query=2, time=10, start=1, end=0),  # due at 40
                other(Kind.BALANCE, 3, 36),  # due at 41
                other(Kind.EXPENDITURE, 4, 29),  # due at 39
                journey(query=0, time=20, start=0, end=1),  # due at 50
            )
        ]
    )
    (answers,) = waves.answers
    ranks = {row: answer.rank for row, answer in answers.items()}
    assert ranks == {"q0000000002": 2, "q0000000000": 4, "q0000000001": 5}
    free = 60 / 65
    minutes = [answers[row].minutes for row in sorted(answers)]
    assert minutes == pytest.approx([2 + free, 2, 2 * free])


def test_what_cannot_be_a_dataflow_s_input_is_named():
    with pytest.raises(ValueError, match="no minutes; give one at least"):
        all_waves([])
    with pytest.raises(ValueError, match=r"minute 0 has no reports; begin with"):
        all_waves([minute(journey(query=1, time=0, start=1, end=2))])
    with pytest.raises(ValueError, match=r"minute 0: expressways of records must be below 1; pass"):
        all_waves([minute(report(car=1, time=0, feet=0, expressway=1))])
    two = all_waves([minute(report(car=1, time=0, feet=0, expressway=1))], expressways=2)
    assert np.flatnonzero(~np.isnan(two.speeds[0])).tolist() == [200]


def test_a_slot_is_free_again_when_no_pair_of_waves_can_have_both_cars():
    rows = [
        PerCar(np.array(cars), np.array(cars) * 10.0)
        for cars in ([1, 2], [1, 3], [1, 4], [1, 4, 5], [6])
    ]
    assert in_slots(rows, 2).tolist() == [
        [10, 20, 0, 0],
        [10, 0, 30, 0],
        [10, 0, 0, 40],
        [10, 50, 0, 40],
        [0, 0, 60, 0],
    ]


def test_errors_by_slots_are_those_by_cars():
    waves = all_waves(generate(12, seed=3))
    horizon = 3
    known = errors(
        measured_pairs(history(waves, "positions", horizon), horizon), ErrorMetric.RELATIVE
    )
    for wave, age in ((5, 1), (11, 3)):
        now, then = (
            dict(zip(row.cars.tolist(), row.values.tolist(), strict=True))
            for row in (waves.positions[wave], waves.positions[wave - age])
        )
        pairs = [(now.get(car, 0.0), then.get(car, 0.0)) for car in now.keys() | then.keys()]
        apart = sum(abs(x - before) for x, before in pairs)
        assert known[wave, age] == pytest.approx(apart / sum(max(pair) for pair in pairs))


def test_histories_count_elements_and_updates():
    waves = all_waves([*standing(range(3), (1, 2)), *one_car(3, 4, car=3)])

    def counts(container):
        found = history(waves, container, 2)
        assert found.times.tolist() == [0, 60, 120, 180, 240]
        return found.elements.tolist(), found.updates.tolist()

    assert counts("reports") == ([2, 2, 2, 3, 3], [2, 2, 2, 1, 1])
    assert counts("positions") == ([2, 2, 2, 1, 1], [2, 2, 2, 3, 1])
    assert counts("minute-cars") == ([1, 2, 3, 4, 5], [1, 1, 1, 1, 1])
    assert counts("standing") == ([0, 1, 1, 1, 1], [0, 1, 0, 0, 0])
    assert counts("accidents") == ([0, 1, 1, 1, 1], [0, 1, 0, 0, 0])
    assert counts("cars") == ([1, 1, 1, 2, 2], [1, 1, 1, 1, 1])


def test_every_container_of_a_bounded_step_has_a_history():
    waves = all_waves(generate(3, seed=1))
    for container in CONTAINERS:
        found = history(waves, container, 2)
        assert len(found.values) == len(found.elements) == len(found.updates) == 3
        assert not np.isnan(found.values).any()
    with pytest.raises(ValueError, match="no history of 'answers'; there are reports, "):
        history(waves, "answers", 2)
