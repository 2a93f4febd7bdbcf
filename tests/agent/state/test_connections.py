"""Calls of HBase: an outage is waited for, a refusal for good is an error, and health follows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.agent.errors import HBaseRefused, Unreachable
from headgate.agent.state.rows import HBaseConnections
from headgate.client import ConnectionFailed, RequestRefused

AWAY = "away"
LATER = "later"
NEVER = "never"
UNSAID = "unsaid"
DONE = "done"


def outcome(kind: str) -> str:
    """Do what a server does of this kind."""
    if kind == AWAY:
        raise ConnectionFailed("nobody is there")
    if kind != DONE:
        may_pass = {LATER: True, NEVER: False, UNSAID: None}[kind]
        raise RequestRefused(kind, kind, may_pass=may_pass)
    return DONE


class World:
    """HBase's Thrift server with a script, a clock that waits alone move, and the connections."""

    def __init__(self) -> None:
        self.now = 0.0
        self.open = 0
        self.stopping = False
        self.between: Callable[[], None] = lambda: None
        """Called in each wait: what other calls do meanwhile."""
        self.connections = HBaseConnections(
            "::1",
            1,
            cast("threading.Event", self),
            connect=cast("Any", self.connect),
            clock=lambda: self.now,
        )

    def connect(self, _host: str, _port: int, _seconds: float) -> Any:
        self.open += 1
        return self

    def close(self) -> None:
        self.open -= 1

    def wait(self, seconds: float) -> bool:
        """Stand for the event that is set when the agent stops."""
        self.now += seconds
        self.between()
        return self.stopping

    def ask(self, kinds: Iterator[str], patience: float | None = None) -> str:
        return self.connections.call(lambda _: outcome(next(kinds)), patience)


scripts = st.lists(st.sampled_from([AWAY, LATER, NEVER, UNSAID, DONE]), max_size=30)


@given(scripts)
def test_a_call_ends_at_the_first_answer_that_repetition_cannot_change(script: list[str]) -> None:
    world = World()
    ends = next((kind for kind in script if kind in (NEVER, DONE)), DONE)
    seen: list[str] = []

    def played() -> Iterator[str]:
        for kind in [*script, DONE]:
            seen.append(kind)
            yield kind

    try:
        assert world.ask(played()) == DONE
    except HBaseRefused:
        assert ends == NEVER or (seen[-1] == UNSAID and world.now >= 10)
    else:
        assert ends == DONE
    assert world.connections.trouble is None


def test_a_call_that_meets_internal_errors_alone_ends_as_an_error() -> None:
    world = World()
    with pytest.raises(HBaseRefused, match="unsaid"):
        world.ask(iter(lambda: UNSAID, ""))
    assert 10 <= world.now < 15


@given(st.sampled_from([AWAY, LATER]), st.integers(1, 40))
def test_an_outage_is_waited_for_and_shown_until_it_is_over(kind: str, times: int) -> None:
    world = World()
    shown: list[str | None] = []
    world.between = lambda: shown.append(world.connections.trouble)
    assert world.ask(iter([kind] * times + [DONE])) == DONE
    assert len(shown) == times
    assert None not in shown
    assert world.connections.trouble is None


@given(st.sampled_from([AWAY, LATER, UNSAID]), st.floats(1, 60))
def test_one_call_that_fails_beside_others_that_succeed_is_no_outage(
    kind: str, patience: float
) -> None:
    world = World()
    shown: list[str | None] = []

    def another() -> None:
        world.between = lambda: None
        assert world.ask(iter([DONE])) == DONE
        shown.append(world.connections.trouble)
        world.between = another

    world.between = another
    with pytest.raises((Unreachable, HBaseRefused)):
        world.ask(iter(lambda: kind, ""), patience)
    assert set(shown) <= {None}
    assert world.connections.trouble is None


@pytest.mark.parametrize("kind", [AWAY, LATER, UNSAID])
def test_a_call_that_gave_up_leaves_no_trouble_behind(kind: str) -> None:
    world = World()
    with pytest.raises((Unreachable, HBaseRefused)):
        world.ask(iter(lambda: kind, ""), 3.0)
    assert world.connections.trouble is None


@pytest.mark.parametrize("kind", [AWAY, LATER, UNSAID])
def test_a_call_ends_that_nobody_waits_for_any_more(kind: str) -> None:
    world = World()
    with (
        world.connections.while_wanted(lambda: world.now > 5.0),
        pytest.raises(Unreachable, match="nobody waits"),
    ):
        world.ask(iter(lambda: kind, ""))
    assert world.now < 10
    assert world.ask(iter([DONE])) == DONE
    assert world.connections.trouble is None


@given(scripts)
def test_no_connection_is_lost_or_left_half_read(script: list[str]) -> None:
    world = World()
    for kind in script:
        with suppress(Unreachable, HBaseRefused):
            world.ask(iter([kind, DONE]), 0.0)
        if kind == AWAY:
            world.open = 0
    with pytest.raises(ZeroDivisionError):
        world.connections.call(lambda _: 1 // 0)
    world.connections.close()
    assert world.open == 0
