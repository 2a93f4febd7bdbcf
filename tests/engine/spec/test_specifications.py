"""A specification that cannot be decided on is refused with each problem and its cure."""

import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    BoundReached,
    Codec,
    CodecName,
    DataflowSpec,
    Engine,
    Evaluation,
    Interval,
    Metric,
    RetryPolicy,
    SequenceBound,
    SpecificationError,
    ValueBound,
    WatchedContainer,
    check_specification,
    launch_order,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")

GOOD = Bound("k", IN, sequence=SequenceBound(1))


def container(name: str = "in", codec: Codec | None = None) -> WatchedContainer:
    return WatchedContainer(Container(ContainerId(name), (Item(name),)), codec or Codec())


def flow(*actions: ActionSpec, codec: Codec | None = None) -> DataflowSpec:
    return DataflowSpec("flow", (container(codec=codec),), actions)


def step(*bounds: Bound, **changes) -> ActionSpec:
    return ActionSpec("b", bounds=bounds, **changes)


NOT_NUMERIC = flow(
    step(Bound("k", IN, value=ValueBound(Metric.RELATIVE, 0.1))),
    codec=Codec(CodecName.OPAQUE),
)

WRONG = [
    (flow(step(), step()), "action 'b' is declared twice"),
    (DataflowSpec("f", (container(), container()), ()), "container 'in' is declared twice"),
    (flow(step(GOOD, GOOD)), "bound 'k' is declared twice"),
    (flow(step(after=("x",))), "comes after 'x', which is no action"),
    (flow(step(reads=(ContainerId("x"),))), "names container 'x', which is not declared"),
    (flow(step(Bound("k", ContainerId("x"), time=1.0))), "watches container 'x'"),
    (flow(step(Bound("k", IN))), "has no time, sequence or value"),
    (flow(step(Bound("k", IN, time=0.0))), "always reached"),
    (flow(step(Bound("k", IN, sequence=SequenceBound(Interval(5, 2))))), "0 < min <= max"),
    (flow(step(Bound("k", IN, value=ValueBound(Metric.CHANGED, 0.0)))), "value.*always reached"),
    (flow(step(Bound("k", IN, value=ValueBound(Metric.AGAINST, 1)))), "needs a constant"),
    (
        flow(step(Bound("k", IN, value=ValueBound(Metric.CHANGED, 1, 2)))),
        "metric 'changed' takes no constant",
    ),
    (NOT_NUMERIC, "needs numbers"),
    (flow(step(GOOD, condition=BoundReached("x"))), "the condition names 'x'"),
    (flow(ActionSpec("b", ActionRole.INPUT, bounds=(GOOD,))), "is an input"),
    (flow(step(evaluation=Evaluation(every=0.0))), "every"),
    (flow(step(retry=RetryPolicy(attempts=0))), "at least 1 attempt"),
    (
        flow(
            ActionSpec("a", after=("c",)),
            ActionSpec("b", after=("a",)),
            ActionSpec("c", after=("b",)),
        ),
        "cycle: a -> b -> c -> a",
    ),
    (flow(step(after=("b",))), "cycle: b -> b"),
    (flow(ActionSpec("a"), step(after=("a", "c")), ActionSpec("c", after=("b",))), "cycle: b -> c"),
]


@pytest.mark.parametrize(("spec", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_specification_is_refused_in_words(spec, words):
    with pytest.raises(SpecificationError, match=words):
        check_specification(spec)


def test_every_problem_is_named():
    spec = flow(step(after=("x",)), ActionSpec("c", after=("y",)))
    with pytest.raises(SpecificationError) as error:
        Engine(spec)
    assert len(error.value.problems) == 2


def test_launch_order_puts_predecessors_first():
    actions = (ActionSpec("c", after=("b",)), ActionSpec("b", after=("a",)), ActionSpec("a"))
    assert launch_order(actions) == ("a", "b", "c")


def test_backoff_is_bounded_however_many_failures():
    assert [RetryPolicy(9, 1, 5).backoff(n) for n in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]
