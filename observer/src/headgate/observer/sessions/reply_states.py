"""States of one connection's replies, and the tables by which they change.

HBase answers the requests of a connection in the order in which they came. Reply bytes go back to
the client as they come, and most of them are never parsed. The observer must still know which bytes
answer a watched write, and where a reply of its own may stand. Three machines keep that knowledge:

1. The stream (``STREAM``): can the next bytes be matched to a request?
2. The passage (``PASSAGE``): do replies go back unparsed, parsed, or one whole reply at a time?
3. Each exchange (``EXCHANGE``): has its reply begun, and how did it end?

An event may move several of them. A pair of state and event that has no entry cannot occur; looking
it up raises ``KeyError``. All states and all transitions stand in this file, ``Pipeline`` applies
them. Two facts are numbers rather than states, and stay with the pipeline: how many bytes of an
unparsed frame are still to come, and how many bytes of a reply went back before replies had to be
whole.

When the order of replies is certain
====================================

A buffered transport puts no length before a message. The stream is ``IN_SYNC`` while every earlier
reply is known to be over: the next byte then begins the reply to the oldest request. Parsing a
reply finds its end, and keeps the stream in sync. A reply that goes back unparsed makes the stream
``REPLY_OPEN``: its beginning is known, its end is not.

The client's next request suggests that the client has read the whole reply. A client that sends
ahead has not, so this is an assumption, and the stream is ``ASSUMED`` from then on. Any bytes may
now belong to an older reply. Parsing cannot correct that: a reply contains stored values, and a
stored value may look like any reply.

Why a marked call restores it
=============================

A marked call carries a random sequence number in place of the client's (see ``ResyncMark``). HBase
repeats it in the reply. Only this connection knows the number, so no stored value contains it, and
bytes that do are the reply to the marked call. All earlier replies end before it. The stream is
``RESYNCING`` from the marked call until its reply is found, and in sync afterwards.

A watched write is marked wherever the stream is not in sync, because its outcome is published.
Something else may have to wait for the end of a reply: a barrier, a reply of the observer's own,
the end of the connection. Then the observer makes a marked call of its own.

What framed transports change
=============================

A frame gives the length of its message, so the end of a reply is always known. A ``FRAMED`` stream
assumes nothing and needs no mark. Its replies still have to be parsed where an outcome matters.
When bytes contradict the lengths, nothing can restore the order, since a mark is only found within
frames. The stream is ``UNTRACKED`` until the connection ends: bytes are passed on, and later writes
end as unknown.
"""

from __future__ import annotations

from typing import Final, final


@final
class Event:
    """Something that happens to the replies of a connection."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


REPLY_BEGAN: Final = Event("REPLY_BEGAN")
"""First bytes of the oldest request's reply came and were not parsed: HBase has done it."""
REPLY_READ: Final = Event("REPLY_READ")
"""The oldest request's reply is whole."""
EXCEPTION_READ: Final = Event("EXCEPTION_READ")
"""The oldest request's reply is whole, and a Thrift exception."""
REPLY_ASSUMED: Final = Event("REPLY_ASSUMED")
"""A reply that had begun is taken for whole, because the client sent its next request."""
REQUEST_AHEAD: Final = Event("REQUEST_AHEAD")
"""A request was forwarded although the reply before it is known not to be whole."""
REPLY_PENDING: Final = Event("REPLY_PENDING")
"""A reply that has to be parsed is not whole yet."""
OWN_REPLY_DUE: Final = Event("OWN_REPLY_DUE")
"""A reply of the observer's own waits for its turn, or one to its own call must be kept back."""
END_DUE: Final = Event("END_DUE")
"""The connection is to be closed as soon as nothing is in flight."""
ALL_ANSWERED: Final = Event("ALL_ANSWERED")
"""Nothing is in flight any more."""
CALL_MARKED: Final = Event("CALL_MARKED")
"""A call was forwarded with the number that marks its reply."""
MARK_FOUND: Final = Event("MARK_FOUND")
"""The reply to the marked call began: every earlier reply is over."""
MARK_LOST: Final = Event("MARK_LOST")
"""The marked call was not sent after all, or its reply cannot come any more."""
FRAMES_SEEN: Final = Event("FRAMES_SEEN")
"""The client's first request came in a frame: so will the replies."""
STRAY_BYTES: Final = Event("STRAY_BYTES")
"""Bytes came from HBase while nothing was in flight."""
TRACK_LOST: Final = Event("TRACK_LOST")
"""Bytes are not the reply that was due, or are no reply at all."""
CONNECTION_LOST: Final = Event("CONNECTION_LOST")
"""The connection to HBase is over: no more bytes come."""


@final
class StreamState:
    """A state of the reply stream: whether the next bytes can be matched to a request.

    Attributes:
        earlier_over: True if all replies before that to the oldest request are known to be over.
        needs_mark: True if only a marked call can show where the next reply begins.
        after: the next state for each event that can occur.
    """

    __slots__ = ("after", "earlier_over", "name", "needs_mark")

    def __init__(self, name: str, *, earlier_over: bool, needs_mark: bool) -> None:
        self.name = name
        self.earlier_over = earlier_over
        self.needs_mark = needs_mark
        self.after: dict[Event, StreamState] = {}

    def __repr__(self) -> str:
        return self.name


