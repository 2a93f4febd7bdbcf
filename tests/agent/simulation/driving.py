"""What tests do with an agent of a world, and what they look at of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.state.sealed import Definition
from headgate.flows import parse_dataflow
from simulation import ScriptedAgent, World


def started(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    return agent


def feed(world: World, rows: int = 3, value: bytes = b"1") -> None:
    for row in range(rows):
        world.write("in", b"%d" % row, b"c:v", value)


def ask(agent: ScriptedAgent, what: Callable[[Runtime, float], Any]) -> Any:
    found: list[Any] = []
    agent.ask(lambda runtime, now: found.append(what(runtime, now)))
    return found[0]


def wave(world: World, agent: ScriptedAgent) -> int:
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    world.run(lambda: agent.settled() >= number)
    return int(number)


def outcomes(agent: ScriptedAgent, action: str) -> list[str]:
    assert agent.runtime is not None
    return [r.outcome.value for r in reversed(agent.runtime.history.records) if r.action == action]


def status(world: World, agent: ScriptedAgent) -> FlowStatus:
    assert agent.runtime is not None
    return agent.runtime.reporting.status(world.now)


def states(world: World, agent: ScriptedAgent) -> dict[str, str]:
    return {action.name: action.state for action in status(world, agent).actions}


def change(world: World, agent: ScriptedAgent, text: str) -> None:
    changed = parse_dataflow(text, "test")
    definition = Definition("two-steps", text, ".", 2, 0.0)
    ask(agent, lambda runtime, now: runtime.commands.change(definition, changed, now))


def changed_to(world: World, agent: ScriptedAgent, **fields: Any) -> None:
    assert agent.runtime is not None
    definition = replace(agent.runtime.state.definition, **fields)
    dataflow = parse_dataflow(definition.source, "test", definition.profile)
    ask(agent, lambda runtime, now: runtime.commands.change(definition, dataflow, now))
