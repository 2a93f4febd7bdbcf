"""Limits are scaled where they stand; everything else in the file stays."""

from __future__ import annotations

import pytest

from headgate.flows import bounded_actions, parse_dataflow, scale_limits

SOURCE = """
name: places  # of the city
containers:
  a: ta f:v
  b: tb f:v
actions:
  feed: {input: a}
  one:
    # how often people look
    step: steps:one
    reads: a
    writes: b
    when:
      a: {time: 5 min, sequence: 20%, value: {absolute: 2}}
      more:
        container: a
        sequence: {limit: 100, count: distinct}
        value: {against: 50, limit: 10%}
      moving: {container: a, sequence: [500, 2000]}
  two: {step: steps:two, reads: b}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("time: 5 min", "time: 7.5 min"),
        ("sequence: 20%", "sequence: 30%"),
        ("{absolute: 2}", "{absolute: 3}"),
        ("{limit: 100, count: distinct}", "{limit: 150, count: distinct}"),
        ("{against: 50, limit: 10%}", "{against: 50, limit: 15%}"),
        ("[500, 2000]", "[750, 3000]"),
        ("# how often people look", "# how often people look"),
        ("name: places  # of the city", "name: places  # of the city"),
        ("two: {step: steps:two, reads: b}", "two: {step: steps:two, reads: b}"),
    ],
)
def test_a_limit_is_multiplied_and_the_rest_stays(before: str, after: str) -> None:
    assert before in SOURCE
    assert after in scale_limits(SOURCE, {"one": 1.5}, {})


@pytest.mark.parametrize("factor", [1e-6, 0.013, 0.5, 3.3, 1e4])
def test_the_file_stays_in_order(factor: float) -> None:
    scaled = scale_limits(SOURCE, {"one": factor, "two": factor}, {"two": "b"})
    spec = parse_dataflow(scaled, "scaled.yaml").spec
    assert len(spec.actions[1].bounds) == 3
    assert len(spec.actions[2].bounds) == 1


@pytest.mark.parametrize(
    ("limit", "scaled"),
    [
        ("sequence: {limit: 20%, count: distinct}", "sequence: {limit: 100%, count: distinct}"),
        ("sequence: {count: distinct, limit: [5%, 20%]}", "limit: [40%, 100%]"),
        ("sequence: 20%", "sequence: 160%"),
        ("value: 20%", "value: 100%"),
        ("value: [5%, 20%]", "value: [40%, 100%]"),
        ("value: {changed: 20%}", "value: {changed: 100%}"),
        ("value: {relative: 20%}", "value: {relative: 160%}"),
        ("value: {against: 50, limit: 20%}", "value: {against: 50, limit: 160%}"),
        ("value: 20", "value: 160"),
        ("sequence: {limit: 20, count: distinct}", "sequence: {limit: 160, count: distinct}"),
    ],
)
def test_a_limit_that_is_scaled_can_still_be_reached(limit: str, scaled: str) -> None:
    source = SOURCE.replace("time: 5 min, sequence: 20%, value: {absolute: 2}", limit)
    assert source != SOURCE

    text = scale_limits(source, {"one": 8}, {})

    assert scaled in text
    parse_dataflow(text, "scaled.yaml")


def test_a_limit_that_two_actions_share_is_scaled_once() -> None:
    source = SOURCE.replace("sequence: 20%", "sequence: &often 20%").replace(
        "two: {step: steps:two, reads: b}",
        "two: {step: steps:two, when: {a: {sequence: *often, time: 1 h}}}",
    )
    assert source.count("often") == 2 + SOURCE.count("often")

    text = scale_limits(source, {"one": 8.0, "two": 8.0}, {})

    assert "sequence: &often 160%" in text
    parse_dataflow(text, "scaled.yaml")


def test_an_action_without_bounds_gets_one_on_what_it_reads() -> None:
    block = SOURCE[: SOURCE.index("    when:")]
    scaled = scale_limits(block, {"one": 25}, {"one": "a"})
    [bound] = parse_dataflow(scaled, "scaled.yaml").spec.actions[1].bounds
    assert bound.sequence is not None
    assert bound.sequence.limit == 25
    assert bounded_actions(block) == ()
    assert bounded_actions(scaled) == ("one",)


def test_without_factors_nothing_changes() -> None:
    assert scale_limits(SOURCE, {}, {}) == SOURCE
