"""Places on an agent go by priority, then by the time waited."""

from __future__ import annotations

from collections.abc import Callable

from simulation import World

from headgate.agent.launchers.admission import Admission


class Flow:
    def __init__(self, admission: Admission, name: str, priority: int = 0) -> None:
        self.admission = admission
        self.name = name
        self.priority = priority
        self.woken = 0

    def take(self) -> bool:
        return self.admission.take(self.name, self.priority, self._wake)

    def _wake(self) -> None:
        self.woken += 1


def test_no_more_attempts_than_places() -> None:
    admission = Admission(2)
    one = Flow(admission, "one")
    assert [one.take(), one.take(), one.take()] == [True, True, False]
    admission.give()
    assert one.woken == 1
    assert one.take()


def test_the_higher_priority_goes_first_though_it_came_later() -> None:
    admission = Admission(1)
    holder, low, high = Flow(admission, "h"), Flow(admission, "low"), Flow(admission, "high", 5)
    assert holder.take()
    assert not low.take()
    assert not high.take()
    admission.give()
    assert (low.woken, high.woken) == (0, 1)
    assert not low.take()
    assert high.take()
    admission.give()
    assert low.woken == 1
    assert low.take()


def test_equals_go_in_the_order_in_which_they_came() -> None:
    admission = Admission(1)
    first, second = Flow(admission, "first"), Flow(admission, "second")
    assert first.take()
    assert not second.take()
    assert not first.take()
    admission.give()
    assert (first.woken, second.woken) == (0, 1)
    assert second.take()


def test_whoever_leaves_lets_the_next_one_in() -> None:
    admission = Admission(1)
    holder, first, second = (Flow(admission, name) for name in ("holder", "first", "second"))
    assert holder.take()
    assert not first.take()
    assert not second.take()
    admission.give()
    assert (first.woken, second.woken) == (1, 0)
    admission.leave("first")
    assert second.woken == 1
    assert second.take()


def test_what_was_under_way_before_a_restart_counts_beyond_the_limit() -> None:
    admission = Admission(1)
    one = Flow(admission, "one")
    admission.take_anyway()
    admission.take_anyway()
    assert not one.take()
    admission.give()
    assert one.woken == 0
    admission.give()
    assert one.woken == 1
    assert one.take()


def test_an_attempt_waits_for_its_turn_and_says_so(make_world: Callable[..., World]) -> None:
    world = make_world()
    agent = world.start_agent()
    places = agent.admission
    while places.take("another", 0, lambda: None):
        pass
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now))
    for _ in range(200):
        world.step()
    assert "waits for its turn" in agent.words()
    assert world.commits == []
    places.leave("another")
    places.give()
    world.run(lambda: bool(world.commits))
    assert "waits for its turn" not in agent.words()
