"""A limit that was found is kept under watch: noise leaves it, a changed trend opens it again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from searching import drive

from headgate.engine import Dimension
from headgate.engine.triggers.significance.measurements import Measurement
from headgate.engine.triggers.significance.search import Search, SearchPhase, SearchState, Taken
from headgate.engine.triggers.significance.shifts import Shifts


class Stream:
    """So many updates a wave, each with a change of its own, and a search that has steps run."""

    def __init__(self, target: float, noise: float, seed: int, change: float = 0.001) -> None:
        self.random = np.random.default_rng(seed)
        self.search = Search(0.1, 5)
        self.search.open(target)
        self.noise = noise
        self.change = change
        """Of the output, by an update on average."""
        self.received = self.updates = self.runs = 0
        self.moved = 0.0

    def wave(self) -> None:
        came = int(self.random.poisson(10))
        self.received, self.updates = self.received + came, self.updates + came
        factor = self.random.lognormal(-(self.noise**2) / 2, self.noise)
        self.moved += came * self.change * factor
        limits = self.search.limits
        if (
            self.updates >= limits[Dimension.SEQUENCE]
            or self.updates / 1000 >= limits[Dimension.VALUE]
        ):
            self.search.launched(Taken(self.updates, self.moved))
            self.search.finished(self.moved)
            self.updates, self.moved = 0, 0.0
            self.runs += 1
        self.search.wave(self.received, 100)

    @property
    def openings(self) -> int:
        return self.search.state.opened - 1

    def runs_until_opened(self, most: int) -> float:
        """Let waves come until the search opens again; return after how many runs."""
        opened, runs = self.openings, self.runs
        for _ in range(most):
            self.wave()
            if self.openings > opened:
                return self.runs - runs
        return math.inf


@pytest.mark.parametrize("target", [0.03, 0.1])
@pytest.mark.parametrize("noise", [0.3, 0.6, 1.0])
def test_noise_that_stays_the_same_hardly_ever_opens_a_search_again(noise, target):
    openings = []
    for seed in range(20):
        stream = Stream(target, noise, seed)
        for _ in range(600):
            stream.wave()
        openings.append(stream.openings)
    assert max(openings) <= 2
    assert sum(openings) <= 10


@pytest.mark.parametrize("target", [0.03, 0.1])
@pytest.mark.parametrize(
    ("noise", "factor", "most"), [(0.3, 2.5, 3), (0.3, 0.5, 5), (0.6, 2.5, 6.5)]
)
def test_a_change_of_the_trend_is_noticed_after_few_runs(noise, factor, most, target):
    """By an average of eight runs alone it took 6 to 10 of them."""
    taken = []
    for seed in range(20):
        stream = Stream(target, noise, seed)
        for _ in range(200):
            stream.wave()
        stream.change *= factor
        taken.append(stream.runs_until_opened(300))
    assert np.median(taken) <= most
    assert max(taken) < math.inf


@pytest.mark.parametrize(("noise", "above"), [(0.3, 2.0), (0.3, 5.0), (0.6, 2.0), (0.6, 5.0)])
def test_a_target_that_cannot_be_reached_is_rested_at_until_it_can_be(noise, above):
    """One wave changes the output by more: searches reopened 3 to 5 times in 800 waves."""
    openings, noticed = [], []
    for seed in range(20):
        stream = Stream(0.01 / above, noise, seed)
        for _ in range(800):
            stream.wave()
        openings.append(stream.openings)
        assert stream.search.found
        assert stream.search.state.limit == 1
        assert stream.search.out_of_reach
        assert "the target cannot be reached" in stream.search.words()
        stream.change /= 3 * above
        noticed.append(stream.runs_until_opened(100))
    assert max(openings) <= 2
    assert sum(openings) <= 3
    assert np.median(noticed) <= 5
    assert max(noticed) < math.inf


def test_one_run_alone_does_not_tell_that_a_target_cannot_be_reached():
    search = Search(0.1, 5)
    search.open(0.05)
    for number, change in enumerate((0.5, 0.5, 0.005)):
        search.launched(Taken(10, 0.01))
        search.finished(change)
        search.wave(10 * (number + 1), 1000)
    assert not search.found


def test_a_search_that_rests_tells_predecessors_of_a_change_and_opens_for_none_in_vain():
    search = Search(0.1, 5)
    search.open(0.01)
    drive(search, lambda u: 5 * u / 1000, 20)
    assert search.input_change == pytest.approx(0.01 / 5)
    opened = search.state.opened
    said = []
    for _ in range(8):  # the output follows its input by twice as much
        search.launched(Taken(10, 0.01))
        said.append(search.finished(0.1))
    assert search.input_change == pytest.approx(0.01 / 10)
    assert search.state.opened == opened
    assert [words for words in said if words] == [said[1]]
    assert said[1] is not None
    assert said[1].startswith("search rests at σ 1 updates, the target cannot be reached")
    assert search.out_of_reach


def test_a_search_that_found_its_target_is_not_said_to_be_out_of_reach():
    search = Search(0.1, 5)
    search.open(0.05)
    drive(search, lambda u: u / 1000, 60)
    assert search.found
    assert not search.out_of_reach
    assert "cannot be reached" not in search.words()


def test_a_run_that_is_far_out_is_looked_at_twice_and_not_once():
    search = Search(0.1, 5)
    search.open(0.05)
    drive(search, lambda u: u / 1000, 60)
    assert search.found
    opened = search.state.opened
    amount = search.state.limit
    for change in (0.05, 0.05, 0.5, 0.05, 0.05):
        search.launched(Taken(amount, amount / 1000))
        search.finished(change)
        assert search.state.opened == opened
    for _ in range(12):
        search.launched(Taken(amount, amount / 1000))
        search.finished(0.5)
        if search.state.opened > opened:
            break
    assert search.state.opened > opened
    # What was measured before says nothing of what comes now.
    assert {run.change for run in search.state.measurements} == {0.5}


@pytest.mark.parametrize(("patience", "runs"), [(1, 2), (2, 3), (4, 3), (5, 3), (8, 3), (9, 3)])
def test_an_average_that_is_far_off_is_looked_at_twice_at_least(patience, runs):
    search = Search(0.1, patience)
    search.state = SearchState(
        SearchPhase.FOUND, limit=10, target=0.1, expected=0.1, baseline=True,
        measurements=[Measurement(10, 10, 0.1, 0.1)] * 2, shifts=Shifts([0.01, 1.0] * 12),
    )  # fmt: skip
    said: list[str | None] = []
    while not any(said):
        search.launched(Taken(10, 0.1))
        said.append(search.finished(0.9))
    assert len(said) == runs
    assert said[-1] is not None
    assert f"in {runs - 1} runs the output has changed by 90 %" in said[-1]


def test_waves_without_a_run_say_nothing_about_a_limit():
    search = Search(0.1, 5)
    search.open(0.05)
    drive(search, lambda u: u / 1000, 60)
    assert search.found
    search.launched(Taken(search.state.limit, 0.05))
    search.finished(0.5)
    for _ in range(100):
        assert search.wave(search.state.received, 1000) is None
    assert search.found


def test_where_the_least_limit_changes_more_predecessors_must_do_with_less():
    search = Search(0.1, 5)
    search.open(0.01)
    drive(search, lambda u: 5 * u / 1000, 10)
    assert search.found
    assert search.state.limit == 1
    # A wave is ten updates: its input changes by 0.01, its output by 0.05.
    assert search.input_change == pytest.approx(0.01 / 5)


def test_where_updates_do_not_predict_the_output_the_divergence_is_searched_for():
    random = np.random.default_rng(3)
    search = Search(0.1, 5)
    search.open(0.2)
    received = updates = 0
    moved = 0.0
    for _ in range(200):
        # The same number of updates moves values by anything between nothing and much.
        received, updates = received + 10, updates + 10
        moved += 100 * random.exponential(0.01) ** 2
        limits = search.limits
        if updates >= limits[Dimension.SEQUENCE] or moved >= limits[Dimension.VALUE]:
            search.launched(Taken(updates, moved))
            search.finished(2 * moved)
            updates, moved = 0, 0.0
        search.wave(received, 10)
    assert search.state.dimension is Dimension.VALUE
    assert search.limits[Dimension.SEQUENCE] == math.inf
