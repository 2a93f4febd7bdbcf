"""A process that was stopped for longer than its lease looks at the time before it looks at bytes.

Agents have given it up meanwhile: watches have taken effect that it has not heard of.
"""

from __future__ import annotations

import pytest
from scene import OK, Scene, get, put

from headgate.events import Outcome


@pytest.fixture
def serving(scene: Scene) -> Scene:
    """One that is to be heard again before the clock shows 110."""
    scene.control.trusted_until = 110.0
    return scene


@pytest.mark.parametrize("known", [0, 5])
def test_writes_that_waited_meanwhile_are_journalled_whatever_their_table(
    serving: Scene, known: int
) -> None:
    """A kind of request that is known goes another way than the first of its kind."""
    session, _, upstream = serving.connect()
    for number in range(known):
        session.data_received(put(b"r%d" % number, b"new"))
        session.reply_received(OK)
    assert serving.journal.next_intent == 0
    serving.now = 110.1
    session.data_received(put(b"r8", b"new") + put(b"r9", b"new"))
    assert serving.journal.next_intent == 2
    session.data_received(put(b"r10", b"new"))
    assert serving.journal.next_intent == 3
    upstream.taken()


def test_writes_of_watched_tables_and_reads_go_on_as_ever(serving: Scene) -> None:
    session, _, upstream = serving.connect()
    serving.now = 110.1
    session.data_received(get(b"r", b"new"))
    assert upstream.taken() == get(b"r", b"new")
    assert serving.journal.next_intent == 0
    other, _, _ = serving.connect()
    other.data_received(put(b"r"))
    other.reply_received(OK)
    assert serving.outcomes() == [(b"r", Outcome.APPLIED)]
