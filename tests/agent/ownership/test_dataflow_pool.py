"""Turns of many members on few threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headgate.agent.ownership.dataflow_pool import DataflowPool, Place
from headgate.agent.supervision import Supervision

WAIT = 30.0
FAR = 1e6
TURNED = threading.Condition()
"""Notified when a member begins and ends a turn."""


@pytest.fixture
def make() -> Iterator[Callable[[int], DataflowPool]]:
    pools: list[DataflowPool] = []

    def made(threads: int) -> DataflowPool:
        pools.append(DataflowPool(threads, Supervision(lambda _: None)))
        return pools[-1]

    yield made
    for pool in pools:
        pool.close()


class Counting:
    """A member that counts its turns, and notices when two of them overlap."""

    def __init__(self, pool: DataflowPool, wait: Callable[[], object] = lambda: None) -> None:
        self.wait = wait
        self.asked = 0
        """How often it was woken."""
        self.seen = 0
        """How often it had been woken when its newest turn began."""
        self.turns = 0
        self.overlapped = False
        self.due = FAR
        """Seconds from the end of a turn to the next."""
        self._alone = threading.Lock()
        self._pool = pool
        self._place = Place(self)

    def wake(self) -> None:
        self.asked += 1
        self._pool.wake(self._place)

    def turn(self) -> float | None:
        if not self._alone.acquire(blocking=False):
            self.overlapped = True
            return None
        self.seen = self.asked
        self.turns += 1
        with TURNED:
            TURNED.notify_all()
        self.wait()
        self._alone.release()
        with TURNED:
            TURNED.notify_all()
        return time.monotonic() + self.due


def until(what: Callable[[], bool]) -> None:
    with TURNED:
        assert TURNED.wait_for(what, WAIT)


@pytest.mark.parametrize("seed", range(5))
def test_each_member_has_a_turn_after_it_was_woken_and_never_two_at_once(
    make: Callable[[int], DataflowPool], seed: int
) -> None:
    chance = random.Random(seed)
    pool = make(chance.choice([1, 2, 5]))
    lengths = [0, 0, 500]
    members = [
        Counting(pool, lambda: sum(range(chance.choice(lengths))))
        for _ in range(chance.randint(1, 30))
    ]

    def wake_some(own: random.Random) -> None:
        for _ in range(300):
            own.choice(members).wake()

    callers = [
        threading.Thread(target=wake_some, args=(random.Random(f"{seed} {n}"),)) for n in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for member in members:
        member.wake()
    until(lambda: all(member.seen == member.asked for member in members))
    assert not any(member.overlapped for member in members)


def test_a_member_that_is_due_has_its_turn_by_itself(make: Callable[[int], DataflowPool]) -> None:
    pool = make(3)
    members = [Counting(pool) for _ in range(20)]
    for number, member in enumerate(members):
        member.due = 0.001 * (number + 1)
        member.wake()
    until(lambda: all(member.turns > 5 for member in members))
    for member in members:
        member.due = FAR


def test_a_turn_that_is_due_earlier_than_it_was_comes_earlier(
    make: Callable[[int], DataflowPool],
) -> None:
    pool = make(2)
    later, sooner = Counting(pool), Counting(pool)
    later.due, sooner.due = 600.0, 600.0
    later.wake()
    sooner.wake()
    until(lambda: later.turns == sooner.turns == 1)
    sooner.due = 0.01
    sooner.wake()
    until(lambda: sooner.turns > 3)
    assert later.turns == 1


def test_members_that_wait_hold_up_nobody_below_the_number_of_threads(
    make: Callable[[int], DataflowPool],
) -> None:
    pool, free = make(4), threading.Event()
    waiting = [Counting(pool, lambda: free.wait(WAIT)) for _ in range(3)]
    for member in waiting:
        member.wake()
    until(lambda: all(member.turns for member in waiting))
    others = [Counting(pool) for _ in range(50)]
    for member in others:
        member.due = 0.001
        member.wake()
    until(lambda: all(member.turns > 2 for member in others))
    assert pool.threads == 4
    free.set()


def test_no_more_threads_are_started_than_there_may_be(make: Callable[[int], DataflowPool]) -> None:
    pool, free = make(2), threading.Event()
    members = [Counting(pool, lambda: free.wait(WAIT)) for _ in range(10)]
    for member in members:
        member.wake()
    until(lambda: sum(member.turns for member in members) == 2)
    assert pool.threads == 2
    free.set()
    until(lambda: all(member.turns for member in members))


def test_a_member_that_has_ended_has_no_turn_any_more(make: Callable[[int], DataflowPool]) -> None:
    pool = make(2)

    class Last:
        turns = 0

        def turn(self) -> float | None:
            self.turns += 1
            with TURNED:
                TURNED.notify_all()
            return None

    last, other = Last(), Counting(pool)
    place = Place(last)
    pool.wake(place)
    until(lambda: last.turns == 1)
    pool.wake(place)
    other.wake()
    until(lambda: other.turns == 1)
    assert last.turns == 1
