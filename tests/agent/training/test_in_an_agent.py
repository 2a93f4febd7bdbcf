"""A dataflow file with learned triggers on agents in memory: trained, served, and taken over."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from asked import KAFKA
from kept import knowledge
from simulation import ScriptedAgent, World
from simulation.rows import MemoryRows

from headgate.agent.errors import AgentError, Refused
from headgate.agent.metrics import AgentMetrics
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser, TrainingReport
from headgate.agent.training.parquet import read_pairs, write_pairs
from headgate.agent.training.task import AnyTask, RefitTask, Source, StoredTask, Task, Trained
from headgate.agent.training.trainer import Done
from headgate.agent.training.training import learn, learn_from_service, learn_stored
from headgate.engine import PolicyReport
from headgate.events import DECISIONS_TOPIC, updates_topic
from headgate.flows import parse_dataflow
from headgate.learning import (
    LEARNED,
    POLICIES,
    Learned,
    decode_model,
    version_of_model,
)
from headgate.replay import RecordedUpdate, in_order, read_recording

SOURCE = """
name: air
containers: {sensors: in c:v, areas: mid c:v, map: out c:v}
actions:
  feed: {input: sensors}
  combine: {step: "steps:combine", reads: sensors, writes: areas}
  draw: {step: "steps:draw", reads: areas, writes: map}
learned:
  outputs: {map: {error: 5%, confidence: 80%}}
  audit: 0.01%
  waves: 24
  horizon: 6
"""
WAIT = 60.0
PERIOD = 3600.0


class InMemory:
    """Trains at once, on what a world has recorded."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.tasks: list[Task] = []
        self.stored: list[StoredTask] = []
        self.refits: list[RefitTask] = []

    def train(self, task: AnyTask, done: Done) -> None:
        if isinstance(task, StoredTask):
            self.stored.append(task)
            done(learn_stored(task), "", 0.5)
            return
        learned: Callable[..., Trained]
        if isinstance(task, RefitTask):
            self.refits.append(task)
            learned = partial(learn_from_service, task)
        else:
            self.tasks.append(task)
            learned = partial(learn, task)
        world = self._world
        recording = read_recording(world.dataflow.name, world.decisions)
        topics = {updates_topic(table): world.partitions for table in ("in", "mid", "out")}
        logs = {
            (topic, partition): iter(
                [
                    RecordedUpdate(topic, partition, offset, when, message)
                    for offset, (message, when) in enumerate(
                        zip(messages, world.times[topic][partition], strict=True)
                    )
                ]
            )
            for topic in topics
            for partition, messages in enumerate(world.topic(topic))
        }
        events = in_order(recording.decisions, topics, lambda *place: next(logs[place], None))
        try:
            trained = learned(recording, events, topics)
        except AgentError as error:
            done(None, str(error), 0.5)
        else:
            done(trained, "", 0.5)

    def forget(self, dataflow: str) -> None:
        pass


class Served:
    """A world whose agents train and keep models."""

    def __init__(self, source: str = SOURCE) -> None:
        self.world = World(parse_dataflow(source, "air", None, "air"), policies=POLICIES)
        self.trains = InMemory(self.world)
        self.rows = MemoryRows()
        self.metrics = AgentMetrics()
        self.chance = random.Random(3)
        self.offset = 0.0
        """That readings have risen by."""
        self.advisers: list[LearnedAdviser] = []
        self.begin()

    def begin(self) -> None:
        """Have another adviser answer, which knows nothing but the table."""
        self.advisers.append(
            LearnedAdviser(
                self.world.dataflow.spec,
                KAFKA,
                self.trains,
                knowledge(self.rows),
                self.metrics.of("air"),
                Supervision(lambda _: None),
            )
        )
        self.world.advisers[LEARNED] = self.world.learning = self.advisers[-1]

    @property
    def agent(self) -> ScriptedAgent:
        return self.world.agents[-1]

    def wave(self, number: int) -> list[str]:
        """Have a wave come; return the steps that ran."""
        world = self.world
        world.run(lambda: True)
        before = len(world.commits)
        for row in range(4):
            reading = self.offset + self.chance.uniform(40.0, 60.0)
            world.write("in", b"%d" % row, b"c:v", b"%.2f" % reading)
        self.agent.ask(lambda runtime, now: runtime.waves.mark((), now, PERIOD * number))
        world.run(lambda: self.agent.settled() >= number)
        return [commit.action for commit in world.commits[before:]]

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not done():
            assert time.monotonic() < deadline
            self.world.run(lambda: True)
            time.sleep(0.005)

    def model(self) -> str:
        """Return what decides on the map."""
        return str(self.decided()["model"])

    def decided(self) -> dict[str, Any]:
        """Return how the map is decided on; with a threshold where a model is at hand."""
        assert self.agent.runtime is not None
        report = self.agent.runtime.state.engine.actions["draw"].policy.report()
        assert report is not None
        data: dict[str, Any] = report.data["map"]
        return data


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    for adviser in made.advisers:
        adviser.close()


