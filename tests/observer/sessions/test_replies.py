"""Replies that are remembered, since they come again."""

from __future__ import annotations

from scene import OK, reply

from headgate.observer.sessions.replies import KnownReplies
from headgate.wire import MessageReader, Transport


def remember(known: KnownReplies, raw: bytes) -> None:
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(raw)
    message = reader.next_message()
    assert message is not None
    known.remember(message)


def test_no_more_are_kept_than_there_are_kinds() -> None:
    known = KnownReplies()
    replies = [OK, *(reply(f"method{number:03}") for number in range(300))]
    for each in replies:
        remember(known, each)
    assert len(known) == 256
    assert known.find(OK) is not None
    assert known.find(replies[-1]) is None
