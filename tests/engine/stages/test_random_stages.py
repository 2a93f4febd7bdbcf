"""Random graphs of stages, with failures and restarts: each increment is read once, in order.

A stage's run makes one increment per output, named by what it has read, as long as less than a
number of them were made in all; so what must have been read can be worked out from scratch.
"""

from __future__ import annotations

import zlib
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Consult,
    DataflowSpec,
    EngineTester,
    FlowId,
    HowMany,
    Produced,
    RetryPolicy,
    RunnableAnswer,
    RunnableQuestion,
    RunnableSpec,
    decode_runnable_question,
)
from headgate.engine.actions.runs import ActiveRun, RunState

NAMES = "abcde"
MOST = 40
"""Increments of all flows together: loops would go on for ever."""


@st.composite
def graphs(draw: st.DrawFn) -> tuple[ActionSpec, ...]:
    """Stages of which ``a`` has no inputs; the others may read any, themselves too."""
    actions = [ActionSpec("a", stage=ActionFlows(outputs=("u",)), retry=RetryPolicy(2))]
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    for name in names[1:]:
        fed = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        inputs = {f"from_{one}": FlowId(one, "u") for one in fed}
        kind = draw(st.sampled_from(["all", "any", "aligned", "prefer", "python"]))
        settings: dict[str, str | dict[str, int]] = {
            "prefer": dict.fromkeys(inputs, 2),
            "python": "m:f",
        }
        setting = settings.get(kind)
        spec = ActionFlows(inputs, ("u",), RunnableSpec(kind, setting), draw(st.integers(1, 3)))
        actions.append(ActionSpec(name, stage=spec, retry=RetryPolicy(draw(st.integers(1, 2)))))
    return tuple(actions)


class World:
    """Runs of stages: what each has made, and what each consumer has read of it."""

    def __init__(self, actions: tuple[ActionSpec, ...], places: int | None) -> None:
        self.tester = EngineTester(DataflowSpec("flow", (), actions, places=places))
        self.made: dict[str, list[str]] = defaultdict(list)
        self.read: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._heard = 0
        """Of the engine's instructions, those that were looked through for questions."""
        self._asked: list[Consult] = []

    def asked(self) -> list[Consult]:
        """What was not answered yet; nobody knows whether the engine still waits for it."""
        instructions = self.tester.instructions
        self._asked += (i for i in instructions[self._heard :] if isinstance(i, Consult))
        self._heard = len(instructions)
        return self._asked

    def answer(self, which: int) -> None:
        """Answer a question, by what is in it alone."""
        consult = self.asked().pop(which % len(self._asked))
        self.tester.say(consult.action, answer_to(decode_runnable_question(consult.question)))

    def runs(self) -> dict[str, ActiveRun]:
        actions = self.tester.engine.actions
        return {name: a.run for name, a in actions.items() if a.run is not None}

    def finish(self, name: str) -> None:
        run = self.runs()[name]
        for flow, taken in run.work.taken.items():
            assert taken.read == taken.removed
            self.read[name, flow] += [increment.name for increment in taken.read]
        produced = []
        if sum(map(len, self.made.values())) < MOST:
            self.made[name].append(f"{name}-{len(self.made[name])}")
            produced = [Produced("u", self.made[name][-1], None, 1)]
        self.tester.finish(name, *produced)

    def fail(self, name: str, times: int) -> None:
        for _ in range(times):
            self.tester.pass_time(100)
            if name in self.runs():
                self.tester.fail(name)
        self.release()

    def restart(self) -> None:
        self.tester.restart()
        self.tester.pass_time(1)
        self.release()  # of what was lost too often

    def release(self) -> None:
        for name, action in self.tester.engine.actions.items():
            if action.state is RunState.QUARANTINED:
                self.tester.release(name)

    def settle(self) -> None:
        """Let all runs commit until nothing is left to run."""
        for _ in range(20 * MOST):
            while self.asked():
                self.answer(0)
            runs = self.runs()
            if not runs:
                break
            name = next(iter(runs))
            if runs[name].retry_at is not None:
                self.tester.pass_time(100)
            self.finish(name)
        assert not self.runs(), "they run for ever"


def answer_to(question: RunnableQuestion) -> RunnableAnswer:
    """Some of what waits, or nothing, or what cannot be; always the same of the same."""
    drawn = zlib.crc32(repr((question.flows, question.state)).encode())
    reads: dict[str, HowMany] = {}
    for name, flow in question.flows.items():
        drawn, number = divmod(drawn, 4)
        reads[name] = "all" if number == 3 else min(number, len(flow.increments))
    if drawn % 16 == 0:
        reads["nothing"] = 1
    return RunnableAnswer(question.number, reads, state=f"{len(question.state)}")


happenings = st.lists(
    st.tuples(st.sampled_from(["finish", "fail", "ask", "restart", "answer"]), st.integers(0, 9)),
    min_size=5,
    max_size=30,
)


@given(graphs(), st.sampled_from([None, 1, 2]), happenings)
def test_each_increment_is_read_once_and_in_order_and_nobody_is_stuck(actions, places, happens):
    world = World(actions, places)
    world.tester.request("a")
    for what, which in happens:
        active = [name for name, run in world.runs().items() if run.retry_at is None]
        if what == "ask":
            world.tester.request(actions[which % len(actions)].name)
        elif what == "restart":
            world.restart()
        elif what == "answer":
            if world.asked():
                world.answer(which)
        elif active and what == "finish":
            world.finish(active[which % len(active)])
        elif active:
            world.fail(active[which % len(active)], 1 + which % 3)
    world.settle()

    for action in actions:
        stage = world.tester.engine.stages[action.name]
        for flow, connector in stage.connectors.items():
            waiting = [increment.name for increment in connector.waiting]
            assert world.read[action.name, flow] + waiting == world.made[connector.source.action]
    explained = {one.action: one for one in world.tester.engine.explain(world.tester.now).actions}
    due = {name for name, one in explained.items() if one.result and one.result.reached}
    for name in due:
        reached = {name}
        while more := {h for one in reached & due for h in explained[one].held_by} - reached:
            reached |= more
        assert reached - due, f"{sorted(reached)} are due and wait for each other only"
