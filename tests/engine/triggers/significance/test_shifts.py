"""What is measured run by run has shifted, or it is only chance."""

import msgspec
import numpy as np
import pytest

from headgate.engine.triggers.significance.shifts import Shifts

TOLERANCE = 0.1
ENOUGH = 5.0


def noted(shifts: Shifts, *changes: float, least: float = 0.0) -> list[int]:
    return [shifts.note(change, least, TOLERANCE, ENOUGH) for change in changes]


def calm(mean: float = 1.0, chance: float = 0.2, seed: int = 1) -> Shifts:
    """Return what 24 runs have left that differ by chance."""
    random = np.random.default_rng(seed)
    return Shifts([mean * random.lognormal(0, chance) for _ in range(24)])


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 10.0])
def test_a_shift_is_noticed_with_the_runs_since(factor):
    shifts = calm(chance=0.05)
    assert noted(shifts, 1.0, 1.0, 1.0, factor, factor) == [0, 0, 0, 0, 2]


def test_a_shift_within_the_tolerance_is_none():
    assert not any(noted(calm(chance=0.01), *[1.09] * 200))


def test_the_tolerance_is_of_the_target_where_that_is_more():
    assert any(noted(calm(chance=0.01), *[1.5] * 9))
    assert not any(noted(calm(chance=0.01), *[1.5] * 9, least=8.0))


def test_one_run_alone_is_chance_however_far_out():
    shifts = calm()
    assert not any(noted(shifts, 1e6, *[1.0] * 20))
    assert not any(noted(calm(), 0.0, *[1.0] * 20))


@pytest.mark.parametrize("change", [0.01, 100.0])
def test_it_takes_two_runs_however_little_is_enough(change):
    shifts = calm(chance=0.05)
    assert [shifts.note(change, 0.0, TOLERANCE, 1.0) for _ in range(2)] == [0, 2]


def test_what_is_no_shift_is_hardly_ever_taken_for_one():
    alarms = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        alarms += any(noted(Shifts(), *random.lognormal(0, 0.4, 400)))
    assert alarms <= 2


def test_runs_under_suspicion_are_not_what_later_ones_are_compared_with():
    shifts = calm(chance=0.3)
    before = list(shifts.calm)
    noted(shifts, 1.9, 1.9)
    assert shifts.calm == before
    assert shifts.suspected == [1.9, 1.9]
    noted(shifts, *[1.0] * 5)
    assert shifts.suspected == []
    assert shifts.calm == [*before, 1.9, 1.9, *[1.0] * 5][-24:]


def test_an_output_that_has_never_changed_has_no_chance_to_compare_with():
    assert not any(noted(Shifts(), *[0.0] * 9, 1.0, 1.0))


def test_the_first_runs_are_what_later_ones_are_compared_with():
    shifts = Shifts()
    noted(shifts, 1.0, 9.0, 1.0)
    assert (shifts.calm, shifts.suspected) == ([1.0, 9.0, 1.0], [])


def test_few_runs_tell_of_no_shift():
    assert not any(noted(Shifts(), 1.0, 9.0, 1.0))


def test_what_was_noted_is_kept_by_a_snapshot():
    shifts = calm(chance=0.3)
    noted(shifts, 1.9, 1.9)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(shifts), type=Shifts) == shifts
