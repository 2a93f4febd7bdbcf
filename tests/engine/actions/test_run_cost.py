"""A run costs the same whatever else is in its dataflow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from headgate.engine import (
    ActionSpec,
    Bound,
    DataflowSpec,
    EngineTester,
    Evaluation,
    SequenceBound,
    WatchedContainer,
    launched,
)
from headgate.events import Container, ContainerId, Item


def steps(work: Callable[[], Any]) -> int:
    """Return how many steps of Python's interpreter something takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def independent(count: int, tables: int) -> DataflowSpec:
    """Return so many steps, each of which reads and writes containers of its own."""
    watched: list[WatchedContainer] = []
    actions: list[ActionSpec] = []
    for number in range(count):
        read, written = ContainerId(f"in{number}"), ContainerId(f"out{number}")
        table = f"t{number % tables}"
        watched.append(WatchedContainer(Container(read, (Item(table, b"f", b"%d" % number),))))
        watched.append(WatchedContainer(Container(written, (Item(table, b"g", b"%d" % number),))))
        bound = Bound("k", read, sequence=SequenceBound(1))
        actions.append(
            ActionSpec(
                f"a{number}",
                bounds=(bound,),
                writes=(written,),
                evaluation=Evaluation(write=True),
            )
        )
    return DataflowSpec("flow", tuple(watched), tuple(actions))


def cost(count: int) -> int:
    """Return what a write costs, and the launch and the end of the run that it brings."""
    tester = EngineTester(independent(count, tables=5))
    engine, spent = tester.engine, 0
    handle = engine.handle

    def counted(stimulus: Any) -> Any:
        nonlocal spent
        found: list[Any] = []
        spent += steps(lambda: found.append(handle(stimulus)))
        return found[0]

    row = {b"f:0": b"1"}
    for each in range(3):
        assert launched(tester.write("t0", {b"r%d" % each: row})) == ["a0"]
        tester.finish("a0")
    engine.handle = counted  # type: ignore[method-assign]
    assert launched(tester.write("t0", {b"r": row})) == ["a0"]
    tester.finish("a0")
    return spent


def test_a_run_costs_the_same_beside_many_other_steps() -> None:
    few, many = cost(10), cost(100)
    assert many <= few * 1.2, f"{few} and {many} steps of the interpreter"
