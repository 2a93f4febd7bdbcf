"""One bad record is set aside, counted and shown; it never stops its dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from simulation import ScriptedAgent, World

from headgate.agent.dataflow.suspects import Suspects
from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.kafka.feed import FeedRecord
from headgate.engine import Engine, RecordArrived
from headgate.events import UpdateBatch, UpdateMessage, updates_topic

IN = updates_topic("in")
BAD = b"bad"


def records(*offsets: int) -> list[RecordArrived]:
    unread = cast("UpdateMessage", None)
    return [RecordArrived(0.0, IN, 0, offset, unread) for offset in offsets]


def status(world: World) -> FlowStatus:
    runtime = world.agents[-1].runtime
    assert runtime is not None
    return runtime.reporting.status(world.now)


def run_on(world: World, agents: int) -> None:
    """Let the world go on, with another agent whenever one's dataflow has failed."""
    for _ in range(agents):
        try:
            world.run(lambda: True)
        except TypeError:
            world.agents[-1].alive = False
            world.start_agent()
        else:
            return
    pytest.fail("it fails again and again")


@pytest.fixture
def allergic(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that fails on one row, whatever comes with it."""
    arrive = Engine.arrive

    def fail_on_bad(engine: Engine, arrived: Sequence[RecordArrived]) -> Any:
        for record in arrived:
            if isinstance(record.message, UpdateBatch) and BAD in record.message.rows:
                raise TypeError("allergic")
        return arrive(engine, arrived)

    monkeypatch.setattr(Engine, "arrive", fail_on_bad)


def test_a_record_on_which_the_engine_fails_is_left_out_and_the_others_count(
    world: World, allergic: None
) -> None:
    world.start_agent()
    world.run(lambda: True)
    for row in (b"1", BAD, b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    run_on(world, agents=3)
    world.agents[-1].ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: world.agents[-1].settled() == 1)
    assert [request.action for request in world.commits] == ["first", "second"]
    (bad,) = status(world).bad_records
    message = world.topic(IN)[bad.partition][bad.offset]
    assert isinstance(message, UpdateBatch)
    assert message.rows == (BAD,)
    assert bad.reason == "TypeError: allergic"
    assert f"offset {bad.offset}: TypeError: allergic" in status(world).words


def test_of_records_taken_together_only_the_bad_one_is_left_out(
    world: World, allergic: None
) -> None:
    def together(agent: ScriptedAgent) -> None:
        found = [
            FeedRecord(IN, partition, offset, message, world.now)
            for partition, messages in enumerate(world.topic(IN))
            for offset, message in enumerate(messages)
        ]
        agent.broker.close()
        agent.ask(lambda runtime, now: runtime.consume(found, now))

    world.start_agent()
    world.run(lambda: True)
    for row in (b"1", b"2", BAD, b"3"):
        world.write("in", row, b"c:v", b"1")
    for _ in range(2):  # all are suspected, and then it is known which one it is
        with pytest.raises(TypeError):
            together(world.agents[-1])
        world.agents[-1].alive = False
        world.start_agent()
    together(world.agents[-1])
    assert status(world).set_aside == 1
    assert status(world).consumed == 3


def test_a_record_that_cannot_be_read_is_shown_and_what_it_said_is_looked_for(
    world: World,
) -> None:
    agent = world.start_agent()
    world.run(lambda: True)
    record = FeedRecord(IN, 1, 7, None, world.now, reason="it has no value")
    agent.ask(lambda runtime, now: runtime.consume([record], now))
    shown = status(world)
    assert shown.set_aside == 1
    assert (shown.bad_records[0].partition, shown.bad_records[0].offset) == (1, 7)
    assert shown.bad_records[0].reason == "it has no value"
    world.now += 10.0  # until the next checkpoint
    world.run(lambda: True)
    world.start_agent()
    assert status(world).bad_records == shown.bad_records


def test_a_suspect_that_was_taken_is_none_any_more() -> None:
    suspects = Suspects()
    suspects.blame(records(1, 2), ValueError())
    assert suspects.alone((IN, 0, 1))
    suspects.cleared((IN, 0, 1))
    assert not suspects.alone((IN, 0, 1))
    assert suspects.reason((IN, 0, 2)) is None
    suspects.blame(records(2), ValueError("no"))
    assert suspects.reason((IN, 0, 2)) == "ValueError: no"
