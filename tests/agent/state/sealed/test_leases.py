"""Leases end by what an agent sees and its own steady clock, whatever clocks on walls say."""

from __future__ import annotations

import pytest
from simulation import SEALS, MemoryRows

from headgate.agent.errors import Held
from headgate.agent.state.sealed import Owner
from headgate.agent.state.sealed.leases import Lease, LeaseRows

ROW = b"flow/x"
DAY = 86_400.0
LENGTH = 10.0


class Host:
    """An agent on a host of its own: what its clock shows, and one that never leaps."""

    def __init__(self, name: str, rows: MemoryRows, wall: float = 1e9) -> None:
        self.owner = Owner(name, name, f"{name}:1")
        self.wall = wall
        self.steady = 5.0
        self.leases = LeaseRows(rows, SEALS, lambda: self.steady)
        self.beats = False

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def take(self) -> Lease:
        wanted = Lease(0, self.owner, 0.0, seconds=LENGTH, beats=self.beats)
        return self.leases.take(ROW, "x", wanted, self.wall)

    def renew(self, lease: Lease) -> None:
        held = Lease(lease.epoch, self.owner, self.wall + LENGTH, seconds=LENGTH)
        assert self.leases.renew(ROW, held)

    def beat(self) -> None:
        self.leases.beat(self.owner, self.wall)


@pytest.fixture
def rows() -> MemoryRows:
    return MemoryRows()


@pytest.mark.parametrize("ahead", [DAY, 11.0, -DAY])
def test_an_agent_whose_clock_is_wrong_steals_nothing_that_is_renewed(
    rows: MemoryRows, ahead: float
) -> None:
    owner, other = Host("one", rows), Host("two", rows, 1e9 + ahead)
    lease = owner.take()
    for _ in range(20):
        with pytest.raises(Held) as held:
            other.take()
        assert 0 < held.value.until - other.wall <= LENGTH
        for host in (owner, other):
            host.wait(LENGTH / 3)
        owner.renew(lease)


@pytest.mark.parametrize("ahead", [DAY, -DAY])
def test_a_lease_that_nobody_renews_ends_after_its_length(rows: MemoryRows, ahead: float) -> None:
    owner, other = Host("one", rows, 1e9 + ahead), Host("two", rows)
    owner.take()
    with pytest.raises(Held):
        other.take()
    other.wait(LENGTH - 0.1)
    with pytest.raises(Held):
        other.take()
    other.wait(0.1)
    assert other.take().epoch == 2


def test_what_was_seen_in_a_listing_counts(rows: MemoryRows) -> None:
    owner, other = Host("one", rows), Host("two", rows)
    owner.take()
    other.leases.read(ROW, rows.get(ROW))
    other.wait(LENGTH)
    assert other.take().epoch == 2


def test_an_agent_that_was_stopped_for_an_hour_looks_before_it_takes(rows: MemoryRows) -> None:
    owner, other = Host("one", rows), Host("two", rows)
    lease = owner.take()
    with pytest.raises(Held):
        other.take()
    for _ in range(10):
        owner.wait(360.0)
        owner.renew(lease)
    other.wait(3600.0)
    with pytest.raises(Held):
        other.take()


def test_clocks_that_leap_end_no_lease_and_keep_none(rows: MemoryRows) -> None:
    owner, other = Host("one", rows), Host("two", rows)
    lease = owner.take()
    with pytest.raises(Held):
        other.take()
    other.wall += DAY
    with pytest.raises(Held):
        other.take()
    other.wall -= 2 * DAY
    owner.renew(lease)
    with pytest.raises(Held):
        other.take()
    other.wait(LENGTH)
    assert other.take().owner == other.owner


@pytest.fixture
def beating(rows: MemoryRows) -> tuple[Host, Host]:
    """Return an owner that renews leases by beats, and another agent."""
    hosts = Host("one", rows), Host("two", rows)
    for host in hosts:
        host.beats = True
    return hosts


def test_beats_renew_a_lease_that_nobody_writes_again(beating: tuple[Host, Host]) -> None:
    owner, other = beating
    owner.take()
    for _ in range(20):
        with pytest.raises(Held) as held:
            other.take()
        assert 0 < held.value.until - other.wall <= LENGTH
        for host in beating:
            host.wait(LENGTH / 3)
        owner.beat()


def test_a_lease_ends_when_there_was_no_beat_for_its_length(beating: tuple[Host, Host]) -> None:
    owner, other = beating
    owner.take()
    owner.beat()
    other.leases.hear_beats()
    with pytest.raises(Held):
        other.take()
    other.wait(LENGTH - 0.1)
    with pytest.raises(Held):
        other.take()
    other.wait(0.1)
    assert other.take().epoch == 2


def test_before_a_lease_is_taken_a_last_beat_is_looked_for(beating: tuple[Host, Host]) -> None:
    owner, other = beating
    owner.take()
    with pytest.raises(Held):
        other.take()
    other.wait(DAY)
    owner.beat()  # the other has not listened all day
    with pytest.raises(Held):
        other.take()


def test_a_beat_renews_the_leases_of_its_owner_alone(
    beating: tuple[Host, Host], rows: MemoryRows
) -> None:
    owner, other = beating
    third = Host("three", rows)
    owner.take()
    with pytest.raises(Held):
        other.take()
    for _ in range(4):
        other.wait(LENGTH / 3)
        third.beat()
        other.leases.hear_beats()
    assert other.take().owner == other.owner


def test_a_beat_that_no_agent_signed_renews_nothing(
    beating: tuple[Host, Host], rows: MemoryRows
) -> None:
    owner, other = beating
    owner.take()
    owner.beat()
    with pytest.raises(Held):
        other.take()
    (beat,) = rows.names(b"beat/", b"beat0")
    for number in range(4):
        other.wait(LENGTH / 3)
        rows.put(beat, {b"state:lease": b"%d" % number})
        other.leases.hear_beats()
    assert other.take().epoch == 2


def test_an_owner_that_has_ended_leaves_no_beat_and_one_that_was_killed_not_for_long(
    beating: tuple[Host, Host], rows: MemoryRows
) -> None:
    owner, other = beating
    owner.beat()
    owner.leases.end_beat(owner.owner)
    assert not rows.rows.get(b"beat/one")
    owner.beat()
    other.leases.hear_beats()
    other.wait(DAY)
    other.leases.hear_beats()
    assert not rows.rows.get(b"beat/one")
    owner.beat()
    other.leases.hear_beats()
    assert rows.rows.get(b"beat/one"), "it lives, and is heard again"
