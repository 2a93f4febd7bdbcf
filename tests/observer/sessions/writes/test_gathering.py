"""When writes that gathered are decoded: while HBase has the next move, or a moment later."""

import pytest
from scene import OK, Scene, put

from headgate.events import Outcome


@pytest.fixture
def gathering(scene: Scene) -> Scene:
    """A scene whose writes gather, to which puts of one cell are known."""
    session, _, _ = scene.connect()
    for row in (b"k1", b"k2", b"k3"):
        session.data_received(put(row))
        session.reply_received(OK)
    assert len(scene.outcomes()) == 3
    scene.bench.producer.delivered.clear()
    scene.bench.timers.waiting.clear()
    scene.recorder._gather = 0.01
    return scene


def waits(scene: Scene) -> list[float]:
    return [seconds for seconds, _ in scene.bench.timers.waiting]


def test_what_has_gathered_is_decoded_when_the_next_request_is_forwarded(gathering: Scene) -> None:
    session, _, upstream = gathering.connect()
    session.data_received(put(b"r1"))
    session.reply_received(OK)
    assert waits(gathering) == [0.01]
    gathering.bench.timers.run()
    assert gathering.outcomes() == []
    upstream.taken()
    session.data_received(put(b"r2"))
    assert upstream.taken() == put(b"r2")
    assert gathering.outcomes() == [(b"r1", Outcome.APPLIED)]


def test_it_is_decoded_a_moment_later_if_no_request_comes(gathering: Scene) -> None:
    session, _, _ = gathering.connect()
    session.data_received(put(b"r1"))
    session.reply_received(OK)
    gathering.bench.timers.run()
    assert waits(gathering) == [0.001]
    gathering.bench.timers.run()
    assert gathering.outcomes() == [(b"r1", Outcome.APPLIED)]


def test_a_moment_that_passed_in_vain_decodes_nothing_of_what_gathers_next(
    gathering: Scene,
) -> None:
    session, _, _ = gathering.connect()
    session.data_received(put(b"r1"))
    session.reply_received(OK)
    gathering.bench.timers.run()
    session.data_received(put(b"r2"))  # which decodes the first
    session.reply_received(OK)
    calls = dict(gathering.bench.timers.waiting)
    calls[0.001]()
    assert gathering.outcomes() == [(b"r1", Outcome.APPLIED)]
    calls[0.01]()
    session.data_received(put(b"r3"))
    assert gathering.outcomes() == [(b"r1", Outcome.APPLIED), (b"r2", Outcome.APPLIED)]
