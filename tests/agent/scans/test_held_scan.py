"""A scan and its lease, by two clocks of the test: Unix time, which may leap, and a steady one."""

from __future__ import annotations

import pytest

from headgate.agent.errors import Fenced
from headgate.agent.ports import Extent
from headgate.agent.scans.held_scan import HeldScan
from headgate.agent.state.sealed import Owner

ME = Owner("agent", "1", "here:1")
LEASE = 9.0
NOW = 1_700_000_000.0


class Scan:
    table = "t"

    def __init__(self) -> None:
        self.outgrown = False
        self.at = NOW + 100
        self.did: list[object] = []

    def due(self) -> float:
        return self.at

    def tick(self, now: float) -> None:
        self.did.append(now)

    def use(self, extent: Extent, now: float) -> None:
        self.did.append(extent)


class Leases:
    def __init__(self) -> None:
        self.extent: Extent | None = Extent(10.0)
        self.renewed: list[float] = []
        self.fenced = False

    def renew(self, table: str, epoch: int, owner: Owner, now: float, seconds: float) -> None:
        assert (table, epoch, owner, seconds) == ("t", 7, ME, LEASE)
        if self.fenced:
            raise Fenced(table, epoch)
        self.renewed.append(now)

    def wanted(self, table: str) -> Extent | None:
        return self.extent


@pytest.fixture
def scan() -> Scan:
    return Scan()


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def held(scan: Scan, leases: Leases) -> HeldScan[Scan]:
    return HeldScan(scan, 7, leases, ME, LEASE, steady=0.0)


def test_it_waits_for_whichever_is_first(scan: Scan, held: HeldScan[Scan]) -> None:
    assert held.patience(NOW, 0.0) == LEASE / 3
    assert held.patience(NOW, 2.0) == 1.0
    assert held.patience(NOW, 8.0) == 0.0
    scan.at = NOW + 0.5
    assert held.patience(NOW, 0.0) == 0.5
    assert held.patience(NOW + 1, 0.0) == 0.0


def test_what_comes_is_done_before_what_is_due(scan: Scan, held: HeldScan[Scan]) -> None:
    assert held.turn(lambda one, now: one.did.append(("work", now)), NOW, 1.0)
    assert scan.did == [("work", NOW), NOW]


def test_the_lease_is_renewed_each_third_of_it_and_what_is_wanted_is_looked_at(
    scan: Scan, leases: Leases, held: HeldScan[Scan]
) -> None:
    for steady in (0.0, 2.9, 3.0, 5.9, 6.0):
        assert held.turn(None, NOW + steady, steady)
    assert leases.renewed == [NOW + 3.0, NOW + 6.0]
    assert scan.did.count(Extent(10.0)) == 2
    leases.extent = Extent(5.0)
    assert held.turn(None, NOW + 9, 9.0)
    assert scan.did[-1] == Extent(5.0)


def test_a_clock_that_leaps_renews_no_lease_too_late(leases: Leases, held: HeldScan[Scan]) -> None:
    assert held.turn(None, NOW - 3600, 3.0)
    assert leases.renewed == [NOW - 3600]
    assert held.turn(None, NOW + 3600, 4.0)
    assert len(leases.renewed) == 1
    assert held.patience(NOW - 3600, 5.0) == 1.0


def test_it_ends_where_nobody_wants_it_any_more(
    scan: Scan, leases: Leases, held: HeldScan[Scan]
) -> None:
    leases.extent = None
    assert not held.turn(None, NOW, 3.0)
    assert None not in scan.did


def test_it_ends_where_the_topic_has_grown(
    scan: Scan, leases: Leases, held: HeldScan[Scan]
) -> None:
    def grown(one: Scan, _: float) -> None:
        one.outgrown = True

    assert not held.turn(grown, NOW, 3.0)
    assert scan.did == []
    assert leases.renewed == []


def test_where_another_agent_has_the_lease_that_is_raised(
    leases: Leases, held: HeldScan[Scan]
) -> None:
    leases.fenced = True
    with pytest.raises(Fenced):
        held.turn(None, NOW, 3.0)