def test_it_is_trained_after_its_waves_skips_and_goes_on_with_the_same_model(
    served: Served,
) -> None:
    for number in range(1, 26):
        assert served.wave(number) == ["combine", "draw"]
    [task] = served.trains.tasks
    assert (task.outputs, task.last, task.waves) == (("map",), 24, 24)
    served.until(lambda: bool(served.model()))
    report = served.advisers[-1].report
    assert report is not None
    assert (report.waves, report.last, report.reasons) == (24, 24, {})
    model = report.models["map"]
    assert served.model() == model

    ran = [served.wave(number) for number in range(26, 32)]
    assert ran.count([]) >= 3
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) == 2 and "threshold" in served.decided())

    assert served.model() == model
    assert len(served.trains.tasks) == 1
    assert served.decided()["model_age"] == 6
    served.agent.ask(lambda runtime, now: runtime.reporting.measure(now))
    served.world.run(lambda: True)
    metrics = served.agent.metrics.text().decode()
    assert 'headgate_agent_model_age_waves{dataflow="air",output="map"} 6.0' in metrics


def test_what_audits_found_is_measured_where_there_were_any(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.wave(1)
    found = {"model_age": 3, "audited_rate": 0.25, "rate_from": 0.1, "rate_to": 0.5}
    data = {"map": {"audits": 8, **found}, "other": {"audits": 0, **found}, "new": {"model": ""}}
    report = PolicyReport("", data)
    monkeypatch.setattr(Learned, "report", lambda policy: report if policy._writes else None)

    def shown(name: str) -> list[str]:
        served.agent.ask(lambda runtime, now: runtime.reporting.measure(now))
        served.world.run(lambda: True)
        lines = served.agent.metrics.text().decode().splitlines()
        return sorted(line for line in lines if line.startswith(f"headgate_agent_{name}{{"))

    head = 'headgate_agent_audited_violation_ratio{dataflow="air",output="map",value='
    assert shown("audited_violation_ratio") == [
        f'{head}"lower"}} 0.1',
        f'{head}"measured"}} 0.25',
        f'{head}"upper"}} 0.5',
    ]
    assert [line[-3:] for line in shown("model_age_waves")] == ["3.0", "3.0"]
    data.clear()
    assert shown("audited_violation_ratio") + shown("model_age_waves") == []


@pytest.fixture
def short() -> Iterator[Served]:
    made = Served()
    yield made
    for adviser in made.advisers:
        adviser.close()


def test_a_dataflow_with_a_short_recording_learns_from_pairs_of_another(
    served: Served, short: Served
) -> None:
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    file = io.BytesIO()
    write_pairs(file, knowledge(served.rows).pairs("air"))
    short.wave(1)
    knowledge(short.rows).keep_pairs(read_pairs(file, "a.parquet", "air"))
    runtime = short.agent.runtime
    assert runtime is not None
    assert not short.model()

    runtime.consultations.train((), None, 0, Source.KNOWLEDGE)
    short.until(lambda: bool(short.model()))

    report = runtime.consultations.training()
    assert (report.source, report.waves, report.last, report.reasons) == (
        Source.KNOWLEDGE,
        24,
        24,
        {},
    )
    ran = [short.wave(number) for number in range(2, 8)]
    assert [] in ran
    assert short.decided()["trained_on"] == 24
    assert short.trains.tasks == []


@pytest.fixture
def refitted() -> Iterator[Served]:
    """Yield a world whose models are fitted anew after every 10 waves, and that audits often."""
    made = Served(SOURCE.replace("0.01%", "40%") + "  refit: 10\n")
    yield made
    for adviser in made.advisers:
        adviser.close()


def test_a_model_is_fitted_anew_to_what_service_has_shown_and_by_another_agent_too(
    refitted: Served,
) -> None:
    served = refitted
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    trained, served.offset = served.model(), 100.0
    for number in range(26, 36):
        assert served.trains.refits == []
        assert "combine" in served.wave(number), "it is unlike all that was learned from"
    served.until(lambda: served.decided()["refits"] == 1)

    first = served.model()
    [task] = served.trains.refits
    assert (task.last, set(task.models)) == (35, {"map"})
    assert version_of_model(task.models["map"]) == trained != first
    assert {each.key.wave for each in task.pairs} == set(range(2, 25))
    assert served.decided()["model_age"] == 0
    kept = knowledge(served.rows)
    old, new = (decode_model(kept.model("air", "map", each)) for each in (trained, first))
    assert (new.threshold, new.calibration, new.waves) == (old.threshold, old.calibration, 24)

    ran = [served.wave(number) for number in range(36, 40)]
    assert [] in ran, "it is like what service has shown"
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) == 2 and "threshold" in served.decided())
    assert (served.model(), served.decided()["refits"]) == (first, 1)
    for number in range(40, 46):
        assert len(served.trains.refits) == 1
        served.wave(number)
    served.until(lambda: served.decided()["refits"] == 2)
    assert [task.last for task in served.trains.refits] == [35, 45]
    assert len(served.trains.tasks) == 1


