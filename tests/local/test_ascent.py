"""The way up waits for a part that gets on, however long, and not for one that stands still."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headgate.local.errors import PartFailedError
from headgate.local.places import InstancePlaces
from headgate.local.processes.ascent import Ascent
from headgate.local.processes.parts import PLANS, Part
from headgate.local.processes.processes import Children, ProcessIdentity
from headgate.local.processes.recovery import KAFKA_RECOVERY, RecoveryState
from headgate.local.progress import Progress

BEGIN = "INFO  [main] log.LogManager: Recovering 3 logs from /d since no clean shutdown file\n"
STEP = "INFO  [log-recovery-/d-0] log.LogLoader: [LogLoader partition=t-0, dir=/d] Recovering\n"
LOADED = "INFO  [log-recovery-/d-0] log.LogManager: Completed load of Log(dir=/d/t-0) in 9ms "
ENDED = "INFO  [loader] log.LogManager: Loaded 3 logs in 397ms (unclean log dirs = /d)\n"


def counted(done: int, total: int) -> str:
    return f"{LOADED}({done}/{total} completed in /d)\n"


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[ProcessIdentity]:
    """What was ended; these processes are nobody's."""
    all_of_them: list[ProcessIdentity] = []
    monkeypatch.setattr(
        "headgate.local.processes.processes.end",
        lambda identities, *_: all_of_them.extend(identities),
    )
    return all_of_them


class Alive(ProcessIdentity, frozen=True):
    """A process that lives and has the port that it is asked for."""

    def lives(self) -> bool:
        return True

    def listens(self, port: int) -> bool:
        return True


OTHERS = Alive(-1, 0.0)
STARTED = Alive(-2, 0.0)


class Kafka:
    """A part whose log and answers follow a script by the second, on a clock of its own."""

    def __init__(self, home: Path, script: dict[int, str], answers_at: float) -> None:
        self.places = InstancePlaces(home, "dev")
        self.places.create()
        self.log = self.places.log("kafka")
        self.log.write_text("")
        self.now = 0.0
        self.starts = 0
        self.told: list[Progress] = []
        self._script = dict(script)
        self._answers_at = answers_at
        self.plan = msgspec.structs.replace(
            PLANS[Part.KAFKA], answers=lambda _: self.now >= self._answers_at
        )

    def start(self, plan: object) -> ProcessIdentity:
        self.starts += 1
        return STARTED

    def mark_initialised(self, part: Part) -> None:
        """It has no data of its own."""

    def pause(self, seconds: float) -> None:
        self.now += 1
        with self.log.open("a") as log:
            log.write(self._script.pop(int(self.now), ""))

    def up(self, before: dict[Part, ProcessIdentity] | None = None) -> None:
        Ascent(
            self.places,
            {Part.KAFKA: self.plan},
            self,  # type: ignore[arg-type]
            {"kafka": 9092, "kafka_controller": 9093},
            before or {},
            Children(),
            self.told.append,
            clock=lambda: self.now,
            pause=self.pause,
        ).run()


@pytest.fixture
def kafka(tmp_path: Path) -> Callable[..., Kafka]:
    return lambda script, answers_at=10_000.0: Kafka(tmp_path, script, answers_at)


def test_a_part_that_recovers_longer_than_its_time_is_waited_for(
    kafka: Callable[..., Kafka],
) -> None:
    steps = dict.fromkeys(range(60, 600, 60), STEP)
    part = kafka({1: BEGIN, **steps, 200: counted(1, 3), 400: counted(2, 3), 620: ENDED}, 640)
    part.up()
    assert part.starts == 1
    assert [(each.done, each.total) for each in part.told if each.total] == [(1, 3), (2, 3)]


def test_a_part_that_stands_still_while_it_recovers_is_given_up(
    kafka: Callable[..., Kafka],
) -> None:
    part = kafka({1: BEGIN, 60: STEP})
    with pytest.raises(PartFailedError, match="stood still for 90 s while it recovered"):
        part.up()
    assert 150 <= part.now <= 153


@pytest.mark.parametrize("noise", ["", "WARN  [main] connection refused, trying again\n"])
def test_what_is_no_recovery_has_its_time_whatever_it_writes(
    kafka: Callable[..., Kafka], noise: str
) -> None:
    part = kafka(dict.fromkeys(range(1, 500), noise))
    with pytest.raises(PartFailedError, match="did not answer within 90 s"):
        part.up()
    assert part.now < 95


def test_a_part_whose_starter_was_killed_is_not_begun_anew_while_it_recovers(
    kafka: Callable[..., Kafka],
) -> None:
    part = kafka(dict.fromkeys(range(60, 660, 60), STEP), 640)
    part.log.write_text(BEGIN + STEP)
    part.up({Part.KAFKA: OTHERS})
    assert part.starts == 0


def test_a_part_that_ran_before_and_answers_no_more_is_begun_anew_at_once(
    kafka: Callable[..., Kafka], ended: list[ProcessIdentity]
) -> None:
    part = kafka({}, 40)
    part.log.write_text(BEGIN + STEP + counted(3, 3) + ENDED)
    part.up({Part.KAFKA: OTHERS})
    assert (part.starts, ended) == (1, [OTHERS])


def test_the_state_of_a_recovery_is_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "kafka.log"
    assert KAFKA_RECOVERY.state(log) == RecoveryState()
    log.write_text(BEGIN + STEP + counted(1, 3) + STEP + counted(2, 3))
    assert KAFKA_RECOVERY.state(log) == RecoveryState(2, 2, 3)
    assert KAFKA_RECOVERY.state(log).is_under_way
    log.write_text(log.read_text() + counted(3, 3) + ENDED)
    assert not KAFKA_RECOVERY.state(log).is_under_way
