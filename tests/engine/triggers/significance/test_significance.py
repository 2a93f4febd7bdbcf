"""Only the change of the output that matters is given; the limits of steps are found (Figure 4)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionSpec,
    Bound,
    Codec,
    CodecName,
    DataflowSpec,
    DecisionKind,
    Dimension,
    Engine,
    EngineTester,
    Role,
    SignificanceSpec,
    SpecificationChanged,
    SpecificationError,
    WatchedContainer,
    at_least_one,
    check_specification,
    launched,
)
from headgate.engine.triggers.significance.measurements import Measurement
from headgate.engine.triggers.significance.policy import Searched
from headgate.engine.triggers.significance.search import (
    MOST_UPDATES,
    Search,
    SearchPhase,
    SearchState,
    Taken,
)
from headgate.engine.triggers.significance.shifts import Shifts
from headgate.events import Container, ContainerId, Item

TARGET = 0.05
CELLS = 40
INPUTS = np.random.default_rng(7)


def container(name: str, codec: Codec | None = None) -> WatchedContainer:
    return WatchedContainer(Container(ContainerId(name), (Item(name),)), codec or Codec())


def step(name: str, reads: str, writes: str, after: str) -> ActionSpec:
    bound = Bound(reads, ContainerId(reads), 1e6, SOUGHT_SEQUENCE, SOUGHT_VALUE)
    return ActionSpec(
        name,
        after=(after,),
        reads=(ContainerId(reads),),
        writes=(ContainerId(writes),),
        bounds=(bound,),
        condition=at_least_one([reads]),
    )


def flow(
    change: float = TARGET,
    searched: tuple[str, ...] = ("first", "second"),
    **significance: object,
) -> DataflowSpec:
    """feed -> in -> first -> middle -> second -> out; what is not searched for is synchronous."""
    steps = (step("first", "in", "middle", "feed"), step("second", "middle", "out", "first"))
    return DataflowSpec(
        "flow",
        (container("in"), container("middle"), container("out")),
        (
            ActionSpec("feed", Role.INPUT, writes=(ContainerId("in"),)),
            *(
                one
                if one.name in searched
                else msgspec.structs.replace(one, bounds=(), condition=None)
                for one in steps
            ),
        ),
        significance=SignificanceSpec(ContainerId("out"), change, searched, **significance),
    )


class Pipeline:
    """Runs the steps at once where the engine launches them: each copies its input."""

    def __init__(self, spec: DataflowSpec, seed: int = 1) -> None:
        self.tester = EngineTester(spec)
        self.random = np.random.default_rng(seed)
        self.values = self.random.uniform(50, 60, CELLS)
        self.runs: dict[str, list[int]] = {"first": [], "second": []}
        self.waves = 0

    def wave(self, growth: float, number: int = 10) -> None:
        """So many of the elements grow by a ratio, then the wave ends."""
        self.waves += 1
        chosen = self.random.choice(CELLS, CELLS if self.waves == 1 else number, replace=False)
        self.values[chosen] *= 1 + growth
        cells = {b"r%d" % i: {b"f:x": b"%.9f" % self.values[i]} for i in chosen}
        self.tester.write("in", cells)
        self._run(self.tester.wave("feed"))

    def _run(self, told: list) -> None:
        for action in launched(told):
            source, target = {"first": ("in", "middle"), "second": ("middle", "out")}[action]
            known = self.tester.tables.get(target, {})
            rows = {
                row: {column: value}
                for (row, column), value in self.tester.tables[source].items()
                if known.get((row, column)) != value
            }
            if rows:
                self.tester.write(target, rows, by=action)
            self.runs[action].append(self.waves)
            self._run(self.tester.finish(action))

    def search(self, action: str) -> Search:
        policy = self.tester.engine.actions[action].policy
        assert isinstance(policy, Searched)
        return policy.search

    def until(self, holds: Callable[[], bool], growth: float, waves: int) -> int:
        """Let waves come until it holds; return how many."""
        for number in range(waves):
            if holds():
                return number
            self.wave(growth)
        raise AssertionError(f"not in {waves} waves: {self.tester.engine.explain(0).actions}")


def test_every_step_runs_at_every_wave_until_its_search_has_its_turn():
    pipeline = Pipeline(flow())
    for _ in range(3):
        pipeline.wave(0.01)
    assert pipeline.runs["first"] == [1, 2, 3]
    assert pipeline.search("first").state.phase is SearchPhase.WAITING
    assert pipeline.search("second").state.phase is SearchPhase.DOUBLING


def test_the_last_step_is_searched_for_first_and_then_its_predecessor():
    pipeline = Pipeline(flow())
    budget = round(3 * math.log2(MOST_UPDATES * CELLS))
    pipeline.until(lambda: pipeline.search("second").found, 0.04, budget)
    change = pipeline.search("second").change
    assert change == pytest.approx(TARGET, rel=0.1)
    target = pipeline.search("first").state.target
    assert target == pytest.approx(pipeline.search("second").input_change, rel=0.1)
    pipeline.until(lambda: pipeline.search("first").found, 0.04, budget)
    assert len(pipeline.runs["first"]) < pipeline.waves


def test_the_change_can_be_taken_against_a_reference():
    pipeline = Pipeline(flow(0.05, against=100.0))
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    # The values are about half the reference, so they may move by twice as much.
    relative = Pipeline(flow(0.1))
    relative.until(lambda: relative.search("second").found, 0.04, 60)
    ratio = pipeline.search("second").state.limit / relative.search("second").state.limit
    assert 0.7 < ratio < 1.4


def test_a_step_that_is_not_searched_for_runs_before_one_that_is():
    pipeline = Pipeline(flow(searched=("second",)))
    for _ in range(3):
        pipeline.wave(0.01)
    assert pipeline.runs["first"] == [1, 2, 3]
    assert not isinstance(pipeline.tester.engine.actions["first"].policy, Searched)
    assert pipeline.tester.engine.explain(0).actions[1].policy is None
    assert pipeline.search("second").state.phase is SearchPhase.DOUBLING


def test_the_reference_is_one_for_the_output_alone():
    pipeline = Pipeline(flow(against=1000.0))
    for _ in range(3):
        pipeline.wave(0.01)
    first, second = (pipeline.search(name).state.measurements[-1] for name in ("first", "second"))
    assert first.change == pytest.approx(first.input)  # each copies its input
    assert second.change == pytest.approx(second.input * pipeline.values.mean() / 1000, rel=0.02)


def test_each_step_of_a_search_is_a_decision_and_explaining_shows_its_state():
    pipeline = Pipeline(flow())
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    words = [d.words for d in pipeline.tester.decisions() if d.kind is DecisionKind.ADJUSTED]
    assert words[0].startswith("search opened; target 5 %")
    assert any("search doubled" in said for said in words)
    assert any("search ended after" in said for said in words)
    explained = {a.action: a for a in pipeline.tester.engine.explain(pipeline.tester.now).actions}
    found = explained["second"].policy
    assert found.data["phase"] is SearchPhase.FOUND
    assert found.data["change"] == pytest.approx(TARGET, rel=0.1)
    assert "target 5 %" in found.words
    assert explained["feed"].policy is None


def test_a_step_whose_search_has_not_its_turn_yet_says_what_it_waits_for():
    explained = {a.action: a for a in Pipeline(flow()).tester.engine.explain(0).actions}
    assert "its successors are searched for first" in explained["first"].policy.words


def test_a_restart_goes_on_with_the_search():
    one, other = Pipeline(flow()), Pipeline(flow())
    for pipeline in (one, other):
        for _ in range(8):
            pipeline.wave(0.03)
    other.tester.restart()
    assert other.search("second").state == one.search("second").state
    for pipeline in (one, other):
        for _ in range(20):
            pipeline.wave(0.03)
    assert other.runs == one.runs
    assert other.search("first").state == one.search("first").state


def test_a_search_that_an_earlier_version_has_saved_goes_on():
    pipeline = Pipeline(flow())
    for _ in range(8):
        pipeline.wave(0.03)
    engine = pipeline.tester.engine
    state = msgspec.msgpack.decode(zlib.decompress(engine.snapshot()))
    for action in state["actions"]:
        policy = action.pop("policy")
        action["search"] = None if policy is None else msgspec.msgpack.decode(policy[1])
    again = Engine(engine.spec, zlib.compress(msgspec.msgpack.encode(state)))
    for name in ("first", "second"):
        found, expected = again.actions[name].policy, engine.actions[name].policy
        assert found.search.state == expected.search.state
        assert found.limits == expected.limits


def test_another_target_opens_the_search_again():
    pipeline = Pipeline(flow())
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    pipeline.tester.tell(SpecificationChanged(pipeline.tester.now, flow(0.1)))
    assert pipeline.search("second").state.target == 0.1
    assert not pipeline.search("second").found


def test_a_failed_run_tells_the_search_nothing():
    search = Search(0.1, 5)
    search.open(TARGET)
    search.launched(Taken(10, 0.1))
    search.failed()
    assert search.finished(0.1) is None
    assert search.state.measurements == []


# the search itself


def drive(
    search: Search, change: Callable[[float], float], waves: int, updates: int = 10
) -> list[float]:
    """Let waves of so many updates come; a run with u updates changes the output by change(u).

    Returns the limits that held, one after the other.
    """
    received = pending = 0
    limits: list[float] = []
    for _ in range(waves):
        received += updates
        pending += updates
        if pending >= search.limits[Dimension.SEQUENCE] or (
            pending / 1000 >= search.limits[Dimension.VALUE]
        ):
            search.launched(Taken(pending, pending / 1000))
            search.finished(change(pending))
            pending = 0
        search.wave(received, 1000)
        if search.state.limit not in limits[-1:]:
            limits.append(search.state.limit)
    return limits


def test_the_limit_is_doubled_until_the_output_changes_by_more():
    search = Search(0.1, 5)
    search.open(0.5)
    limits = drive(search, lambda u: u / 1000, 40)
    assert limits[:5] == [1, 20, 40, 80, 160]


@pytest.mark.parametrize("steepness", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("target", [0.03, 0.1, 0.3])
def test_whatever_way_the_output_follows_its_input_the_limit_is_found(steepness, target):
    search = Search(0.1, 5)
    search.open(target)
    right = 1000 * target ** (1 / steepness)
    # Twelve waves in one run or fewer, so that the budget allows the runs that are averaged.
    updates = max(1, round(right / 12))
    drive(search, lambda u: (u / 1000) ** steepness, 3 * 17 + 60, updates)
    assert search.found
    assert search.change == pytest.approx(target, rel=0.1)


@pytest.mark.parametrize(
    ("before", "dimension", "limit"), [(1, "sequence", "σ 10 updates"), (2, "value", "ν 5 %")]
)
def test_after_three_limits_that_did_not_last_updates_do_not_predict_the_output(
    before, dimension, limit
):
    search = Search(0.1, 5)
    search.open(0.1)
    apart = [Measurement(10, 10, change, 0.1) for change in (0.02, 0.3, 0.02, 0.3)]
    search.state = SearchState(
        SearchPhase.FOUND, limit=10, target=0.1, expected=0.1, brief=before, baseline=True,
        measurements=apart, shifts=Shifts([0.1] * 8),
    )  # fmt: skip
    words = None
    while words is None:
        search.launched(Taken(10, 0.1))
        words = search.finished(1.0)
    assert "opened again" in words
    assert words.endswith(f"target 10 %, {limit}")
    assert search.state.dimension == dimension


def test_where_a_little_more_is_sought_than_a_wave_has_two_are_tried():
    search = Search(0.1, 5)
    search.open(0.108)
    limits = drive(search, lambda u: u / 1000, 20, updates=100)
    assert next(limit for limit in limits if limit > 100) == 200


def test_a_limit_that_changed_too_much_before_and_too_little_now_tells_of_none_above():
    search = Search(0.1, 5)
    search.open(0.108)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=100, target=0.108, high=100, baseline=True,
        settled=True, arrived=[100.0] * 8,
    )  # fmt: skip
    search.launched(Taken(100, 0.1))
    search.finished(0.1)
    assert (search.state.limit, search.state.low, search.state.high) == (200, 100, None)


def test_the_next_limit_follows_the_curve_of_the_runs():
    search = Search(0.1, 5)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=40, target=0.32, low=20, baseline=True,
        measurements=[Measurement(n, n, n * n / 10_000, 0.1) for n in (8, 20)],
    )  # fmt: skip
    search.launched(Taken(40, 0.1))
    search.finished(0.16)
    assert search.state.limit == round(40 * 2**0.5)


def test_two_limits_between_which_one_wave_more_lies_are_near_enough():
    search = Search(0.1, 5)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=52, target=0.55, low=50, baseline=True, settled=True,
        arrived=[10.0] * 8, measurements=[Measurement(50, 50, 0.5, 0.1)],
    )  # fmt: skip
    search.launched(Taken(60, 0.1))
    assert "as near as it comes: σ 50 updates" in search.finished(0.6)


def test_the_output_change_at_a_limit_is_that_of_runs_which_took_more_than_it():
    search = Search(0.1, 5)
    search.state = SearchState(SearchPhase.DOUBLING, limit=10, target=0.9, baseline=True)
    search.launched(Taken(12, 0.1))
    search.finished(0.3)
    search.state.limit = 10
    assert search.change == pytest.approx(0.3)


def test_a_target_between_one_wave_and_two_is_found_as_near_as_it_comes():
    search = Search(0.1, 5)
    search.open(0.15)
    said = []
    for wave in range(1, 60):
        search.launched(Taken(100, 0.1) if search.state.limit <= 100 else Taken(200, 0.2))
        said.append(search.finished(0.1 if search.state.limit <= 100 else 0.2))
        search.wave(100 * wave, 1000)
    assert any("as near as it comes: σ 100 updates" in words for words in said if words)


def test_where_one_wave_alone_changes_more_the_least_limit_holds():
    search = Search(0.1, 5)
    search.open(0.01)
    drive(search, lambda u: 0.5, 10)
    assert search.found
    assert search.state.limit == 1


def test_a_target_is_another_beyond_the_tolerance():
    search = Search(0.5, 5)
    assert search.open(1.0) is not None
    assert search.open(1.5) is None
    assert search.open(1.75) is not None


def test_only_the_last_runs_are_remembered():
    search = Search(0.1, 5)
    search.open(0.9)
    for run in range(40):
        search.launched(Taken(run + 1, 0.001))
        search.finished(0.001 * run)
    kept = search.state.measurements
    assert len(kept) == 16
    assert kept[-1].amount == 40


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": ContainerId("nothing")}, "not declared"),
        ({"change": 0.0}, "always matters"),
        ({"against": 0.0}, "above 0"),
        ({"tolerance": 1.0}, "between 0 and 1"),
        ({"patience": 0}, "below 1"),
        ({"actions": ("feed",)}, "no action with bounds"),
        ({"actions": ("first",)}, "writes the output"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    spec = flow()
    wrong = msgspec.structs.replace(spec.significance, **changes)
    with pytest.raises(SpecificationError, match=words):
        check_specification(msgspec.structs.replace(spec, significance=wrong))


def test_an_output_of_opaque_values_has_no_change_to_measure():
    spec = flow()
    opaque = container("out", Codec(CodecName.OPAQUE))
    wrong = msgspec.structs.replace(spec, containers=(*spec.containers[:2], opaque))
    with pytest.raises(SpecificationError, match="give 'out' a codec"):
        check_specification(wrong)
