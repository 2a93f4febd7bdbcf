"""What agents in memory record of learned triggers is enough to replay it: as the command does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from asked import KAFKA
from kept import knowledge
from served_agents import SOURCE, Served
from simulation import World

from headgate.agent.errors import Refused
from headgate.agent.history import replays
from headgate.agent.history.replays import FlowRecording, FlowReplay, ModelSource
from headgate.agent.policies import POLICIES
from headgate.agent.training.knowledge import models_of
from headgate.engine import DataflowSpec
from headgate.events import updates_topic
from headgate.flows import parse_dataflow
from headgate.replay import (
    ModelKey,
    RecordedUpdate,
    Recording,
    Replayed,
    UnknownModel,
    read_recording,
)


class Kept:
    """Topics of a world, from their beginning."""

    def __init__(self, world: World, tables: Sequence[str]) -> None:
        self.partitions = {updates_topic(table): world.partitions for table in tables}
        self._logs = {
            (topic, partition): iter(
                [
                    RecordedUpdate(topic, partition, offset, when, message)
                    for offset, (message, when) in enumerate(
                        zip(messages, world.times[topic][partition], strict=True)
                    )
                ]
            )
            for topic in self.partitions
            for partition, messages in enumerate(world.topic(topic))
        }

    def fetch(self, topic: str, partition: int) -> RecordedUpdate | None:
        return next(self._logs[topic, partition], None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pass


class WorldRecordings:
    """What Kafka would have of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def open(self, name: str) -> Recording:
        # What an agent did not know to be delivered the next publishes again: ``Recordings``.
        return read_recording(name, dict.fromkeys(self._world.decisions))

    def updates(self, recording: Recording, tables: Sequence[str]) -> Kept:
        del recording
        return Kept(self._world, list(tables))


class Replaying:
    """A served dataflow, and replays of it."""

    def __init__(self, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self.served = Served(directory)
        patch.setattr(replays, "Recordings", lambda _: WorldRecordings(self.served.world))

    def learn(self, first: int = 1) -> dict[int, list[str]]:
        """Pass waves until a model decides, maybe in the middle of the last; return what ran."""
        ran = {number: self.served.wave(number) for number in range(first, 26)}
        self.served.until(lambda: bool(self.served.model()))
        return ran

    def take_over(self) -> None:
        """Have another agent go on, and wait until it has the model."""
        served = self.served
        agents = len(served.world.agents)
        served.agent.ask(lambda runtime, now: runtime.save(now))
        served.begin()
        served.agent.alive = False
        served.world.run(lambda: True)
        served.until(
            lambda: len(served.world.agents) == agents + 1 and "threshold" in served.decided()
        )

    def pass_wave(self, number: int) -> None:
        """Have a wave come, and be ended anew by the next agent where one ends before that."""
        served, world = self.served, self.served.world
        world.run(lambda: True)
        for row in range(4):
            world.write("in", b"%d" % row, b"c:v", b"%.2f" % served.chance.uniform(40.0, 60.0))
        while served.agent.waves() < number or not served.agent.alive:
            if not served.agent.alive:
                world.start_agent()
                continue
            served.agent.ask(
                lambda runtime, now: runtime.waves.mark((), now, 3600.0 * number) and None
            )
        world.run(lambda: served.agent.settled() >= number)

    def models(self, name: str, wanted: Sequence[ModelKey]) -> Mapping[ModelKey, bytes]:
        return models_of(knowledge(self.served.rows), name, wanted)

    def replay(
        self, others: Mapping[str, DataflowSpec] | None = None, source: ModelSource | None = None
    ) -> FlowReplay:
        return FlowRecording(KAFKA, "air", POLICIES, source or self.models).replay(others or {})


@pytest.fixture
def replaying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Replaying]:
    made = Replaying(monkeypatch, tmp_path)
    yield made
    made.served.computes.close()
    for adviser in made.served.advisers:
        adviser.close()


