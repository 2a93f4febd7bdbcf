"""A small budget of fuzzing in every run, and proof that what is watched for would be found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice

import mutation
import pytest
from targets import TARGETS
from watch import Finding, Target, Watch

INPUTS = 400  # of each target: all together take some seconds


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_taken_or_refused(name: str) -> None:
    watch = Watch(TARGETS[name])
    seeds = TARGETS[name].seeds()
    for data in seeds:
        watch.run(data)
    assert not watch.refused, "a seed that is refused leads nowhere"
    for data in islice(mutation.inputs(seeds, seed=1), INPUTS):
        watch.run(data)
    assert watch.refused > INPUTS / 10, "the damage is too small to prove anything"
    assert watch.taken > len(seeds) + INPUTS / 100, "the damage is too large to reach anything"


def test_the_same_seed_gives_the_same_inputs() -> None:
    seeds = [b"one", b"another"]
    first, again, other = (list(islice(mutation.inputs(seeds, n), 50)) for n in (1, 1, 2))
    assert first == again != other


def watched(check: Callable[[bytes], object], hang_seconds: float = 5.0) -> Watch:
    target = Target("scripted", check, (ValueError,), list)
    return Watch(target, hang_seconds)


def crash(_: bytes) -> None:
    raise IndexError("index out of range")


def hang(_: bytes) -> None:
    while True:
        pass


def devour(_: bytes) -> int:
    return len(bytes(64 << 20))


def lie(_: bytes) -> None:
    assert sys.flags.optimize, "something does not hold"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (crash, "IndexError: index out of range"),
        (hang, "no end after 0.05 s"),
        (devour, "bytes of memory for an input of 3"),
        (lie, "AssertionError: something does not hold"),
    ],
)
def test_a_defect_is_found_and_its_input_told(check: Callable[[bytes], None], reason: str) -> None:
    with pytest.raises(Finding, match=reason) as found:
        watched(check, hang_seconds=0.05).run(b"\x01\x02\x03")
    assert "the input is 010203" in str(found.value)


def test_a_refusal_is_no_defect() -> None:
    watch = watched(int)
    watch.run(b"12")
    watch.run(b"x")
    assert (watch.taken, watch.refused) == (1, 1)


def test_what_lives_long_is_not_taken_for_memory_of_an_input() -> None:
    kept: list[bytes] = []

    def keep(data: bytes) -> None:
        kept.append(data * 100_000)

    def inputs() -> Iterator[bytes]:
        yield from [b"x"] * 100

    watch = watched(keep)
    for data in inputs():
        watch.run(data)
    assert watch.largest < 200_000
