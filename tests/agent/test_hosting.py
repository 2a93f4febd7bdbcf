"""The way into a dataflow's thread."""

from __future__ import annotations

import pytest

from headgate.agent.hosting import Hosted
from headgate.agent.runtime import Runtime


def test_a_feed_that_finds_no_room_is_told_so_instead_of_waiting_for_ever() -> None:
    def build(_: Hosted) -> Runtime:
        pytest.fail("its thread was not begun, so nothing may make room")

    hosted = Hosted("flow", 1, build, lambda *_: None)
    taken = 0
    while hosted.deliver([]):
        taken += 1
    assert taken > 0