def other(text: str, by: str) -> DataflowSpec:
    """Return the dataflow with something else in its file."""
    assert text in SOURCE
    return parse_dataflow(SOURCE.replace(text, by), "air", None, "air").spec


def waves_of(replayed: Replayed, action: str) -> list[int]:
    return [run.wave for run in replayed.step(action).runs]


def test_runs_fall_where_the_agents_made_them_over_training_takeover_and_death(
    replaying: Replaying,
) -> None:
    served = replaying.served
    ran = replaying.learn()
    ran |= {number: served.wave(number) for number in range(26, 34)}
    replaying.take_over()
    ran |= {number: served.wave(number) for number in range(34, 44)}
    found = replaying.replay()
    assert found.disagreement == ()
    assert found.report.warnings == ()
    [same] = found.report.replays
    for action in ("combine", "draw"):
        assert waves_of(same, action) == [
            number for number, steps in ran.items() if action in steps
        ]
    assert 0 < sum("draw" in ran[number] for number in range(26, 44)) < 14
    assert [wanted.wave for wanted in same.wanted] == [25]


@pytest.mark.parametrize("points", [*range(2, 50, 12), 28])
def test_a_death_in_the_middle_of_a_wave_is_replayed_with_what_came_of_it(
    replaying: Replaying, points: int
) -> None:
    """Until the next agent has the model, steps run, and how long that is nobody knows before."""
    death_is_replayed(replaying, points)


@pytest.mark.soak
@pytest.mark.parametrize("points", range(1, 50))
def test_a_death_at_any_moment_is_replayed_with_what_came_of_it(
    replaying: Replaying, points: int
) -> None:
    death_is_replayed(replaying, points)


def death_is_replayed(replaying: Replaying, points: int) -> None:
    world = replaying.served.world
    replaying.learn()
    agents = len(world.agents)
    world.end_after(points)
    for number in range(26, 34):
        replaying.pass_wave(number)
    assert len(world.agents) == agents + 1
    found = replaying.replay()
    [same] = found.report.replays
    assert found.disagreement == ()
    commits = [commit.action for commit in world.commits]
    assert {step.action: len(step.runs) for step in same.steps} == {
        action: commits.count(action) for action in ("combine", "draw")
    }


def test_other_settings_are_replayed_by_the_same_models(replaying: Replaying) -> None:
    replaying.learn()
    for number in range(26, 40):
        replaying.served.wave(number)
    found = replaying.replay(
        {
            "audited": other("audit: 0.01%", "audit: 99.99%"),
            "sooner": other("horizon: 6", "horizon: 1"),
            "longer": other("waves: 24", "waves: 30"),
        }
    )
    same, audited, sooner, longer = found.report.replays
    assert found.disagreement == ()
    assert waves_of(audited, "draw") == list(range(1, 40))
    assert same.runs < sooner.runs < audited.runs
    assert waves_of(longer, "draw") == waves_of(same, "draw")
    assert all(step.error == 0.0 for step in same.steps)
    told = [warning.split(":")[0] for warning in found.report.warnings]
    assert told == ["audited", "sooner"]


def test_models_of_another_error_are_not_asked(replaying: Replaying) -> None:
    replaying.learn()
    with pytest.raises(Refused, match=r"^looser: output 'map' is bounded .* leave error and conf"):
        replaying.replay({"looser": other("error: 5%", "error: 50%")})


def test_without_models_nothing_is_replayed_and_that_is_said(replaying: Replaying) -> None:
    replaying.served.wave(1)
    assert FlowRecording(KAFKA, "air", POLICIES).replay({}).disagreement == ()
    assert FlowRecording(KAFKA, "air", POLICIES).triggered("learned") == ("combine", "draw")
    replaying.learn(2)
    with pytest.raises(UnknownModel, match="models decided when steps of 'air' ran, and nobody"):
        FlowRecording(KAFKA, "air", POLICIES).replay({})
    replaying.served.rows.rows.clear()
    with pytest.raises(UnknownModel, match="of map is not in the knowledge table, and it decid"):
        replaying.replay()
