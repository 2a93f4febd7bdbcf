"""Topics are given more partitions while an agent runs: what lies there is read like the rest."""

from __future__ import annotations

import zlib

from simulation import ScriptedAgent, World

from headgate.agent.kafka.barriers import Barrier
from headgate.agent.kafka.feed import FeedRecord
from headgate.events import VERSION, BarrierMark, updates_topic
from headgate.flows import parse_dataflow

IN = updates_topic("in")
ROWS = [b"%d" % n for n in range(20)]


PERCENT = """
name: percent
containers:
  input: in c:v
actions:
  feed: {input: input}
  step:
    step: steps:first
    reads: input
    when:
      input: {sequence: 5000%}
"""


def make_percent() -> World:
    return World(parse_dataflow(PERCENT, "percent.yaml"))


def started(world: World) -> ScriptedAgent:
    agent = world.start_agent()
    world.run(lambda: True)
    return agent


def write(world: World) -> None:
    for row in ROWS:
        world.write("in", row, b"c:v", b"1")


def consumed(world: World) -> int:
    runtime = world.agents[-1].runtime
    assert runtime is not None
    return runtime.reporting.status(world.now).consumed


def wave(world: World, agent: ScriptedAgent) -> None:
    before = agent.waves()
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == before + 1)


def test_no_wave_passes_what_lies_in_partitions_that_were_added(world: World) -> None:
    agent = started(world)
    world.grow(8)
    write(world)
    assert len({zlib.crc32(row) % 8 for row in ROWS if zlib.crc32(row) % 8 > 1}) > 2
    wave(world, agent)
    assert consumed(world) >= len(ROWS)
    assert [request.action for request in world.commits] == ["first", "second"]


def test_what_the_feed_says_of_more_partitions_is_enough(world: World) -> None:
    agent = started(world)
    world.grow(8)
    write(world)
    grown = FeedRecord(IN, 0, 0, None, world.now, partitions=8)
    agent.ask(lambda runtime, now: runtime.consume([grown], now))
    world.run(lambda: True)
    assert consumed(world) == len(ROWS)


def test_nothing_is_counted_twice_and_the_cut_names_all_partitions(world: World) -> None:
    agent = started(world)
    write(world)
    world.run(lambda: True)
    world.grow(3)
    write(world)
    wave(world, agent)
    assert consumed(world) == len(world.written)
    assert len(world.commits[0].cut.offsets[IN]) == 3


def test_an_agent_that_takes_over_reads_the_added_partitions_from_their_beginning(
    world: World,
) -> None:
    started(world)
    world.agents[-1].alive = False
    world.grow(8)
    write(world)
    agent = world.start_agent()
    wave(world, agent)
    assert consumed(world) >= len(ROWS)
    assert world.commits


def known(world: World) -> int:
    runtime = world.agents[-1].runtime
    assert runtime is not None
    (container,) = runtime.reporting.explain(world.now).containers
    return container.elements


def pass_time(world: World) -> None:
    """Let barriers be asked for again, and a checkpoint be taken."""
    later = world.now + 5.0
    world.run(lambda: world.now >= later)


def overtaken(world: World, row: bytes) -> None:
    """Have a put come after the delete by which its row is gone, which lies in another partition.

    The put is in partition 0, where the row was before there were more.
    """
    former, world.partitions = world.partitions, 1
    world.write("in", row, b"c:v", b"1")
    world.partitions = former
    del world.tables["in"][row, b"c:v"]


def test_rows_are_read_again_when_an_observer_moves_them_long_after_the_agent_knew() -> None:
    world = make_percent()
    agent = started(world)
    world.grow(8)
    grown = FeedRecord(IN, 0, 0, None, world.now, partitions=8)
    agent.ask(lambda runtime, now: runtime.consume([grown], now))
    world.run(lambda: True)
    overtaken(world, b"row")
    world.run(lambda: True)
    assert known(world) == 1
    world.mark_growth("in", range(8))
    world.run(lambda: True)
    assert known(world) == 0


def test_what_is_still_to_come_from_a_rows_former_partition_does_not_outrank_that_scan() -> None:
    world = make_percent()
    started(world)
    world.grow(8)
    world.silent = True
    world.mark_growth("in", range(1, 8))
    world.run(lambda: True)
    overtaken(world, b"row")
    world.mark_growth("in", [0])
    world.run(lambda: True)
    world.silent = False
    pass_time(world)
    assert known(world) == 0


def test_an_agent_that_takes_over_in_between_reads_them_again() -> None:
    world = make_percent()
    agent = started(world)
    world.grow(8)
    world.silent = True
    overtaken(world, b"row")
    world.mark_growth("in", range(8))
    world.run(lambda: True)
    pass_time(world)
    agent.alive = False
    world.silent = False
    world.start_agent()
    world.run(lambda: True)
    assert known(world) == 0


def test_a_barrier_waits_for_a_mark_in_each_partition_over_which_its_observer_writes() -> None:
    barrier = Barrier("b", {"in": 2}, "purpose", None, 0.0)
    for partition in (0, 1):
        barrier.mark(IN, partition, BarrierMark(VERSION, "o", 1, 0, "b", 3))
        barrier.mark(IN, partition, BarrierMark(VERSION, "p", 1, 0, "b", 2))
    assert barrier.missing({"o": 1, "p": 1}) == {"o": 1}
    barrier.mark(IN, 2, BarrierMark(VERSION, "o", 1, 0, "b", 3))
    assert barrier.passed({"o": 1, "p": 1})
