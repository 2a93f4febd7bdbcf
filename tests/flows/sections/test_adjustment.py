"""The section ``adjustment``: from text to what the engine adjusts by."""

import pytest

from headgate.engine import (
    RESOURCES,
    AdjustmentSpec,
    FrequencyUnit,
    Reference,
    Resource,
    WriteReference,
    check_specification,
)
from headgate.flows import DataflowErrors, parse_dataflow


def parsed(adjustment):
    text = (
        "name: n\ncontainers: {c: t f:q}\nactions:\n  feed: {input: c}\n"
        "  a: {step: 'm:f', when: {c: {sequence: [1, 9]}}}\n"
    )
    section = f"adjustment: {{{adjustment}}}\n" if adjustment is not None else ""
    spec = parse_dataflow(text + section, "flow.yaml").spec
    check_specification(spec)
    return spec.adjustment


def test_without_the_section_the_defaults_hold():
    assert parsed(None) == parsed("") == AdjustmentSpec()


def test_times_and_counts_are_taken():
    found = parsed("every: 5 s, window: 2 min, reversal: PT15M, silence: 40, steps: 5")
    assert (found.every, found.window, found.reversal, found.silence) == (5, 120, 900, 40)
    assert found.steps == 5


@pytest.mark.parametrize(
    ("written", "share"), [("minimum", 0), ("maximum", 1), ("25%", 0.25), ("100%", 1)]
)
def test_limits_start_where_it_says(written, share):
    assert parsed(f"start: {written}").start == share


def test_writes_are_numbers_of_updates_or_percentages_of_the_usual():
    assert parsed("writes: {rare: 10, frequent: 100}").writes == WriteReference(
        10, 100, FrequencyUnit.UPDATES
    )
    assert parsed("writes: {rare: 25%, frequent: 300%}").writes == WriteReference(
        0.25, 3, FrequencyUnit.USUAL
    )


def test_reference_values_replace_defaults_and_none_takes_one_away():
    found = parsed("resources: {cpu: [20%, 75%], memory: none, network: [5 MB/s, 90 MB/s]}")
    assert found.resources == {
        Resource.CPU: Reference(20, 75),
        Resource.DISK: RESOURCES[Resource.DISK],
        Resource.NETWORK: Reference(5e6, 9e7),
        Resource.LOAD: RESOURCES[Resource.LOAD],
    }


@pytest.mark.parametrize(
    ("adjustment", "message", "cure"),
    [
        ("start: 120%", "lies above the interval", "at most `100%`"),
        ("every: 2 min", "on writes of a window of 60 s", "`window` at least as long"),
        ("writes: {rare: 10, frequent: 200%}", "the other is not", "in the same way"),
        ("writes: {rare: 10, frequent: 10}", "is not below", "lower reference value first"),
        ("writes: {rare: 10}", "has no `frequent`", "frequent"),
        ("resources: {cpu: [90%, 20%]}", "`90%` is not below `20%`", "lower reference value first"),
        ("resources: {cpu: 80%}", "`80%`", "none"),
        ("resources: {network: [5, 9]}", "`5`", "a rate such as `80 MB/s`"),
        ("resources: {gpu: [1%, 2%]}", "no key `gpu`", "cpu"),
        ("steps: 0", "`0`", "1 to 1000"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_cure(adjustment, message, cure):
    with pytest.raises(DataflowErrors) as caught:
        parsed(adjustment)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert cure in problem.cure
    assert problem.line == 6
