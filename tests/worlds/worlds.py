"""The worlds by name: each lives one life for a number, and raises where something is wrong."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agents.life import AgentLife
from contradiction import require
from engine.life import EngineLife
from engine.old_age import grow_old
from engine.stationary import StationaryLife
from msgspec import Struct
from observer.life import ObserverLife
from structlog.testing import capture_logs

_HAPPENINGS = 80  # of a life
_LONGEST_LINE = 5000  # characters of the log, whatever clients send
_OLD = 0.03  # share of lives that end with old age
_STATIONARY = 0.05  # and share of those after which nothing but noise comes for long


def live_as_engine(number: int) -> None:
    """Let an engine live among hostile happenings."""
    life = EngineLife(number)
    life.live(_HAPPENINGS)
    drawn = random.Random(number).random()
    if drawn < _OLD:
        grow_old(life)
    if drawn > 1 - _STATIONARY:
        StationaryLife(number).live()


def live_as_observer(number: int) -> None:
    """Let an observer live among hostile clients, in front of an HBase that is none."""
    with tempfile.TemporaryDirectory() as directory, capture_logs() as said:
        ObserverLife(number, Path(directory)).live(_HAPPENINGS)
    longest = max((len(str(one)) for one in said), default=0)
    require(holds=longest < _LONGEST_LINE, words=f"a line of the log has {longest} characters")


def live_as_agent(number: int) -> None:
    """Let agents carry a dataflow among observers, steps and stores that fail them."""
    with capture_logs():
        AgentLife(number).live(_HAPPENINGS)


WORLDS: dict[str, Callable[[int], None]] = {
    "agent": live_as_agent,
    "engine": live_as_engine,
    "observer": live_as_observer,
}


class Found(Struct, frozen=True):
    """What a world found, in which life, after how many seconds of processor."""

    life: int
    seconds: float
    words: str


def lives(seed: int) -> Iterator[int]:
    """Yield the numbers of the lives of a seed."""
    chance = random.Random(seed)
    while True:
        yield chance.randrange(1 << 40)


def search(world: str, seed: int, *, seconds: float = 1e9, most: int = 1 << 40) -> Found | int:
    """Live lives until something is found; return it, or how many lives were lived.

    Seconds are of the processor, so that a busy machine does not make a search say less.
    """
    begun = time.process_time()
    for lived, number in enumerate(lives(seed)):
        passed = time.process_time() - begun
        if lived >= most or passed >= seconds:
            return lived
        try:
            WORLDS[world](number)
        except Exception as error:  # noqa: BLE001 - whatever a life meets is what was looked for
            words = f"{type(error).__name__}: {error}"
            return Found(number, time.process_time() - begun, words)
    raise AssertionError("lives do not end")
