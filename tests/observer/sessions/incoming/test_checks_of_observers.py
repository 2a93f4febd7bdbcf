"""Checks by which other observers look at this one as their upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headgate.observer.upstreams.asking import PING
from headgate.observer.upstreams.circles import arguments, circle_in, way_of
from headgate.wire import MessageReader

if TYPE_CHECKING:
    from scene import Scene

MARK = "here#1"


@pytest.fixture(autouse=True)
def mark(scene: Scene) -> None:
    scene.endpoint.dialer.mark = MARK


def read(data: bytes):
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    return message


def test_a_check_goes_on_with_the_mark_of_this_observer(scene: Scene) -> None:
    from scene import call

    session, _, upstream = scene.connect()
    # The kind of a client's call that came often goes on unread, a check never does.
    for way in ((), (), (), ("other#2",), ("other#2",), ("other#2",)):
        session.data_received(call(PING, arguments(way)))
        assert way_of(read(upstream.taken())) == ((*way, MARK) if way else ())
        session.reply_received(_reply())


def test_a_check_that_was_here_before_is_answered_with_its_way(scene: Scene) -> None:
    from scene import call

    session, client, upstream = scene.connect()
    for _ in range(3):
        session.data_received(call(PING, arguments((MARK, "other#2"))))
        assert not upstream.taken()
        assert circle_in(read(client.taken())) == f"{MARK} -> other#2 -> {MARK}"


def _reply() -> bytes:
    from scene import reply

    return reply(PING)