def test_without_the_pairs_of_its_training_a_model_stays_and_it_is_said_why(
    refitted: Served,
) -> None:
    served = refitted
    for number in range(1, 26):
        served.wave(number)
    served.until(lambda: bool(served.model()))
    model = served.model()
    knowledge(served.rows).trim("air", 0, {model})
    for number in range(26, 36):
        served.wave(number)

    def words() -> str:
        assert served.agent.runtime is not None
        report = served.agent.runtime.state.engine.actions["draw"].policy.report()
        return "" if report is None else report.words

    served.until(lambda: "not fitted anew in wave 35: no pairs are stored of `map`" in words())
    assert "train it again" in words()
    assert (served.model(), served.decided()["refits"]) == (model, 0)


def test_people_have_it_trained_earlier_and_hear_what_is_missing(served: Served) -> None:
    for number in range(1, 13):
        served.wave(number)

    def train(outputs: tuple[str, ...], waves: int | None) -> TrainingReport:
        runtime = served.agent.runtime
        assert runtime is not None
        return runtime.consultations.train(outputs, waves, runtime.waves.settled)

    report = train((), 10)
    assert (report.outputs, report.asked, report.seconds) == (("map",), 10, None)
    with pytest.raises(Refused, match="a training of air is under way"):
        train((), 10)
    served.until(lambda: served.advisers[-1].report.seconds is not None)  # type: ignore[union-attr]
    assert served.trains.tasks[-1].last == 12
    assert served.agent.runtime is not None
    report = served.agent.runtime.consultations.training()
    assert report.waves == 10
    assert "14 more are missing" in report.reasons["map"]
    assert served.wave(13) == ["combine", "draw"]
    with pytest.raises(Refused, match="air bounds no output 'areas'; its outputs are 'map'"):
        train(("areas",), None)


def taken_over(served: Served) -> None:
    """Have another agent go on, which knows nothing but the table."""
    before = len(served.world.agents)
    served.begin()
    served.agent.alive = False
    served.world.run(lambda: True)
    served.until(lambda: len(served.world.agents) > before and served.agent.runtime is not None)


def test_the_report_of_the_last_training_is_told_by_the_next_agent_too(served: Served) -> None:
    for number in range(1, 9):
        served.wave(number)
    runtime = served.agent.runtime
    assert runtime is not None
    runtime.consultations.train((), 8, 8)
    served.until(lambda: served.advisers[-1].report.seconds is not None)  # type: ignore[union-attr]
    report = runtime.consultations.training()
    served.agent.ask(lambda runtime, now: runtime.save(now))
    served.world.run(lambda: True)
    taken_over(served)

    runtime = served.agent.runtime
    assert runtime is not None
    assert runtime.consultations.training() == report
    assert "are too few" in report.reasons["map"]


def test_what_cannot_be_trained_is_refused(served: Served) -> None:
    served.world.run(lambda: True)
    runtime = served.agent.runtime
    assert runtime is not None
    with pytest.raises(Refused, match="no wave of air has settled"):
        runtime.consultations.train((), None, 0)
    with pytest.raises(Refused, match="no training of air was asked for since"):
        runtime.consultations.training()


def test_kafka_keeps_all_since_the_submission(served: Served) -> None:
    world = served.world
    served.wave(1)
    begun = served.agent.runtime.state.definition.submitted
    world.now += 5000.0
    served.wave(2)
    world.run(lambda: True)
    topics = {DECISIONS_TOPIC, *map(updates_topic, ("in", "mid", "out"))}
    assert topics <= world.needs.keys()
    for topic in topics:
        assert world.needs[topic] == pytest.approx(world.now - begun, abs=120.0)
