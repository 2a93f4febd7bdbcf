"""The list of trigger policies: what is there of each kind, and that explaining changes nothing.

Each kind has lives here in which everything happens by chance. Each is led twice with the same
seed: once as it is, and once with an explanation before and after whatever happens. Both must come
to the same decisions, words and checkpoints.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lived import AllWaves, Lived
from lived_models import WAVES, fitted, settings
from tests.seeds import seeds

from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.configuration import AgentConfiguration, HBase, KafkaOptions
from headgate.agent.metrics import AgentMetrics
from headgate.agent.policies import POLICIES, TRIGGER_KINDS, Advised, advisers_of
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser
from headgate.engine import (
    BOUNDS,
    PYTHON_RUNNABLE,
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionFlows,
    ActionRole,
    ActionSpec,
    Bound,
    Codec,
    Consult,
    Consulted,
    DataflowSpec,
    Engine,
    EngineTester,
    Evaluation,
    FlowId,
    HowMany,
    Instruction,
    Interval,
    Metric,
    MetricAnswer,
    MetricAnswers,
    Produced,
    ReadCells,
    RetryPolicy,
    RunnableAnswer,
    RunnableSpec,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    SignificanceSpec,
    SpecificationChanged,
    Stimulus,
    UserMetric,
    ValueBound,
    WatchedContainer,
    at_least_one,
    decode_metric_questions,
    decode_runnable_question,
    encode_metrics,
    encode_runnable,
)
from headgate.engine.actions.runs import RunState
from headgate.events import Container, ContainerId, Item
from headgate.learning import Residuals

IN, MIDDLE, OUT = map(ContainerId, ("in", "middle", "out"))
ROWS = [b"r%d" % number for number in range(6)]
VALUES = [b"0", b"1", b"-3", b"0.1", b"0.3333333333333333", b"1e16", b"-1e300", b"1e308", b"x"]
"""Some take the digits of all others with them, as they come and as they go."""
RULES: list[tuple[str, Any]] = [
    *((name, None) for name in ("all", "any", "aligned")),
    ("python", "m:f"),
    ("prefer", {"x": 2, "y": 1}),
    ("lookup", ("x",)),
]
STEPS = 60


class Explained(EngineTester):
    """An engine that is explained before and after each stimulus."""

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        self.explain()
        wanted = super().handle(stimulus)
        self.explain()
        return wanted

    def explain(self) -> None:
        def standing() -> tuple[Any, ...]:
            policies = [action.policy for action in self.engine.actions.values()]
            sums = [
                (total.value, total.error)
                for cells in self.engine.cells.values()
                for pending in cells.watchers.pendings
                for total in (pending.difference, pending.magnitude)
            ]
            return repr(sums), [policy.save() for policy in policies], self.engine.snapshot()

        before = standing()
        first = repr(self.engine.explain(self.now))
        assert repr(self.engine.explain(self.now)) == first
        assert standing() == before


def bounds_of(chance: random.Random, container: ContainerId) -> tuple[Bound, ...]:
    """Return some bounds; with a metric of the user's own in one of three."""
    found = []
    for number in range(chance.randint(1, 3)):
        metric: Metric | UserMetric = chance.choice([*Metric, *Metric, UserMetric("metrics:Own")])
        limit = chance.choice((0.2, 1.0, 50.0, Interval(1.0, 40.0)))
        constant = 5.0 if metric is Metric.AGAINST else None
        value = chance.choice((None, ValueBound(metric, limit, constant)))
        unit = chance.choice(list(SequenceUnit))
        count = chance.choice((3.0, 40.0, Interval(2.0, 90.0)))
        sequence = SequenceBound(count, unit, distinct=chance.random() < 0.5)
        time = chance.choice((None, 30.0, Interval(10.0, 90.0)))
        found.append(
            Bound(f"k{number}", container, time, sequence, value, block=chance.random() < 0.4)
        )
    return tuple(found)


def bounded(chance: random.Random) -> tuple[ActionSpec, ...]:
    moments = Evaluation(chance.random() < 0.6, True, chance.choice((None, 20.0)))
    return (
        ActionSpec(
            "first", after=("feed",), reads=(IN,), writes=(MIDDLE,),
            bounds=bounds_of(chance, IN), evaluation=moments, retry=RetryPolicy(2),
        ),
        ActionSpec(
            "second", after=("first",), reads=(MIDDLE,), writes=(OUT,),
            bounds=bounds_of(chance, MIDDLE), stage=ActionFlows(outputs=("u",)),
        ),
    )  # fmt: skip


def synchronous(_: random.Random) -> tuple[ActionSpec, ...]:
    return (
        ActionSpec("first", after=("feed",), reads=(IN,), writes=(MIDDLE,), retry=RetryPolicy(2)),
        ActionSpec("second", after=("first", "feed"), reads=(MIDDLE,), writes=(OUT,)),
    )