IN_SYNC: Final = StreamState("IN_SYNC", earlier_over=True, needs_mark=False)
"""Every reply can be matched to its request: the next byte begins the oldest request's reply."""
REPLY_OPEN: Final = StreamState("REPLY_OPEN", earlier_over=True, needs_mark=True)
"""The oldest request's reply goes back unparsed, so its end is not known."""
ASSUMED: Final = StreamState("ASSUMED", earlier_over=False, needs_mark=True)
"""A reply was taken for whole: the next bytes may belong to it, or to a later one."""
RESYNCING: Final = StreamState("RESYNCING", earlier_over=False, needs_mark=False)
"""A marked call is in flight; its reply puts the stream in sync."""
FRAMED: Final = StreamState("FRAMED", earlier_over=True, needs_mark=False)
"""Each reply comes with its length."""
UNTRACKED: Final = StreamState("UNTRACKED", earlier_over=True, needs_mark=False)
"""Lengths were contradicted: no reply can be matched, and no request is kept in flight."""

STREAM: Final[dict[StreamState, dict[Event, StreamState]]] = {
    IN_SYNC: {
        REPLY_BEGAN: REPLY_OPEN,
        CALL_MARKED: RESYNCING,
        MARK_LOST: ASSUMED,
        FRAMES_SEEN: FRAMED,
        STRAY_BYTES: ASSUMED,
        TRACK_LOST: ASSUMED,
    },
    REPLY_OPEN: {
        REPLY_ASSUMED: ASSUMED,
        MARK_LOST: ASSUMED,
    },
    ASSUMED: {
        REPLY_BEGAN: ASSUMED,
        REPLY_ASSUMED: ASSUMED,
        CALL_MARKED: RESYNCING,
        MARK_LOST: ASSUMED,
        FRAMES_SEEN: FRAMED,
        STRAY_BYTES: ASSUMED,
        TRACK_LOST: ASSUMED,
    },
    RESYNCING: {
        MARK_FOUND: IN_SYNC,
        MARK_LOST: ASSUMED,
    },
    FRAMED: {
        REPLY_BEGAN: FRAMED,
        REPLY_ASSUMED: FRAMED,
        STRAY_BYTES: FRAMED,
        TRACK_LOST: UNTRACKED,
    },
    UNTRACKED: {
        STRAY_BYTES: UNTRACKED,
    },
}


@final
class PassageState:
    """A state of the passage: how the bytes of replies go back to the client."""

    __slots__ = ("after", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.after: dict[Event, PassageState] = {}

    def __repr__(self) -> str:
        return self.name


AT_ONCE: Final = PassageState("AT_ONCE")
"""Bytes go back as they come. At most one request is in flight, and no part of a reply is kept."""
PARSED: Final = PassageState("PARSED")
"""Bytes go back as they come, and are parsed."""
WHOLE: Final = PassageState("WHOLE")
"""Replies are parsed, and each goes back when it is whole."""

PASSAGE: Final[dict[PassageState, dict[Event, PassageState]]] = {
    AT_ONCE: {
        REQUEST_AHEAD: PARSED,
        REPLY_PENDING: PARSED,
        END_DUE: PARSED,
        OWN_REPLY_DUE: WHOLE,
        ALL_ANSWERED: AT_ONCE,
        TRACK_LOST: AT_ONCE,
    },
    PARSED: {
        REPLY_PENDING: PARSED,
        END_DUE: PARSED,
        OWN_REPLY_DUE: WHOLE,
        ALL_ANSWERED: AT_ONCE,
        TRACK_LOST: AT_ONCE,
    },
    # TRACK_LOST is missing: nobody knows where a reply of our own may stand, so the connection is
    # broken instead.
    WHOLE: {
        REPLY_PENDING: WHOLE,
        END_DUE: WHOLE,
        OWN_REPLY_DUE: WHOLE,
        ALL_ANSWERED: AT_ONCE,
    },
}


@final
class ExchangeState:
    """A state of one request and its reply; the name of a last state is the counted outcome."""

    __slots__ = ("after", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.after: dict[Event, ExchangeState] = {}

    def __repr__(self) -> str:
        return self.name


WAITING: Final = ExchangeState("waiting")
"""No bytes of the reply are known to have come."""
BEGUN: Final = ExchangeState("begun")
"""Bytes of the reply have come: HBase has done the request, and the client has an answer."""
ANSWERED: Final = ExchangeState("answered")
EXCEPTION: Final = ExchangeState("exception")
BROKEN: Final = ExchangeState("broken")
"""The connection ended first."""
UNKNOWN: Final = ExchangeState("untracked")
"""The reply could not be matched any more."""

EXCHANGE: Final[dict[ExchangeState, dict[Event, ExchangeState]]] = {
    WAITING: {
        REPLY_BEGAN: BEGUN,
        REPLY_READ: ANSWERED,
        EXCEPTION_READ: EXCEPTION,
        MARK_FOUND: ANSWERED,
        TRACK_LOST: UNKNOWN,
        CONNECTION_LOST: BROKEN,
    },
    BEGUN: {
        REPLY_READ: ANSWERED,
        EXCEPTION_READ: EXCEPTION,
        REPLY_ASSUMED: ANSWERED,
        MARK_FOUND: ANSWERED,
        TRACK_LOST: ANSWERED,
        CONNECTION_LOST: ANSWERED,
    },
    ANSWERED: {},
    EXCEPTION: {},
    BROKEN: {},
    UNKNOWN: {},
}

for _stream, _next_stream in STREAM.items():
    _stream.after = _next_stream
for _passage, _next_passage in PASSAGE.items():
    _passage.after = _next_passage
for _exchange, _next_exchange in EXCHANGE.items():
    _exchange.after = _next_exchange
