"""A policy may have others run first, measure what others write, and hear which wave it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    CodecName,
    ConditionResult,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    Evaluation,
    Heard,
    Inputs,
    Moment,
    Needs,
    Nothing,
    Notice,
    Probe,
    Released,
    Response,
    RunFirst,
    RunNow,
    Trigger,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    WatchedContainer,
    Wave,
    launched,
    with_triggers,
)
from headgate.events import Container, ContainerId, Item

NAMES = ("in", "left", "right", "out")
IN, LEFT, RIGHT, OUT = map(ContainerId, NAMES)


class Wishes:
    """What the policies of one dataflow share."""

    def __init__(self) -> None:
        self.wave = Wave(0, 0.0)
        self.ran: dict[str, int] = {}
        """By action, the number of the wave in which it ran last."""
        self.wanted: set[str] = set()


class Following(TriggerPolicy):
    """Runs when it is wanted, after all that come before it have run in this wave."""

    kind: ClassVar[str] = "following"

    def __init__(self, spec: ActionSpec, before: tuple[str, ...], wishes: Wishes) -> None:
        self.spec = spec
        self.before = before
        self.wishes = wishes
        probes = (Probe("input since the last run", (IN,)),) if spec.name == "last" else ()
        self.needs = Needs(moments=Evaluation(action_end=True), probes=probes)
        self.seen: list[int] = []

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        self.seen.append(sum(p.updates for _, p in inputs.probe("input since the last run")))
        result = self.explain(inputs, now)
        stale = self.stale()
        if self.spec.name in self.wishes.wanted and stale:
            self.wishes.wanted.update(stale)
            return RunFirst(stale, result)
        return RunNow(result) if result.reached else Nothing(result)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        if self.spec.name not in self.wishes.wanted:
            return TriggerResult(False, "nobody wants it", "a wish")
        if self.stale():
            return TriggerResult(False, "others are old", "newer input")
        return TriggerResult(True, "it is wanted")

    def stale(self) -> tuple[str, ...]:
        wishes = self.wishes
        return tuple(n for n in self.before if wishes.ran.get(n, 0) < wishes.wave.number)

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        match event:
            case Wave():
                self.wishes.wave = event
            case Notice.LAUNCHED if self.spec.name == "first":
                inputs.reset("input since the last run")
            case Notice.COMMITTED:
                self.wishes.wanted.discard(self.spec.name)
                self.wishes.ran[self.spec.name] = self.wishes.wave.number
            case _:
                pass
        return ()


def world() -> tuple[EngineTester, Wishes, Mapping[str, Following]]:
    wishes = Wishes()
    trigger = Trigger("following")
    spec = DataflowSpec(
        "flow",
        tuple(
            WatchedContainer(Container(ContainerId(n), (Item(n),)), Codec(CodecName.UTF8))
            for n in NAMES
        ),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(IN,)),
            ActionSpec("first", after=("feed",), reads=(IN,), writes=(LEFT,), trigger=trigger),
            ActionSpec("other", after=("feed",), reads=(IN,), writes=(RIGHT,), trigger=trigger),
            ActionSpec(
                "last", after=("first", "other"), reads=(LEFT, RIGHT), writes=(OUT,),
                trigger=trigger,
            ),
        ),
    )  # fmt: skip
    policies = {
        a.name: Following(a, tuple(p for p in a.after if p != "feed"), wishes)
        for a in spec.actions[1:]
    }
    tester = EngineTester(spec, policies=with_triggers({"following": lambda *_: policies}))
    tester.write("in", {b"a": {b"f:q": b"1"}})
    wishes.wanted.update(policies)
    tester.wave("feed", number=1)
    tester.finish("first")
    tester.finish("other")
    tester.finish("last")
    return tester, wishes, policies


def held(tester: EngineTester) -> list[tuple[str, str]]:
    return [(d.action, d.words) for d in tester.decisions() if d.kind is DecisionKind.HELD]


def test_who_is_waited_for_runs_first_and_then_the_one_that_waits():
    tester, wishes, _ = world()
    assert wishes.ran == {"first": 1, "other": 1, "last": 1}
    wishes.wanted.update(("first", "last"))
    assert launched(tester.wave("feed", number=2)) == ["first"]
    assert launched(tester.finish("first")) == ["other"]
    assert held(tester)[-1] == ("last", "needs newer input")
    assert tester.launches("other")[-1].cause.words == "it is wanted (`last` waits for it)"
    assert "last" in tester.engine.busy  # so that the wave has not settled
    assert launched(tester.finish("other")) == ["last"]
    tester.finish("last")
    assert tester.engine.busy == ()


def test_what_waits_is_not_forgotten_with_the_engine():
    tester, wishes, _ = world()
    wishes.wanted.update(("first", "last"))
    tester.wave("feed", number=2)
    tester.finish("first")
    tester.restart()
    assert launched(tester.finish("other")) == ["last"]


def test_one_that_runs_already_is_waited_for_and_not_asked_again():
    tester, wishes, policies = world()
    wishes.wanted.update(policies)
    assert launched(tester.wave("feed", number=2)) == ["first", "other"]
    before = len(policies["other"].seen)
    assert launched(tester.finish("first")) == []
    assert len(policies["other"].seen) == before
    assert launched(tester.finish("other")) == ["last"]


def test_for_one_in_quarantine_nothing_is_kept_waiting():
    tester, wishes, _ = world()
    wishes.wanted.update(("first", "last"))
    tester.wave("feed", number=2)
    tester.finish("first")
    for _ in range(3):
        tester.fail("other")
        tester.pass_time(100)
    assert tester.engine.actions["other"].failure
    assert launched(tester.wave("feed", number=3)) == []
    wishes.wanted.add("first")
    tester.wave("feed", number=4)
    tester.finish("first")
    assert tester.engine.busy == ()
    assert launched(tester.handle(Released(tester.now, "other"))) == ["other"]
    assert launched(tester.finish("other")) == ["last"]


def test_a_probe_is_measured_and_reset_by_whoever_knows_its_name():
    tester, wishes, policies = world()
    tester.write("in", {b"a": {b"f:q": b"2"}, b"b": {b"f:q": b"2"}})
    tester.wave("feed", number=2)
    assert policies["first"].seen[-1] == policies["other"].seen[-1] == 2
    wishes.wanted.add("first")
    tester.wave("feed", number=3)
    tester.finish("first")
    tester.wave("feed", number=4)
    assert policies["other"].seen[-1] == 0


def test_it_hears_which_wave_it_is_and_of_what_time():
    tester, wishes, _ = world()
    tester.wave("feed", number=7, time=86_400.0)
    assert wishes.wave == Wave(7, 86_400.0)
    tester.wave("feed")
    assert wishes.wave == Wave(0, tester.now)
