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

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def take(self) -> Lease:
        return self.leases.take(ROW, "x", self.owner, self.wall, LENGTH)

    def renew(self, lease: Lease) -> None:
        held = Lease(lease.epoch, self.owner, self.wall + LENGTH, seconds=LENGTH)
        assert self.leases.renew(ROW, held)


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
