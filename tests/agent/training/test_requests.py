"""Trainings that people ask for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from asked import KAFKA, SPEC
from kept import knowledge
from msgspec.structs import replace
from simulation.rows import MemoryRows

from headgate.agent.metrics import AgentMetrics
from headgate.agent.policies import POLICIES
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser
from headgate.agent.training.requests import Trainings
from headgate.agent.training.task import AnyTask, Task
from headgate.engine import ActionFlows, Engine
from headgate.learning import LEARNED, Learned


class Trains:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.tasks: list[AnyTask] = []

    def train(self, task: AnyTask, done: Any) -> None:
        self.tasks.append(task)

    def forget(self, dataflow: str) -> None:
        pass


@pytest.mark.parametrize("stages", [(), ("index",)], ids=["steps", "stages"])
def test_waves_before_the_last_change_of_the_world_are_left_out(stages: tuple[str, ...]) -> None:
    flows = ActionFlows(outputs=("increments",))
    actions = [replace(a, stage=flows) if a.name in stages else a for a in SPEC.actions]
    spec = replace(SPEC, actions=tuple(actions))
    engine = Engine(spec, policies=POLICIES)
    trigger = engine.actions["index"].trigger
    assert isinstance(trigger, Learned)
    trigger.state.outputs["level"].changed = 16
    trains, computes = Trains(), SimpleNamespace(worker=None)
    adviser = LearnedAdviser(
        spec, KAFKA, trains, knowledge(MemoryRows()), computes, AgentMetrics().of("lived"),
        Supervision(lambda _: None),
    )  # fmt: skip
    flow: Any = SimpleNamespace(
        name="lived", dataflow=SimpleNamespace(spec=spec), engine=engine, dirty=False
    )
    trainings = Trainings(flow, {LEARNED: adviser}, lambda *_: lambda *_: None, lambda _: None, b"")
    trainings.train(("level",), 20, 40)
    [task] = trains.tasks
    assert isinstance(task, Task)
    assert (task.since, task.last) == (17, 40)
    assert flow.dirty, "the report is saved"
    adviser.close()
