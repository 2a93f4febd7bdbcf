"""What happens in a piece is drawn from its seed, and from nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from soaking.happenings import HABITS, QUIET_END, QUIET_START, Kind, draw

HOUR = 3600.0


def test_a_seed_draws_the_same_again_and_another_seed_something_else() -> None:
    assert draw(1, HOUR, Kind) == draw(1, HOUR, Kind)
    assert draw(1, HOUR, Kind) != draw(2, HOUR, Kind)


@pytest.mark.parametrize("seed", range(10))
def test_all_lies_between_the_quiet_times_in_order(seed: int) -> None:
    drawn = draw(seed, HOUR, Kind)
    assert all(one.at <= other.at for one, other in pairwise(drawn))
    assert drawn[0].at >= QUIET_START
    assert max(each.at + each.lasts for each in drawn) <= HOUR - QUIET_END
    for each in drawn:
        habit = HABITS[each.kind]
        assert each.target in habit.targets
        assert habit.shortest <= each.lasts <= habit.longest


def test_two_hours_have_every_kind_as_often_as_it_is_its_habit() -> None:
    counts = dict.fromkeys(Kind, 0)
    pieces = 20
    for seed in range(pieces):
        for each in draw(seed, 2 * HOUR, Kind):
            counts[each.kind] += 1
    for kind, habit in HABITS.items():
        wanted = pieces * 2 * HOUR / habit.every
        assert 0.7 * wanted < counts[kind] < 1.4 * wanted, kind


def test_leaving_a_kind_out_leaves_the_others_as_they_were() -> None:
    fewer = draw(3, HOUR, [kind for kind in Kind if kind is not Kind.CLOCK])
    assert fewer == tuple(each for each in draw(3, HOUR, Kind) if each.kind is not Kind.CLOCK)


def test_a_short_piece_has_what_is_rarer_than_it_is_long() -> None:
    kinds = {each.kind for each in draw(1, 360.0, Kind)}
    assert {Kind.TOMBSTONE, Kind.HUGE_ROW, Kind.OUTAGE} - kinds <= {Kind.OUTAGE}
