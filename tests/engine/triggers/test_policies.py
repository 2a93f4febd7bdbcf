"""A trigger that no file of the product knows goes by the interface that those of headgate use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import pytest

from headgate.engine import (
    ActionExplanation,
    ActionRole,
    ActionSpec,
    Adopted,
    Adopts,
    Advice,
    Ask,
    Bound,
    ConditionResult,
    Consult,
    Consulted,
    ContainerWatch,
    DataflowSpec,
    DecisionKind,
    Engine,
    EngineTester,
    Evaluation,
    Heard,
    Inputs,
    LimitsMoved,
    Moment,
    Needs,
    NeedsAnswer,
    Nothing,
    Notice,
    PolicyReport,
    Probe,
    Reports,
    Response,
    RunNow,
    SequenceBound,
    SpecificationChanged,
    SpecificationError,
    Trigger,
    TriggerPolicy,
    TriggerResult,
    Verdict,
    WaitUntil,
    WatchedContainer,
    Wave,
    launched,
    with_triggers,
)
from headgate.engine.actions.action import ActionMoment
from headgate.engine.cells.columns import Detail
from headgate.engine.spec.codecs import Codec, CodecName
from headgate.events import Container, ContainerId, Cut, Item, updates_topic

IN, OUT = ContainerId("in"), ContainerId("out")
NUMBERS = Codec(CodecName.UTF8)


class Learned(TriggerPolicy, Reports, Adopts):
    """Runs at the end of a wave when somebody outside says that it is worth it.

    It is asked with what is pending, at the cut of that wave; what arrives meanwhile waits.
    """

    kind: ClassVar[str] = "learned"

    def __init__(self, spec: ActionSpec) -> None:
        self.most = float(spec.trigger.settings.get("rest", 60.0)) if spec.trigger else 0.0
        self.needs = Needs(
            (ContainerWatch(IN, Detail.VALUES),),
            Evaluation(action_end=True),
            (Probe(f"effect of {spec.name}", (OUT,)),),
            ("wave",),
        )
        self.probe = f"effect of {spec.name}"
        self.answer: bool | None = None
        self.opinion = ""
        self.effects: list[float] = []
        self.heard_of: list[str] = []

    def judge(self, inputs: Inputs, now: float) -> Verdict:
        result = self.explain(inputs, now)
        if not inputs.marked("wave"):
            return Nothing(result)
        if self.answer is None:
            return NeedsAnswer(b"%d" % pending_in(inputs), result)
        return RunNow(result, "wave") if self.answer else WaitUntil(now + self.most, result)

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        words = f"{pending_in(inputs)} updates since the last run"
        if not inputs.marked("wave"):
            return TriggerResult(False, words, "a wave")
        if self.answer is None:
            return TriggerResult(False, words, "an opinion")
        if self.answer:
            return TriggerResult(True, f"{words} are worth it")
        return TriggerResult(False, words, "a better wave")

    def report(self) -> PolicyReport:
        return PolicyReport("It learns.", {"effects": list(self.effects)})

    def heard(self, event: Heard, inputs: Moment) -> Sequence[Response]:
        match event:
            case Notice.BEGUN:
                self.heard_of.append("begun")
                return (Ask(b"train"),) if not self.effects else ()
            case Wave():
                self.heard_of.append("wave")
                inputs.mark("wave")
                self.answer = None
            case Notice.COMMITTED:
                self.heard_of.append("committed")
                self.effects.append(sum(p.difference.value for _, p in inputs.probe(self.probe)))
                inputs.reset(self.probe)
                return (LimitsMoved("learner", f"{len(self.effects)} effects are known"),)
            case Notice.LAUNCHED:
                self.heard_of.append("launched")
                self.answer = None
            case Advice(answer, reason):
                return self.advised(answer, reason)
            case _:
                self.heard_of.append(event.value)
        return ()

    def advised(self, answer: bytes | None, reason: str) -> Sequence[Response]:
        self.heard_of.append(f"told {answer!r} {reason}".strip())
        self.answer = None if answer is None else answer == b"yes"
        if answer is None:
            return (Adopted({"opinion": ""}, reason),)
        self.opinion = answer.decode()
        return (Adopted({"opinion": self.opinion}, f"{self.opinion}, it goes by from here on"),)

    def versions(self) -> Mapping[str, str]:
        return {"opinion": self.opinion} if self.opinion else {}

    def save(self) -> bytes:
        return msgspec.json.encode(self.effects)

    def load(self, saved: bytes) -> None:
        self.effects = msgspec.json.decode(saved)


def pending_in(inputs: Inputs) -> int:
    return sum(pending.updates for _, pending in inputs.parts(IN))


class Bare(TriggerPolicy):
    """It says how far it is, and has no facet."""

    kind: ClassVar[str] = "bare"
    needs = Needs((ContainerWatch(IN),), Evaluation(write=True, action_end=True))

    def explain(self, inputs: Inputs, now: float) -> ConditionResult:
        pending = pending_in(inputs)
        return TriggerResult(pending >= 2, f"{pending} of 2", "more")


def _made(_: DataflowSpec, actions: Sequence[ActionSpec]) -> Mapping[str, TriggerPolicy]:
    return {action.name: Learned(action) for action in actions}


FACTORY = with_triggers(
    {"learned": _made, "bare": lambda _, actions: {action.name: Bare() for action in actions}}
)


def flow(kind: str = "learned", **settings: float) -> DataflowSpec:
    return DataflowSpec(
        "flow",
        (
            WatchedContainer(Container(IN, (Item("in"),)), NUMBERS),
            WatchedContainer(Container(OUT, (Item("out"),)), NUMBERS),
        ),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(IN,)),
            ActionSpec(
                "learner", after=("feed",), reads=(IN,), writes=(OUT,),
                trigger=Trigger(kind, settings),
            ),
        ),
    )  # fmt: skip


def learning(**settings: float) -> EngineTester:
    return EngineTester(flow("learned", **settings), policies=FACTORY)


def policy_of(world: EngineTester) -> Learned:
    policy = world.engine.actions["learner"].policy
    assert isinstance(policy, Learned)
    return policy


def put(world: EngineTester, row: str, value: float, table: str = "in", by: str | None = None):
    return world.write(table, {row.encode(): {b"f:q": str(value).encode()}}, by=by)


def answer(world: EngineTester, said: bytes | None, reason: str = ""):
    return world.handle(Consulted(world.now, "learner", "learned", said, reason))


def explained(world: EngineTester) -> ActionExplanation:
    return {a.action: a for a in world.engine.explain(world.now).actions}["learner"]


def questions(world: EngineTester) -> list[bytes]:
    return [i.question for i in world.instructions if isinstance(i, Consult)]


def test_it_asks_outside_and_runs_at_the_cut_of_the_wave_about_which_it_asked():
    world = learning()
    put(world, "a", 1)
    assert launched(world.wave("feed")) == []
    assert questions(world) == [b"train", b"1"]
    put(world, "b", 2)
    assert explained(world).missing == "waits for what its trigger has asked"
    assert launched(answer(world, b"yes")) == ["learner"]
    (launch,) = world.launches()
    assert launch.cut == Cut({updates_topic("in"): (1,)})
    assert launch.cause.words.startswith("2 updates since the last run are worth it")
    ((_, pending),) = world.engine.actions["learner"].parts[IN]
    assert (pending.updates, pending.changed, pending.difference.value) == (1, 1, 2.0)
    put(world, "x", 5, "out", by="learner")
    world.finish("learner")
    policy = policy_of(world)
    assert policy.effects == [5.0]
    assert policy.heard_of == ["begun", "wave", "told b'yes'", "launched", "committed"]
    put(world, "c", 3)
    world.wave("feed")
    answer(world, b"yes")
    (_, second) = world.launches()
    assert second.since.offsets[updates_topic("in")] == (1,)
    assert second.cut.offsets[updates_topic("in")] == (3,)


def test_a_failed_run_gives_back_what_it_took_and_what_came_later_stays():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    put(world, "b", 2)
    answer(world, b"yes")
    for _ in range(3):
        world.fail("learner")
        world.pass_time(100)
    ((_, pending),) = world.engine.actions["learner"].parts[IN]
    assert (pending.updates, pending.changed, pending.difference.value) == (2, 2, 3.0)
    assert policy_of(world).heard_of[-1] == "given up"


def test_without_an_answer_it_waits_for_the_next_moment_and_says_so():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    assert answer(world, None, "nobody knows")
    assert questions(world) == [b"train", b"1"]
    assert policy_of(world).heard_of[-1] == "told None nobody knows"
    last = world.decisions()[-1]
    assert (last.kind, last.words) == (DecisionKind.HELD, "nobody answers; needs an opinion")
    world.wave("feed")
    assert questions(world) == [b"train", b"1", b"1"]


def test_one_that_wants_to_be_asked_again_is_when_its_time_has_come():
    world = learning(rest=7.0)
    put(world, "a", 1)
    world.wave("feed")
    answer(world, b"no")
    assert world.notify_at == world.now + 7.0
    policy_of(world).answer = True
    assert launched(world.pass_time(8.0)) == ["learner"]


def test_what_it_keeps_is_saved_and_what_it_had_asked_is_asked_again():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    answer(world, b"yes")
    put(world, "x", 5, "out", by="learner")
    world.finish("learner")
    put(world, "b", 2)
    world.wave("feed")
    put(world, "c", 3)
    before = len(questions(world))
    again = Engine(world.spec, world.engine.snapshot(), policies=FACTORY)
    assert again.actions["learner"].policy.save() == b"[5.0]"
    assert again.actions["learner"].marks["wave"].cut == Cut(
        {updates_topic("in"): (2,), updates_topic("out"): (1,)}
    )
    world.restart()
    assert questions(world)[before:] == [b"2"]
    answer(world, b"yes")
    assert world.launches()[-1].cut.offsets[updates_topic("in")] == (2,)
    ((_, pending),) = world.engine.actions["learner"].parts[IN]
    assert (pending.updates, pending.difference.value) == (1, 3.0)


def test_what_a_policy_of_another_kind_has_saved_is_not_handed_to_it():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    (feed, learner) = world.spec.actions
    bounded = msgspec.structs.replace(
        learner, trigger=None, bounds=(Bound("n", IN, sequence=SequenceBound(2)),)
    )
    both = msgspec.structs.replace(world.spec, actions=(feed, bounded))
    assert launched(world.handle(SpecificationChanged(world.now, both))) == []
    assert not world.engine.actions["learner"].marks
    assert launched(answer(world, b"yes")) == []
    put(world, "b", 2)
    assert launched(world.wave("feed")) == ["learner"]


def test_its_limits_and_its_report_are_shown():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    answer(world, b"yes")
    world.finish("learner")
    moved = [d for d in world.decisions() if d.kind is DecisionKind.ADJUSTED]
    assert [(d.action, d.words) for d in moved] == [("learner", "1 effects are known")]
    assert explained(world).policy == PolicyReport("It learns.", {"effects": [0.0]})
    assert explained(world).missing == "needs a wave"


def test_what_it_was_given_and_goes_by_stands_in_the_decisions_made_since():
    world = learning()
    put(world, "a", 1)
    world.wave("feed")
    answer(world, b"no")
    put(world, "b", 2)
    world.wave("feed")
    answer(world, b"yes")
    world.finish("learner")
    world.wave("feed")
    world.handle(Consulted(world.now, "learner", "learned", None, "nobody is there"))
    kinds = (DecisionKind.ADOPTED, DecisionKind.HELD, DecisionKind.SKIPPED, DecisionKind.LAUNCHED)
    assert [(d.kind, d.versions) for d in world.decisions() if d.kind in kinds] == [
        (DecisionKind.HELD, {}),
        (DecisionKind.ADOPTED, {"opinion": "no"}),
        (DecisionKind.SKIPPED, {"opinion": "no"}),
        (DecisionKind.HELD, {"opinion": "no"}),
        (DecisionKind.ADOPTED, {"opinion": "yes"}),
        (DecisionKind.LAUNCHED, {"opinion": "yes"}),
        (DecisionKind.HELD, {"opinion": "yes"}),
        (DecisionKind.ADOPTED, {"opinion": ""}),
        (DecisionKind.HELD, {"opinion": "yes"}),
    ]
    adopted = [d for d in world.decisions() if d.kind is DecisionKind.ADOPTED]
    assert {d.action for d in adopted} == {"learner"}
    assert adopted[-1].words == "nobody is there"


def test_one_without_facets_runs_when_it_says_that_all_is_there_and_is_asked_at_each_write():
    world = EngineTester(flow("bare"), policies=FACTORY)
    put(world, "a", 1)
    assert (explained(world).missing, explained(world).policy) == ("needs more", None)
    put(world, "b", 2)
    [launch] = world.launches()
    assert launch.cause.words == "2 of 2 (write)"
    action = world.engine.actions["learner"]
    assert (action.adjusters, action.times(), action.held_by(paused=False)) == ([], [], ())
    assert [d.versions for d in world.decisions() if d.action == "learner"] == [{}, {}]
    world.restart()
    put(world, "c", 3)
    world.finish("learner")
    assert launched(put(world, "d", 4)) == ["learner"]


def test_a_trigger_that_nobody_makes_is_refused_by_name():
    with pytest.raises(SpecificationError, match=r"'learner': nobody makes a trigger 'wise'"):
        EngineTester(flow("wise"), policies=FACTORY)
    for kind, words in (("bounds", "has no bounds"), ("significance", "no change matters")):
        with pytest.raises(SpecificationError, match=f"'learner'.*{words}|{words} to 'learner'"):
            EngineTester(flow(kind), policies=FACTORY)
    feed = ActionSpec("feed", ActionRole.INPUT, writes=(IN,), trigger=Trigger("learned"))
    with pytest.raises(SpecificationError, match="drop its trigger"):
        Engine(DataflowSpec("flow", flow().containers, (feed,)), policies=FACTORY)


def test_a_probe_that_rests_follows_nothing_and_begins_anew_with_a_reset() -> None:
    world, probe = learning(), "effect of learner"

    def moment() -> ActionMoment:
        return ActionMoment(world.engine.actions["learner"], world.now, Cut)

    def moved() -> tuple[list[float], list[float]]:
        [(_, pending)] = moment().probe(probe)
        now, before = pending.moved()
        return now.tolist(), before.tolist()

    moment().reset(probe)
    put(world, "a", 1.0, "out")
    assert moved() == ([1.0], [0.0])
    moment().rest(probe)
    put(world, "a", 2.0, "out")
    put(world, "b", 5.0, "out")
    [(_, pending)] = moment().probe(probe)
    assert (moved(), pending.past) == (([], []), None), "it costs nothing"
    world.restart()
    moment().reset(probe)
    put(world, "a", 4.0, "out")
    assert moved() == ([4.0], [2.0])
