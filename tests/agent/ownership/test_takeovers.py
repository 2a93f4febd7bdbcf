"""Which dataflows an agent tries to take, and when it tries again, by a clock of the test's."""

from __future__ import annotations

import pytest

from headgate.agent.errors import Held
from headgate.agent.ownership.takeovers import Takeovers
from headgate.agent.state.sealed import Definition, Lease, Owner
from headgate.agent.state.store import Listing, Listings
from headgate.events import partition_of

PARTITIONS = 4
MINE = Owner("mine", "1", "here:1")
OTHER = Owner("other", "2", "there:1")
START = 1000.0


def definition(name: str = "flow", revision: int = 1) -> Definition:
    return Definition(name, "", ".", revision, 0.0)


def listing(name: str, revision: int, owner: Owner | None, left: float) -> Listing:
    return Listing(definition(name, revision), Lease(1, owner, 0.0), left=left)


@pytest.fixture
def takeovers() -> Takeovers:
    made = Takeovers()
    made.assign(range(PARTITIONS))
    return made


def due(takeovers: Takeovers, now: float, revision: int = 1) -> bool:
    return takeovers.is_due(definition(revision=revision), PARTITIONS, now)


def test_a_dataflow_of_its_partitions_is_taken_and_no_other() -> None:
    takeovers = Takeovers()
    assert not due(takeovers, START)
    own = partition_of(b"flow", PARTITIONS)
    takeovers.assign({*range(PARTITIONS)} - {own})
    assert not due(takeovers, START)
    takeovers.assign([own])
    assert due(takeovers, START)
    takeovers.revoke([own])
    assert not due(takeovers, START)


def test_a_member_that_begins_again_has_nothing_until_it_is_told(takeovers: Takeovers) -> None:
    takeovers.revoke_all()
    assert not due(takeovers, START)


def test_what_may_not_run_is_not_tried_until_it_is_changed(takeovers: Takeovers) -> None:
    takeovers.refuse("flow", 1, "its definition: no name")
    assert not due(takeovers, START + 1e9)
    assert takeovers.words_against(definition()) == "its definition: no name"
    assert due(takeovers, START, revision=2)
    assert takeovers.words_against(definition(revision=2)) is None


def test_what_fails_is_tried_again_after_a_pause_that_grows(takeovers: Takeovers) -> None:
    now, pauses = START, []
    for number in range(1, 5):
        takeovers.begin("flow", now)
        takeovers.fail("flow", 1, TypeError("what?"), now)
        words = takeovers.words_against(definition())
        assert words is not None
        assert words.startswith("TypeError: what?; tried again after ")
        assert words.endswith(f"(failure {number} in a row)")
        pauses.append(takeovers.patience(now, 1e9))
        assert not due(takeovers, now + pauses[-1] * 0.999)
        now += pauses[-1]
        assert due(takeovers, now)
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]


def test_a_failure_long_after_another_is_the_first_again(takeovers: Takeovers) -> None:
    for lasted, number in ((0.0, 1), (599.0, 2), (601.0, 1)):
        takeovers.begin("flow", START)
        takeovers.fail("flow", 1, TypeError("what?"), START + lasted)
        assert f"(failure {number} in a row)" in (takeovers.words_against(definition()) or "")


def test_failures_of_another_definition_are_counted_anew(takeovers: Takeovers) -> None:
    takeovers.fail("flow", 1, TypeError("what?"), START)
    takeovers.fail("flow", 2, TypeError("what?"), START)
    assert "(failure 1 in a row)" in (takeovers.words_against(definition(revision=2)) or "")


def test_while_kafka_is_away_it_is_tried_every_second(takeovers: Takeovers) -> None:
    takeovers.pause("flow", START)
    assert not due(takeovers, START + 0.9)
    assert takeovers.patience(START, 10.0) == 1.0
    assert due(takeovers, START + 1.0)
    assert takeovers.patience(START + 1.0, 10.0) == 10.0


def test_it_looks_again_when_the_first_is_due_and_no_later_than_it_must(
    takeovers: Takeovers,
) -> None:
    assert takeovers.patience(START, 3.0) == 3.0
    takeovers.refuse("damaged", 1, "never")
    assert takeovers.patience(START, 3.0) == 3.0
    takeovers.pause("later", START + 1.5)
    takeovers.pause("soon", START)
    assert takeovers.patience(START, 3.0) == 1.0
    assert takeovers.patience(START + 1.0, 3.0) == 1.5


def test_that_it_stands_by_is_new_once_for_each_time(takeovers: Takeovers) -> None:
    held = Held("flow", "other", "there:1", START)
    assert takeovers.stand_by("flow", held)
    assert not takeovers.stand_by("flow", held)
    assert takeovers.taken("flow") is held
    assert takeovers.taken("flow") is None
    assert takeovers.stand_by("flow", held)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ((), False),  # removed
        ((listing("flow", 2, None, 0.0),), False),  # changed
        ((listing("flow", 1, None, 0.0),), True),
        ((listing("flow", 1, MINE, 5.0),), True),
        ((listing("flow", 1, OTHER, 5.0),), False),  # it runs elsewhere
        ((listing("flow", 1, OTHER, 0.0),), True),  # it did
    ],
)
def test_what_is_known_against_a_dataflow_is_forgotten_when_it_says_nothing_more(
    takeovers: Takeovers, found: tuple[Listing, ...], *, known: bool
) -> None:
    takeovers.refuse("flow", 1, "damaged")
    takeovers.forget(Listings(found, ()), MINE)
    assert (takeovers.words_against(definition()) is not None) is known


def test_those_that_run_again_are_not_counted_as_failed(takeovers: Takeovers) -> None:
    takeovers.refuse("a", 1, "damaged")
    takeovers.fail("b", 1, TypeError("what?"), START)
    assert takeovers.broken(()) == 2
    assert takeovers.broken({"b"}) == 1
