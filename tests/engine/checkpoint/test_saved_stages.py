"""Checkpoints have what waits for stages, though nothing else of them has changed."""

from __future__ import annotations

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    DataflowSpec,
    Engine,
    EngineTester,
    FlowId,
    Produced,
    SavedEngine,
)

FLOW = DataflowSpec(
    "flow",
    (),
    (
        ActionSpec("a", stage=ActionFlows(outputs=("u", "v"))),  # `v` is read by nobody: no hold
        ActionSpec("idle"),
        ActionSpec("b", after=("idle",), stage=ActionFlows({"x": FlowId("a", "u")})),
    ),
)
EVERYTHING = 1_000_000


def run_of_a(tester: EngineTester, *names: str) -> None:
    tester.request("a")
    tester.finish("a", *(Produced("u", name, None, 1) for name in names))


def saved(tester: EngineTester) -> Engine:
    return Engine(FLOW, SavedEngine(tester.engine.checkpoint(EVERYTHING).head))


def test_a_checkpoint_has_what_came_since_the_one_before():
    tester = EngineTester(FLOW)
    run_of_a(tester, "one")
    tester.engine.checkpoint(EVERYTHING)
    run_of_a(tester, "two")

    engine = saved(tester)

    stage = engine.stages["b"]
    assert [increment.name for increment in stage.connectors["x"].waiting] == ["one", "two"]
    assert engine.needed_increments() == {"one", "two"}


def test_a_checkpoint_has_what_a_run_has_taken():
    tester = EngineTester(FLOW)
    run_of_a(tester, "one", "two")
    tester.request("idle")
    tester.finish("idle")
    assert tester.launches("b")

    run = saved(tester).actions["b"].run

    assert run is not None
    assert run.work.taken == tester.launches("b")[0].work.taken
    assert [increment.name for increment in run.work.taken["x"].read] == ["one"]
