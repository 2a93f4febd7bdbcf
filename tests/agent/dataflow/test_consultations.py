"""What a trigger asks is carried to who answers, and the answer to the engine, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pytest
from msgspec.structs import replace
from simulation import ScriptedAgent, World

from headgate.engine import (
    ActionSpec,
    Advice,
    ConditionResult,
    DataflowSpec,
    Evaluation,
    Heard,
    Inputs,
    Moment,
    Needs,
    NeedsAnswer,
    Response,
    Trigger,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    with_triggers,
)
from headgate.flows import Dataflow

Done = Callable[[bytes | None, str], None]


class Careful(TriggerPolicy):
    """It runs when it is told that it may."""

    kind: ClassVar[str] = "careful"
    needs = Needs(moments=Evaluation(action_end=True))
    may: bool | None = None

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        if self.may is None:
            return NeedsAnswer(b"may I?", self.explain(inputs, now))
        return super().judge(inputs, now)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        if self.may is None:
            return TriggerResult(False, "asks", "a word")
        return TriggerResult(self.may, "was told so", "a better moment")

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        if isinstance(event, Advice):
            self.may = None if event.answer is None else event.answer == b"yes"
            self.reason = event.reason
        return ()


class Adviser:
    """It answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Done]] = []

    def answer(self, question: bytes, done: Done) -> None:
        self.asked.append((question, done))


class Broken:
    def answer(self, question: bytes, done: Done) -> None:
        raise TypeError(f"what is {question!r}?")


def made(_: DataflowSpec, actions: Sequence[ActionSpec]) -> Mapping[str, TriggerPolicy]:
    return {action.name: Careful() for action in actions}


@pytest.fixture
def careful(dataflow: Dataflow) -> World:
    """The step ``first`` has a trigger that asks, in place of its bounds."""
    actions = tuple(
        replace(action, bounds=(), trigger=Trigger("careful")) if action.name == "first" else action
        for action in dataflow.spec.actions
    )
    spec = replace(dataflow.spec, actions=actions)
    return World(replace(dataflow, spec=spec), policies=with_triggers({"careful": made}))


def fed(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    world.write("in", b"0", b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now))
    return agent


def ran(world: World) -> list[str]:
    return [step.action for step in world.commits]


def policy_of(agent: ScriptedAgent) -> Careful:
    assert agent.runtime is not None
    policy = agent.runtime.state.engine.actions["first"].policy
    assert isinstance(policy, Careful)
    return policy


def test_a_step_runs_when_its_trigger_was_answered(careful: World) -> None:
    adviser = careful.advisers["careful"] = Adviser()
    fed(careful)
    careful.run(lambda: bool(adviser.asked))
    ((question, done),) = adviser.asked
    assert (question, ran(careful)) == (b"may I?", [])
    done(b"yes", "")
    careful.run(lambda: ran(careful) == ["first", "second"])


def test_an_agent_that_takes_over_asks_again_and_no_answer_is_taken_for_another_s(
    careful: World,
) -> None:
    adviser = careful.advisers["careful"] = Adviser()
    agent = fed(careful)
    careful.run(lambda: bool(adviser.asked))
    careful.run(lambda: agent.settled() == 0)
    agent.ask(lambda runtime, now: runtime.save(now))
    agent.alive = False
    careful.run(lambda: len(adviser.asked) == 2)
    (_, former), (_, done) = adviser.asked
    former(b"yes", "")
    careful.run(lambda: True)
    assert ran(careful) == []
    done(b"yes", "")
    careful.run(lambda: ran(careful) == ["first", "second"])


@pytest.mark.parametrize(
    ("adviser", "reason"),
    [
        (None, "nobody answers what a trigger 'careful' asks"),
        (Broken(), "TypeError: what is b'may I?'?"),
    ],
)
def test_a_trigger_that_cannot_be_answered_hears_why_and_its_wave_settles(
    careful: World, adviser: Broken | None, reason: str
) -> None:
    if adviser is not None:
        careful.advisers["careful"] = adviser
    agent = fed(careful)
    careful.run(lambda: agent.settled() == 1)
    assert ran(careful) == []
    assert policy_of(agent).reason == reason