def searched(_: random.Random) -> tuple[ActionSpec, ...]:
    def step(name: str, reads: ContainerId, writes: ContainerId, after: str) -> ActionSpec:
        bound = Bound(reads, reads, 1e6, SOUGHT_SEQUENCE, SOUGHT_VALUE)
        condition = at_least_one([reads])
        return ActionSpec(
            name, after=(after,), reads=(reads,), writes=(writes,), bounds=(bound,),
            condition=condition, retry=RetryPolicy(2),
        )  # fmt: skip

    return step("first", IN, MIDDLE, "feed"), step("second", MIDDLE, OUT, "first")


def runnable(chance: random.Random) -> tuple[ActionSpec, ...]:
    kind, setting = chance.choice(RULES)
    inputs = {"x": FlowId("first", "u"), "y": FlowId("second", "u")}
    reader = ActionFlows(inputs, ("u",), RunnableSpec(kind, setting), chance.randint(1, 3))
    return (
        ActionSpec(
            "first", after=("feed",), reads=(IN,), stage=ActionFlows(outputs=("u",)),
            retry=RetryPolicy(2),
        ),
        ActionSpec("second", after=("feed",), reads=(IN,), stage=ActionFlows(outputs=("u",))),
        ActionSpec("third", stage=reader, retry=RetryPolicy(2)),
    )  # fmt: skip


class RandomLife:
    """A dataflow to which everything happens by chance."""

    def __init__(
        self,
        actions: Callable[[random.Random], tuple[ActionSpec, ...]],
        significance: SignificanceSpec | None,
        seed: int,
        world: type[EngineTester],
    ) -> None:
        self.chance = random.Random(seed)
        self._actions, self._significance = actions, significance
        self.tester = world(self._spec(), policies=POLICIES, answering=self.chance.random() < 0.5)
        self._heard = self._made = 0
        self._asked: list[Consult | ScanContainer | ReadCells] = []

    def _spec(self) -> DataflowSpec:
        watched = tuple(
            WatchedContainer(Container(name, (Item(str(name)),)), Codec())
            for name in (IN, MIDDLE, OUT)
        )
        feed = ActionSpec("feed", ActionRole.INPUT, writes=(IN,))
        actions = (feed, *self._actions(self.chance))
        return DataflowSpec("flow", watched, actions, significance=self._significance)

    def lead(self) -> None:
        happens = {
            self.write: 6, self.end: 6, self.answer: 4, self.wave: 3, self.time: 2, self.fail: 1,
            self.request: 0.5, self.restart: 0.3, self.sample: 0.5, self.edit: 0.2,
        }  # fmt: skip
        for _ in range(STEPS):
            [what] = self.chance.choices(list(happens), list(happens.values()))
            what()

    def write(self) -> None:
        number = self.chance.randint(1, 4)
        rows = self.chance.sample(ROWS, number)
        self.tester.write("in", {row: {b"f:x": self.chance.choice(VALUES)} for row in rows})

    def wave(self) -> None:
        self.tester.wave("feed")

    def time(self) -> None:
        self.tester.pass_time(self.chance.choice((0.5, 15.0, 70.0)))

    def sample(self) -> None:
        self.tester.sample(cpu=self.chance.uniform(0, 100))

    def restart(self) -> None:
        self.tester.restart()
        self._asked.clear()

    def request(self) -> None:
        self.tester.request(self.chance.choice(self._steps()))

    def edit(self) -> None:
        self.tester.spec = self._spec()
        self.tester.handle(SpecificationChanged(self.tester.now, self.tester.spec))

    def _steps(self) -> list[str]:
        actions = self.tester.engine.actions.values()
        return [action.name for action in actions if not action.is_input]

    def _under_way(self) -> list[str]:
        known = self.tester.engine.actions
        runs = ((name, known[name].run) for name in self._steps())
        return [name for name, run in runs if run is not None and run.retry_at is None]

    def end(self) -> None:
        for name in self._under_way()[:1]:
            action = self.tester.engine.actions[name].spec
            for container in action.writes:
                rows = self.tester.tables.get("in", {})
                cells = {row: {b"f:y": value} for (row, _), value in rows.items()}
                if cells:
                    self.tester.write(str(container), cells, by=name)
            made = [] if action.stage is None else [self._increment() for _ in action.stage.outputs]
            self.tester.finish(name, *made)

    def _increment(self) -> Produced:
        self._made += 1
        return Produced("u", f"i{self._made}", self._made, 1)

    def fail(self) -> None:
        for name in self._under_way()[:1]:
            self.tester.fail(name)
        for name, action in self.tester.engine.actions.items():
            if action.state is RunState.QUARANTINED and self.chance.random() < 0.5:
                self.tester.release(name)

    def answer(self) -> None:
        """Answer something that was asked, in any order, or say that nobody does."""
        new = self.tester.instructions[self._heard :]
        self._heard = len(self.tester.instructions)
        answered = self.tester.answering
        self._asked += (
            one
            for one in new
            if isinstance(one, Consult)
            or (not answered and isinstance(one, ScanContainer | ReadCells))
        )
        if self._asked:
            asked = self._asked.pop(self.chance.randrange(len(self._asked)))
            if isinstance(asked, Consult):
                said = None if self.chance.random() < 0.2 else self._said(asked)
                now = self.tester.now
                self.tester.handle(Consulted(now, asked.action, asked.kind, said, "nobody"))
            elif (asked.container, asked.table) in self.tester.engine.cells:
                self.tester.handle(self.tester.answer(asked))

    def _said(self, asked: Consult) -> bytes:
        if asked.kind == PYTHON_RUNNABLE:
            question = decode_runnable_question(asked.question)
            flows = question.flows.items()
            reads: dict[str, HowMany] = {
                name: self.chance.randint(0, len(flow.increments)) for name, flow in flows
            }
            return encode_runnable(RunnableAnswer(question.number, reads))
        answers = [
            MetricAnswer(
                one.bound, one.version, self.chance.choice((None, 0.0, 0.1, 60.0, math.nan))
            )
            for one in decode_metric_questions(asked.question).questions
        ]
        return encode_metrics(MetricAnswers(answers))


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@cache
def modelled(seed: int) -> tuple[AllWaves, Mapping[str, bytes]]:
    """Return waves, and the models of their outputs."""
    truth = AllWaves(seed, WAVES)
    return truth, fitted(truth, 0.0, Residuals(0.02, 0.3))[1]


