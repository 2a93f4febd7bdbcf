"""Closed loops against the same rules walked wave by wave."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.learning.pairs import Table
from headgate.learning.simulation import (
    Bounded,
    Graph,
    StagedLoop,
    Step,
    closed_loop,
    staged_loop,
)

HORIZON = 3


def table(seed: int, waves: int = 30, holes: float = 0.0) -> Table:
    random = np.random.default_rng(seed)
    made = random.random((waves, HORIZON + 1))
    made[random.random(made.shape) < holes] = math.nan
    return made


def walked(
    errors: Table, scores: Table, threshold: float, bound: float, first: int, last: int
) -> tuple[list[bool], list[bool]]:
    version, ran, violated = first, [True], [False]
    for wave in range(first + 1, last):
        age = wave - version
        runs = age > HORIZON or not scores[wave, age] <= threshold
        version = wave if runs else version
        ran.append(runs)
        violated.append(not runs and not errors[wave, age] <= bound)
    return ran, violated


@given(
    st.integers(0, 1000),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(0, 20),
    st.integers(1, 10),
    st.sampled_from([0.0, 0.3]),
)
def test_a_closed_loop_is_the_rule_applied_wave_by_wave(
    seed: int, threshold: float, bound: float, first: int, count: int, holes: float
) -> None:
    errors, scores = table(seed, holes=holes), table(seed + 1, holes=holes)
    found = closed_loop(errors, scores, threshold, bound, first, first + count)
    ran, violated = walked(errors, scores, threshold, bound, first, first + count)
    assert found.ran.tolist() == ran
    assert found.violated.tolist() == violated
    assert found.saved == pytest.approx(1 - sum(ran) / count)
    assert found.confidence == pytest.approx(1 - sum(violated) / count)


def test_a_score_that_is_not_known_runs_and_an_error_that_is_not_known_violates() -> None:
    unknown, none = np.full((5, HORIZON + 1), math.nan), np.zeros((5, HORIZON + 1))
    assert closed_loop(none, unknown, math.inf, 1.0, 0, 5).ran.all()
    assert closed_loop(unknown, none, 1.0, 1.0, 0, 4).violated.tolist() == [False, True, True, True]


def test_past_the_horizon_it_runs_whatever_is_predicted() -> None:
    none = np.zeros((9, HORIZON + 1))
    assert closed_loop(none, none, 1.0, 1.0, 0, 9).ran.tolist() == [
        at % (HORIZON + 1) == 0 for at in range(9)
    ]


CHAIN = Graph([Step("b", ("s",), ("b",)), Step("c", ("b",), ("c",))])


def bounded(errors: Table, **scores: Table) -> Bounded:
    return Bounded(errors, 0.5, scores)


@given(st.integers(0, 1000), st.floats(0.0, 1.0))
def test_one_step_decided_in_stages_is_a_closed_loop(seed: int, threshold: float) -> None:
    graph = Graph([Step("b", ("s",), ("b",))])
    errors, scores = table(seed), table(seed + 1)
    found = staged_loop(graph, {"b": bounded(errors, s=scores)}, {"b": threshold}, 2, 30)
    alone = closed_loop(errors, scores, threshold, 0.5, 2, 30)
    assert found.ran["b"].tolist() == alone.ran.tolist()
    assert found.violated["b"].tolist() == alone.violated.tolist()


def scores_of(waves: int, runs: set[int]) -> Table:
    made = np.zeros((waves, HORIZON + 1))
    made[sorted(runs)] = 1.0
    return made


def ran(found: StagedLoop) -> dict[str, set[int]]:
    return {name: set(np.flatnonzero(flags).tolist()) for name, flags in found.ran.items()}


def test_a_later_step_is_decided_on_by_what_the_earlier_one_wrote() -> None:
    """The second is looked at only where the first has run, and from its output."""
    outputs = {"c": bounded(np.zeros((6, 4)), s=scores_of(6, {1, 2, 4}), b=scores_of(6, {2, 3}))}
    found = staged_loop(CHAIN, outputs, {"c": 0.5}, 0, 6)
    # In wave 5 the output is three waves old: the horizon is not passed.
    assert ran(found) == {"b": {0, 1, 2, 4}, "c": {0, 2}}
    assert not found.violated["c"].any()
    assert found.saved == pytest.approx(1 - 6 / 12)


def test_what_was_seen_from_nearer_keeps_the_earlier_step_from_running_again() -> None:
    """In wave 1 the second step is seen to be harmless; of that 0.8 is left, then 0.64 and so on.

    From afar all waves look alike, and the first would run in each of them.
    """
    afar, nearer = np.full((9, 4), 0.6), np.full((9, 4), 0.1)
    outputs = {"c": bounded(np.zeros((9, 4)), s=afar, b=nearer)}
    assert ran(staged_loop(CHAIN, outputs, {"c": 0.5}, 0, 4)) == {"b": {0, 1, 2, 3}, "c": {0}}
    kept = {"c": msgspec.structs.replace(outputs["c"], persistence={"s": {"b": 0.8}})}
    # Past the horizon, in wave 4, both run; then the same again.
    assert ran(staged_loop(CHAIN, kept, {"c": 0.5}, 0, 9)) == {"b": {0, 1, 4, 5, 8}, "c": {0, 4, 8}}
    less = {"c": msgspec.structs.replace(outputs["c"], persistence={"s": {"b": 0.3}})}
    assert ran(staged_loop(CHAIN, less, {"c": 0.5}, 0, 4)) == {"b": {0, 1, 3}, "c": {0}}


def test_a_step_that_serves_two_outputs_runs_for_either() -> None:
    graph = Graph([Step("b", ("s",), ("b",)), Step("c", ("b",), ("c",)), Step("d", ("b",), ("d",))])
    none = np.zeros((4, 4))
    outputs = {
        "c": bounded(none, s=scores_of(4, {1}), b=scores_of(4, {1, 2})),
        "d": bounded(none, s=scores_of(4, {2}), b=scores_of(4, {2})),
    }
    assert ran(staged_loop(graph, outputs, {"c": 0.5, "d": 0.5}, 0, 4)) == {
        "b": {0, 1, 2},
        "c": {0, 1, 2},
        "d": {0, 2},
    }


def test_stale_ancestors_run_before_a_step_that_joins_them() -> None:
    """What it would be shown is of one wave, or its output is that of no synchronous run."""
    graph = Graph(
        [Step("a", ("s",), ("a",)), Step("b", ("r",), ("b",)), Step("j", ("a", "b"), ("j",))]
    )
    no, yes = scores_of(3, set()), scores_of(3, {1})
    outputs = {"j": bounded(np.zeros((3, 4)), s=yes, r=no, a=yes, b=no)}
    assert ran(staged_loop(graph, outputs, {"j": 0.5}, 0, 3)) == {
        "a": {0, 1},
        "b": {0, 1},
        "j": {0, 1},
    }


def test_an_intermediate_output_with_a_bound_of_its_own_is_within_it_when_its_step_ran() -> None:
    outputs = {
        "b": bounded(np.ones((4, 4)), s=scores_of(4, {2})),
        "c": bounded(np.zeros((4, 4)), s=scores_of(4, set()), b=scores_of(4, set())),
    }
    found = staged_loop(CHAIN, outputs, {"b": 0.5, "c": 0.5}, 0, 4)
    assert ran(found) == {"b": {0, 2}, "c": {0}}
    assert found.violated["b"].tolist() == [False, True, False, True]


def test_steps_that_no_bounded_output_needs_are_left_out() -> None:
    graph = Graph([Step("b", ("s",), ("b",)), Step("d", ("s",), ("d",))])
    found = staged_loop(graph, {"b": bounded(table(1), s=table(2))}, {"b": 0.5}, 0, 9)
    assert set(found.ran) == {"b"}


def test_a_graph_knows_what_lies_above_an_output() -> None:
    graph = Graph(
        [Step("a", ("s",), ("a",)), Step("b", ("r",), ("b",)), Step("j", ("a", "b"), ("j",))]
    )
    assert graph.above("j") == ("s", "r", "a", "b")
    assert graph.above("b") == ("r",)
    assert (graph.upstream("j"), graph.upstream("b")) == (("s", "r"), ())
    assert graph.nearer("j") == {"s": ("a",), "r": ("b",)}
    assert graph.nearer("b") == {}
    assert graph.sources == {"s", "r"}
    assert graph.ancestors["j"] == ("a", "b")
    assert (graph.readers("a", "j"), graph.readers("s", "j")) == (("j",), ("a",))
    assert graph.readers("r", "a") == ()


def test_what_is_made_of_a_container_is_nearer_over_any_number_of_steps() -> None:
    graph = Graph(
        [
            Step("a", ("s",), ("a",)),
            Step("b", ("a", "s"), ("b",)),
            Step("c", ("b", "r"), ("c",)),
            Step("d", ("a",), ("d",)),
        ]
    )
    assert graph.nearer("c") == {"s": ("a", "b"), "a": ("b",)}
    assert graph.nearer("d") == {"s": ("a",)}


@pytest.mark.parametrize(
    "steps",
    [
        [Step("c", ("b",), ("c",)), Step("b", ("s",), ("b",))],
        [Step("a", ("s",), ("x",)), Step("b", ("s",), ("x",))],
    ],
    ids=["out of order", "two writers"],
)
def test_steps_out_of_order_are_refused(steps: list[Step]) -> None:
    with pytest.raises(ValueError, match="name the steps in their order"):
        Graph(steps)


def test_a_step_that_goes_on_from_what_it_has_written_is_refused() -> None:
    with pytest.raises(ValueError, match="step a reads x, which it writes"):
        Graph([Step("a", ("s", "x"), ("x",))])
