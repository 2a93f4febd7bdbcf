"""What happens in a piece, and when: drawn from a seed, so that a piece can be had again."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

AGENTS = ("agent-1", "agent-2", "agent-3")
OBSERVERS = ("observer-1", "observer-2")
PARTS = ("hbase", "kafka", "thrift1", "thrift2")
FLOWS = ("changing", "summing", "owning")

QUIET_START = 30.0
"""Seconds in which nothing happens, so that all has begun."""
QUIET_END = 20.0
"""Seconds before the writers stop in which nothing new happens."""


class Kind(StrEnum):
    """Something that befalls the product or what it stands on."""

    KILL = "kill"
    """``kill -9`` of an agent or an observer, which is started again a while later."""
    KILL_WORKER = "kill-worker"
    """``kill -9`` of whatever an agent has started: sessions, their JVMs, commands."""
    STOP = "stop"
    """SIGSTOP of an agent or an observer, SIGCONT a while later."""
    STOP_PART = "stop-part"
    """The same of HBase, Kafka or a Thrift server."""
    STOP_WORKER = "stop-worker"
    """SIGSTOP of whatever an agent or an observer has started, SIGCONT a while later."""
    KILL_PART = "kill-part"
    """HBase, Kafka or a Thrift server is killed and started again."""
    OUTAGE = "outage"
    """An agent or an observer stays away for longer than its alert waits."""
    PARTITIONS = "partitions"
    """A table's topic gets one partition more."""
    LIMITS = "limits"
    """A dataflow's limits are edited while it runs."""
    EDIT = "edit"
    """An action is added to a dataflow that runs, rewired, bounded otherwise, or taken away."""
    POISON = "poison"
    """A table's topic takes no messages for a while, and all others do."""
    CLOCK = "clock"
    """The wall clock of an agent or an observer leaps, up to an hour, and back later."""
    HOSTILE = "hostile"
    """Clients that never read, send garbage or huge names."""
    TOMBSTONE = "tombstone"
    """A record without a value in a table's topic."""
    HUGE_ROW = "huge-row"
    """A row with a value of megabytes."""


@dataclass(frozen=True)
class Happening:
    """One of them.

    Attributes:
        at: seconds since the writers began.
        kind: what it is.
        target: whom it befalls.
        lasts: seconds until it is over; 0 where it is at once.
        number: a choice that its kind still has to make.
    """

    at: float
    kind: Kind
    target: str
    lasts: float
    number: int


@dataclass(frozen=True)
class Habit:
    """How often something happens, to whom, and for how long.

    Attributes:
        every: seconds between two, on the average.
        targets: whom it may befall.
        shortest: the least duration in seconds.
        longest: the greatest.
    """

    every: float
    targets: tuple[str, ...]
    shortest: float = 0.0
    longest: float = 0.0


HABITS: dict[Kind, Habit] = {
    Kind.KILL: Habit(100.0, (*AGENTS, *OBSERVERS), 1.0, 15.0),
    Kind.KILL_WORKER: Habit(200.0, AGENTS),
    Kind.STOP: Habit(130.0, (*AGENTS, *OBSERVERS), 1.0, 25.0),
    Kind.STOP_PART: Habit(500.0, PARTS, 2.0, 20.0),
    Kind.KILL_PART: Habit(400.0, PARTS, 1.0, 10.0),
    Kind.OUTAGE: Habit(1800.0, (*AGENTS, *OBSERVERS), 100.0, 110.0),
    Kind.STOP_WORKER: Habit(250.0, (*AGENTS, "observer-1"), 5.0, 40.0),
    Kind.PARTITIONS: Habit(900.0, FLOWS),
    Kind.LIMITS: Habit(70.0, FLOWS),
    Kind.EDIT: Habit(150.0, FLOWS),
    Kind.POISON: Habit(600.0, FLOWS, 20.0, 90.0),
    Kind.CLOCK: Habit(240.0, (*AGENTS, *OBSERVERS), 30.0, 180.0),
    Kind.HOSTILE: Habit(120.0, OBSERVERS, 10.0, 10.0),
    Kind.TOMBSTONE: Habit(3600.0, FLOWS),
    Kind.HUGE_ROW: Habit(3600.0, ("changing",)),
}


def draw(seed: int, seconds: float, kinds: Collection[Kind]) -> tuple[Happening, ...]:
    """Return what happens in a piece, in its order.

    Each kind has numbers of its own, so that a piece without one has the others as before. What
    is rarer than a piece is long happens once in it all the same.
    """
    found: list[Happening] = []
    for kind in kinds:
        found += _draw(kind, HABITS[kind], random.Random(f"{seed}-{kind}"), seconds)
    return tuple(sorted(found, key=lambda each: (each.at, each.kind, each.target)))


def _draw(kind: Kind, habit: Habit, choices: random.Random, seconds: float) -> Iterable[Happening]:
    last = seconds - QUIET_END
    room = last - QUIET_START
    at = QUIET_START + min(habit.every, room) * choices.random()
    while at < last:
        target = choices.choice(habit.targets)
        lasts = choices.uniform(habit.shortest, habit.longest)
        number = choices.randrange(1 << 30)
        # What would outlast the piece would be cut short, and its alert with it.
        if at + lasts < last:
            yield Happening(round(at, 1), kind, target, round(lasts, 1), number)
        at += habit.every * choices.uniform(0.5, 1.5)
