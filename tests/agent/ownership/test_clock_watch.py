"""Whoever waits by the clock learns that it was set."""

from __future__ import annotations

from headgate.agent.ownership.clock_watch import ClockWatch


class Clocks:
    clock = 1_000_000.0
    even = 50.0

    def pass_time(self, seconds: float) -> None:
        self.clock += seconds
        self.even += seconds


def watched() -> tuple[Clocks, ClockWatch]:
    clocks = Clocks()
    return clocks, ClockWatch(lambda: clocks.clock, lambda: clocks.even)


def test_time_that_passes_is_no_leap() -> None:
    clocks, watch = watched()
    clocks.pass_time(86_400)
    assert watch.leap() == 0


def test_a_leap_is_told_once_in_either_direction() -> None:
    clocks, watch = watched()
    for by in (3600.0, -86_400.0):
        clocks.pass_time(7)
        clocks.clock += by
        assert watch.leap() == by
        assert watch.leap() == 0


def test_drift_is_told_when_it_has_become_much() -> None:
    clocks, watch = watched()
    found = []
    for _ in range(30):
        clocks.clock += 0.1
        found.append(watch.leap())
    assert 2 <= sum(found) <= 3
    assert all(leap == 0 or leap >= 1 for leap in found)
