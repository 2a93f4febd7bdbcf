"""A row of the run ledger that no ledger wrote costs an attempt, not the dataflow."""

from __future__ import annotations

import pytest
from simulation import World

from headgate.agent.ports import WorkerLost
from headgate.spark import Claimed, Ending, Free, RunKey, StepEnded

_STEPS = 2000  # of the world, in which an attempt has long begun


@pytest.mark.parametrize("end", ["lost", "uncertain"])
def test_the_run_is_tried_again_in_a_new_row(world: World, end: str) -> None:
    world.hanging.add("first")
    agent = world.start_agent()
    world.run(lambda: True)
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    for _ in range(_STEPS):
        world.step()
    runtime = agent.runtime
    assert runtime is not None
    (run,) = runtime._attempts._under_way
    key = RunKey(world.dataflow.name, "first", run)
    assert isinstance(world.ledger.state(key), Claimed)
    world.ledger_rows.damage(key.row)
    report = (
        WorkerLost(run, 1, "it was killed")
        if end == "lost"
        else StepEnded(run, 1, Ending.UNCERTAIN, 1.0)
    )
    agent.ask(lambda runtime, now: runtime.report(report, now))
    assert agent.alive
    assert world.ledger.state(key) == Free()
    retry = runtime.state.engine.actions["first"].run
    assert retry is not None
    assert retry.run == run
    assert retry.retry_at is not None
