"""What happens is done at its time, ends at its time, and is mended at the end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from soaking.faults import Disturber
from soaking.happenings import Happening, Kind


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Script:
    """Stands for everything that is disturbed, and writes down what was done to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.done: list[tuple[int, str, str]] = []
        names = ("agent-1", "agent-2", "observer-1")
        self.services = {name: Service(name, self) for name in names}
        self.clocks = {name: ClockOf(name, self) for name in names}
        self.stack = self

    def note(self, who: str, what: str) -> None:
        self.done.append((round(self._clock.now - 1000), who, what))

    def up(self) -> None:
        self.note("stack", "up")

    def kill(self, part: Any) -> None:
        self.note(part.value, "kill")

    def part_pids(self, part: str) -> list[int]:
        return []


class Process:
    pid = 1

    def __init__(self, name: str, script: Script) -> None:
        self._name, self._script = name, script

    def send_signal(self, number: signal.Signals) -> None:
        self._script.note(f"worker of {self._name}", number.name)


class Service:
    lives = 1

    def __init__(self, name: str, script: Script) -> None:
        self._name, self._script = name, script

    def descendants(self) -> list[Process]:
        return [Process(self._name, self._script)]

    def kill(self) -> None:
        self._script.note(self._name, "kill")

    def start(self) -> None:
        self._script.note(self._name, "start")

    def signal(self, number: signal.Signals) -> None:
        self._script.note(self._name, number.name)


class ClockOf:
    def __init__(self, name: str, script: Script) -> None:
        self._name, self._script = name, script

    def move(self, seconds: int) -> None:
        self._script.note(self._name, f"clock {seconds != 0}")


Scene = tuple[Disturber, Script, list[dict[str, Any]]]


@pytest.fixture
def scene() -> Scene:
    clock = Clock()
    script = Script(clock)
    told: list[dict[str, Any]] = []
    stand: Any = script
    return Disturber(stand, lambda **words: told.append(words), clock, clock.sleep), script, told


def test_all_begins_and_ends_at_its_time(scene: Scene) -> None:
    disturber, script, _ = scene
    plan = (
        Happening(5.0, Kind.KILL, "agent-1", 10.0, 0),
        Happening(7.0, Kind.STOP, "observer-1", 3.0, 0),
        Happening(8.0, Kind.CLOCK, "agent-2", 4.0, 0),
        Happening(30.0, Kind.KILL_PART, "hbase", 2.0, 0),
    )
    disturber.run(plan, 40.0)
    assert script.done == [
        (5, "agent-1", "kill"),
        (7, "observer-1", "SIGSTOP"),
        (8, "agent-2", "clock True"),
        (10, "observer-1", "SIGCONT"),
        (12, "agent-2", "clock False"),
        (15, "agent-1", "start"),
        (30, "hbase", "kill"),
        (32, "stack", "up"),
    ]
    assert [each.kind for each in disturber.happened] == [each.kind for each in plan]


def test_a_worker_that_was_stopped_goes_on_later_or_at_the_end(scene: Scene) -> None:
    disturber, script, _ = scene
    plan = (
        Happening(5.0, Kind.STOP_WORKER, "agent-1", 10.0, 0),
        Happening(7.0, Kind.STOP_WORKER, "observer-1", 100.0, 0),
    )
    disturber.run(plan, 20.0)
    assert script.done == [
        (5, "worker of agent-1", "SIGSTOP"),
        (7, "worker of observer-1", "SIGSTOP"),
        (15, "worker of agent-1", "SIGCONT"),
    ]
    disturber.heal()
    assert (20, "worker of observer-1", "SIGCONT") in script.done


def test_who_is_away_already_is_left_alone_and_that_is_told(scene: Scene) -> None:
    disturber, script, told = scene
    plan = (
        Happening(5.0, Kind.KILL, "agent-1", 10.0, 0),
        Happening(6.0, Kind.STOP, "agent-1", 10.0, 0),
    )
    disturber.run(plan, 20.0)
    assert (6, "agent-1", "SIGSTOP") not in script.done
    assert [each.kind for each in disturber.happened] == [Kind.KILL]
    assert told[-1]["skipped"] is Kind.STOP


def test_at_the_end_everything_runs_by_the_right_clock(scene: Scene) -> None:
    disturber, script, _ = scene
    plan = (
        Happening(5.0, Kind.KILL, "agent-1", 100.0, 0),
        Happening(5.0, Kind.STOP, "agent-2", 100.0, 0),
        Happening(5.0, Kind.CLOCK, "observer-1", 100.0, 0),
        Happening(6.0, Kind.KILL_PART, "kafka", 100.0, 0),
    )
    disturber.run(plan, 10.0)
    script.done.clear()
    disturber.heal()
    done = [(who, what) for _, who, what in script.done]
    for wanted in (
        ("agent-1", "start"),
        ("agent-2", "SIGCONT"),
        ("observer-1", "clock False"),
        ("stack", "up"),
    ):
        assert wanted in done


def test_what_came_too_late_is_told(scene: Scene) -> None:
    disturber, _, told = scene
    disturber.run((Happening(50.0, Kind.KILL, "agent-1", 1.0, 0),), 10.0)
    assert disturber.happened == []
    assert told[-1]["why"] == "the piece was over"
