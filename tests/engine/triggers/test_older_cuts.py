"""A run at a cut that was fixed earlier takes what had come by then, nothing that came later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    ConditionResult,
    ContainerWatch,
    DataflowSpec,
    EngineTester,
    Evaluation,
    Heard,
    Inputs,
    Moment,
    Needs,
    Nothing,
    Response,
    RetryPolicy,
    RunNow,
    Trigger,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    WatchedContainer,
    Wave,
    with_triggers,
)
from headgate.engine.cells.columns import Detail
from headgate.events import Container, ContainerId, Cut, Item, updates_topic

IN = ContainerId("in")
ROWS = (b"a", b"b", b"c")
MARKS = ("m", "n")
TOPIC = updates_topic("in")


class Steered(TriggerPolicy):
    """It fixes the cuts, and launches with those, that a test names."""

    kind: ClassVar[str] = "steered"
    fixing: str | None = None
    launching: str | None = None

    def __init__(self, distinct: bool) -> None:
        self.needs = Needs(
            (ContainerWatch(IN, Detail.VALUES, distinct),), Evaluation(action_end=True), marks=MARKS
        )
        self.cuts: Mapping[str, Cut] = {}

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        self.cuts = inputs.cuts
        result = self.explain(inputs, now)
        return RunNow(result, self.launching) if result.reached else Nothing(result)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        if self.launching is not None and inputs.marked(self.launching) is not None:
            return TriggerResult(True, "steered")
        return TriggerResult(False, "rests")

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        if isinstance(event, Wave) and self.fixing is not None:
            inputs.mark(self.fixing)
        return ()


class Model:
    """What the action has not consumed, by what was written, in the plainest words."""

    def __init__(self) -> None:
        self.now: dict[bytes, float] = {}
        self.written = 0
        self.before: dict[bytes, float] = {}
        self.updates: list[bytes] = []
        self.taken: tuple[dict[bytes, float], list[bytes]] | None = None
        self.fixed: dict[str, tuple[int, dict[bytes, float], list[bytes]]] = {}

    def write(self, row: bytes, value: float | None, *, own: bool) -> None:
        self.written += 1
        if value is None:
            self.now.pop(row, None)
        else:
            self.now[row] = value
        befores = [self.before, *(before for _, before, _ in self.fixed.values())]
        if own:
            for before in [*befores, *([self.taken[0]] if self.taken else [])]:
                before.pop(row, None)
                before.update({row: self.now[row]} if row in self.now else {})
        else:
            for updates in [self.updates, *(later for _, _, later in self.fixed.values())]:
                updates.append(row)

    def fix(self, mark: str) -> None:
        self.fixed.pop(mark, None)
        self.fixed[mark] = (self.written, dict(self.now), [])

    def launch(self, mark: str | None) -> int:
        cut, before, later = (
            (self.written, dict(self.now), []) if mark is None else self.fixed[mark]
        )
        self.taken = (self.before, self.updates[: len(self.updates) - len(later)])
        self.before, self.updates = dict(before), list(later)
        for name in list(self.fixed):
            del self.fixed[name]
            if name == mark:
                break
        return cut

    def give_back(self) -> None:
        assert self.taken is not None
        self.before, self.updates = self.taken[0], self.taken[1] + self.updates
        self.taken = None

    @property
    def changes(self) -> list[float]:
        rows = {*self.now, *self.before}
        return [abs(self.now.get(r, 0.0) - self.before.get(r, 0.0)) for r in rows]


class World:
    def __init__(self, *, own: bool, distinct: bool) -> None:
        self.own = own
        self.policy = Steered(distinct)
        spec = DataflowSpec(
            "flow",
            (WatchedContainer(Container(IN, (Item("in"),)), Codec()),),
            (
                ActionSpec("feed", ActionRole.INPUT, writes=(IN,)),
                ActionSpec(
                    "step", after=("feed",), own=own, retry=RetryPolicy(1),
                    trigger=Trigger("steered"),
                ),
            ),
        )  # fmt: skip

        def made(_: DataflowSpec, actions: Sequence[ActionSpec]) -> Mapping[str, TriggerPolicy]:
            self.policy = Steered(distinct)
            return {action.name: self.policy for action in actions}

        self.tester = EngineTester(spec, policies=with_triggers({"steered": made}))
        self.distinct = distinct
        self.model = Model()
        self.put(b"z", 0.0)

    def put(self, row: bytes, value: float | None, *, own: bool = False) -> None:
        written = None if value is None else str(value).encode()
        self.tester.write("in", {row: {b"f:q": written}}, by="step" if own else None)
        self.model.write(row, value, own=own and not self.own)

    def fix(self, mark: str) -> None:
        self.policy.fixing, self.policy.launching = mark, None
        self.tester.wave("feed")
        self.policy.fixing = None
        self.model.fix(mark)

    def launch(self, mark: str | None) -> None:
        if self.active or (mark is not None and mark not in self.model.fixed):
            return
        if mark is None:
            self.tester.request("step")
        else:
            self.policy.launching = mark
            self.tester.wave("feed")
            self.policy.launching = None
        cut = self.model.launch(mark)
        assert self.tester.launches()[-1].cut.offsets[TOPIC] == (cut,)

    @property
    def active(self) -> bool:
        return self.tester.engine.actions["step"].run is not None

    def end(self, *, well: bool) -> None:
        if not self.active:
            return
        if well:
            self.tester.finish("step")
            self.model.taken = None
        else:
            self.tester.fail("step")
            self.tester.release("step")
            self.model.give_back()

    def check(self) -> None:
        ((_, pending),) = self.tester.engine.actions["step"].parts[IN]
        model = self.model
        assert pending.updates == len(model.updates)
        found = (pending.changed, pending.difference.value, pending.largest())
        changes = model.changes
        expected = (sum(c > 0 for c in changes), sum(changes), max(changes, default=0.0))
        assert found == pytest.approx(expected)
        assert pending.measured_magnitude() == pytest.approx(sum(map(abs, model.before.values())))
        if self.distinct:
            # What a run has given back may be remembered of its elements, none may be forgotten.
            assert set(model.updates) <= set(pending.distinct)
        marks = self.tester.engine.actions["step"].marks
        assert [name for name, mark in marks.items() if mark.cut is not None] == list(model.fixed)


VALUES = st.sampled_from([None, 0.0, 1.0, -2.0, 3.5])
PUTS = st.tuples(st.just("put"), st.sampled_from(ROWS), VALUES, st.booleans())
STEPS = st.one_of(
    PUTS,
    PUTS,
    st.tuples(st.just("fix"), st.sampled_from(MARKS)),
    st.tuples(st.just("launch"), st.sampled_from((*MARKS, None))),
    st.tuples(st.just("end"), st.booleans()),
    st.just(("restart",)),
)


@given(st.lists(STEPS, max_size=24), st.booleans(), st.booleans())
@example(
    [("put", b"a", 1.0, False), ("fix", "m"), ("put", b"b", 3.5, False), ("launch", "m"),
     ("put", b"b", -2.0, True), ("end", False)],
    False, True,
)  # fmt: skip
@example([("fix", "m"), ("fix", "n"), ("put", b"a", 1.0, False), ("launch", "m")], False, False)
@example([("fix", "m"), ("put", b"a", 1.0, True), ("launch", "m")], False, True)
def test_it_leaves_what_came_later_as_if_it_had_been_launched_then(steps, own, distinct):
    world = World(own=own, distinct=distinct)
    for name, *arguments in steps:
        match name:
            case "put":
                row, value, by_step = arguments
                world.put(row, value, own=by_step)
            case "fix":
                world.fix(*arguments)
            case "launch":
                world.launch(*arguments)
            case "end":
                world.end(well=arguments[0])
            case "restart":
                world.tester.engine = _again(world)
        world.check()


def _again(world: World):
    tester = world.tester
    return type(tester.engine)(
        tester.spec, tester.engine.snapshot(), policies=tester.engine.state.policies_of
    )


def test_a_policy_knows_which_cut_each_predecessor_ran_with():
    containers = (WatchedContainer(Container(IN, (Item("in"),)), Codec()),)
    last = Steered(False)
    spec = DataflowSpec(
        "flow",
        containers,
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(IN,)),
            ActionSpec("one", after=("feed",)),
            ActionSpec("two", after=("feed",)),
            ActionSpec("last", after=("one", "two"), trigger=Trigger("steered")),
        ),
    )
    tester = EngineTester(spec, policies=with_triggers({"steered": lambda *_: {"last": last}}))
    tester.write("in", {b"a": {b"f:q": b"1"}})
    tester.wave("feed")
    tester.finish("one")
    tester.finish("two")
    tester.write("in", {b"a": {b"f:q": b"2"}})
    tester.request("two")
    assert last.cuts == {"one": Cut({TOPIC: (1,)}), "two": Cut({TOPIC: (1,)})}
    tester.finish("two")
    assert last.cuts == {"one": Cut({TOPIC: (1,)}), "two": Cut({TOPIC: (2,)})}