class LearnedLife:
    """Waves that models decide on, with audits, input that comes early, restarts and failures."""

    def __init__(self, seed: int, world: type[EngineTester]) -> None:
        self.chance = random.Random(seed)
        truth, self._models = modelled(seed)
        self._lived = Lived(truth, settings(audit=0.3), check=unchecked, world=world)

    @property
    def tester(self) -> EngineTester:
        return self._lived.tester

    def lead(self) -> None:
        for wave in range(24):
            if wave == 3:
                self._lived.use(self._models)
            self._lived.pass_wave(early=self.chance.random() < 0.3, between=self._happen)

    def _happen(self) -> None:
        happens = self.chance.random()
        if happens < 0.1:
            self.tester.restart()
            self._lived.use(self._models)
        elif happens < 0.2:
            self._lived.answer("map", None, "nobody trains")


LIVES: dict[str, Callable[[int, type[EngineTester]], Any]] = {
    "synchrony": lambda seed, world: RandomLife(synchronous, None, seed, world),
    "runnable": lambda seed, world: RandomLife(runnable, None, seed, world),
    BOUNDS: lambda seed, world: RandomLife(bounded, None, seed, world),
    "significance": lambda seed, world: RandomLife(
        searched, SignificanceSpec(OUT, 0.05, ("first", "second")), seed, world
    ),
    "learned": LearnedLife,
}


def led(kind: str, seed: int, world: type[EngineTester]) -> EngineTester:
    life = LIVES[kind](seed, world)
    life.lead()
    kinds = {action.policy.kind for action in life.tester.engine.actions.values()}
    assert kind in kinds
    return life.tester


def test_each_kind_of_trigger_has_lives_here() -> None:
    assert list(LIVES) == [known.kind for known in TRIGGER_KINDS]


def test_each_kind_that_asks_has_its_own_adviser(tmp_path: Path) -> None:
    supervision, metrics = Supervision(lambda _: None), AgentMetrics().of("flow")
    configuration = AgentConfiguration(hbase=HBase("hbase:9090"), kafka=KafkaOptions("kafka:9092"))
    computes = MetricAdviser("flow", "python", tmp_path, 1.0, 1.0, 0.0, supervision)
    nobody: Any = SimpleNamespace(forget=lambda dataflow: None)
    spec = DataflowSpec("flow", (), ())
    found = advisers_of(
        Advised(spec, configuration, nobody, nobody, computes, metrics, supervision)
    )
    assert {kind: type(adviser) for kind, adviser in found.items()} == {
        BOUNDS: MetricAdviser,
        "learned": LearnedAdviser,
    }
    assert found[BOUNDS] is computes
    for adviser in found.values():
        adviser.close()


@pytest.mark.parametrize("seed", seeds(5, 200))
@pytest.mark.parametrize("kind", LIVES)
def test_who_is_explained_all_the_time_goes_on_as_who_is_not(kind: str, seed: int) -> None:
    plain, explained = (led(kind, seed, world) for world in (EngineTester, Explained))
    assert repr(explained.instructions) == repr(plain.instructions)
    assert explained.engine.snapshot() == plain.engine.snapshot()
