"""A dataflow whose limits are adjusted, its load, and where its limits are."""

from headgate.engine import (
    ActionRole,
    ActionSpec,
    AdjustmentSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    FrequencyUnit,
    Interval,
    SequenceBound,
    WatchedContainer,
    WriteReference,
)
from headgate.events import Container, ContainerId, Item

BOUND = Bound("k", ContainerId("in"), sequence=SequenceBound(Interval(100, 1100)))
WRITES = WriteReference(rare=10, frequent=100, unit=FrequencyUnit.UPDATES)
SPEC = AdjustmentSpec(writes=WRITES)
BUSY, QUIET, BETWEEN = 95.0, 5.0, 60.0
"""CPU in percent: overloaded, idle, neither."""


def flow(*bounds: Bound, adjustment: AdjustmentSpec = SPEC, evaluation=None) -> DataflowSpec:
    return DataflowSpec(
        "flow",
        (WatchedContainer(Container(ContainerId("in"), (Item("in"),))),),
        (
            ActionSpec("a", ActionRole.INPUT, writes=(ContainerId("in"),)),
            ActionSpec("b", after=("a",), bounds=bounds, evaluation=evaluation),
        ),
        adjustment,
    )


def many(number: int) -> dict[bytes, dict[bytes, bytes | None]]:
    return {b"r%d" % i: {b"f:x": b"1"} for i in range(number)}


def pass_minutes(tester, minutes, *, writes: int = 0, cpu: float | None = None) -> None:
    """Let minutes pass, with so many writes and one sample of the CPU every 10 s."""
    for _ in range(round(minutes * 6)):
        tester.pass_time(10)
        if writes:
            tester.write("in", many(writes))
        if cpu is not None:
            tester.sample(cpu=cpu)


def adjustments(tester):
    return [d.adjustment for d in tester.decisions() if d.kind is DecisionKind.ADJUSTED]


def explained(tester):
    actions = {a.action: a for a in tester.engine.explain(tester.now).actions}
    return actions["b"].adjusted[0]


def limit(tester) -> float:
    (found,) = explained(tester).limits.values()
    return found
