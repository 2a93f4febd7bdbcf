"""A dataflow file with learned triggers on agents in memory, which train and keep models."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from asked import KAFKA
from kept import knowledge
from simulation import ScriptedAgent, World
from simulation.rows import MemoryRows

from headgate.agent.advisers.metric_program import answer_of
from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.errors import AgentError
from headgate.agent.metrics import AgentMetrics
from headgate.agent.policies import POLICIES
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser
from headgate.agent.training.task import AnyTask, RefitTask, StoredTask, Task, Trained
from headgate.agent.training.trainer import Done
from headgate.agent.training.training import learn, learn_from_service, learn_stored
from headgate.engine import (
    DataflowSpec,
    MetricAnswers,
    MetricQuestion,
    decode_metric_questions,
    encode_metrics,
)
from headgate.events import updates_topic
from headgate.flows import parse_dataflow
from headgate.learning import (
    LEARNED,
    Learned,
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
METRIC = """
class Worst:
    def process_element(self, current, previous):
        return abs(current - previous)

    def aggregate(self, a, b):
        return max(a, b)

    def compute(self, total, m, n):
        return total
"""
OWN = SOURCE.replace("error: 5%", "error: {python: {class: 'own:Worst', limit: 6}}")
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


class AtOnce:
    """Computes users' metrics at once."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.worker = process.worker
        self.asked: list[MetricQuestion] = []

    def answer(self, question: bytes, done: Callable[[bytes | None, str], None]) -> None:
        asked = decode_metric_questions(question).questions
        self.asked += asked
        done(encode_metrics(MetricAnswers([answer_of(each, self._load) for each in asked])), "")

    def _load(self, _: str) -> Any:
        made: dict[str, Any] = {}
        exec(METRIC, made)
        return made["Worst"]()

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:
        self._process.use(roots, spec)

    def close(self) -> None:
        self._process.close()


class Served:
    """A world whose agents train and keep models."""

    def __init__(self, directory: Path, source: str = SOURCE) -> None:
        self.world = World(parse_dataflow(source, "air", None, "air"), policies=POLICIES)
        self.trains = InMemory(self.world)
        self.computes: MetricAdviser | AtOnce = MetricAdviser(
            "air", sys.executable, directory, WAIT, WAIT, 0, Supervision(lambda _: None)
        )
        self.computes.use((str(directory),), self.world.dataflow.spec)
        self.rows = MemoryRows()
        self.metrics = AgentMetrics()
        self.chance = random.Random(3)
        self.offset = 0.0
        """That readings have risen by."""
        self.advisers: list[LearnedAdviser] = []
        self.begin()

    def compute_at_once(self) -> None:
        """Have users' metrics answer in this process, before anything else happens."""
        self.computes = AtOnce(self.computes)
        self.advisers.pop().close()
        self.begin()

    def begin(self) -> None:
        """Have another adviser answer, which knows nothing but the table."""
        self.advisers.append(
            LearnedAdviser(
                self.world.dataflow.spec,
                KAFKA,
                self.trains,
                knowledge(self.rows),
                self.computes,
                self.metrics.of("air"),
                Supervision(lambda _: None),
            )
        )
        self.world.advisers[LEARNED] = self.advisers[-1]

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

    def measured_wave(self, number: int) -> list[str]:
        """Have a wave come, and metrics say what they say of it; return the steps that ran."""
        ran = self.wave(number)
        self.world.run(lambda: True)

        def answered() -> bool:
            assert self.agent.runtime is not None
            policy = self.agent.runtime.state.engine.actions["draw"].policy
            assert isinstance(policy, Learned)
            return policy.state.outputs["map"].error.asked is None

        self.until(answered)
        return ran

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
