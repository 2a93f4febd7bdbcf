"""Observers in front of each other: a request that they pass on would go in a circle for ever.

As HTTP proxies do with the header ``Via``, each observer adds its mark to the calls by which
observers look at their upstreams: an argument that HBase's Thrift servers do not know and skip. An
observer that finds its own mark answers in words that name the way. Whoever asked sends no client
there until another check shows that the circle is gone.
"""

from __future__ import annotations

from typing import Final

from headgate.wire import (
    STRING,
    ApplicationError,
    Cursor,
    Message,
    ProtocolError,
    StructWriter,
    Transport,
    to_binary,
    transcode,
    write_exception,
    write_message,
)

CHECKS: Final = frozenset({"getThriftServerType", "getTableNames", "listNamespaceDescriptors"})
"""Calls without arguments by which observers look at their upstreams."""
_VIA: Final = 18503
"""Field of the arguments that holds the marks: HBase's calls have no field of that number."""
_LONGEST: Final = 16
"""Observers behind each other, above which a way counts as a circle."""
_BEGIN: Final = "headgate: observers pass this request on in a circle: "
_END: Final = "; name HBase's Thrift server as upstream of each"


class Circle(ConnectionError):
    """The way to an upstream leads through the same observer again; the message names it."""


def arguments(way: tuple[str, ...]) -> bytes:
    """Return the arguments, in binary, of a call that has passed these observers."""
    writer = StructWriter()
    return writer.binary(_VIA, " ".join(way).encode()).end() if way else writer.end()


def way_of(call: Message) -> tuple[str, ...]:
    """Return the marks of the observers that a call without other arguments has passed."""
    try:
        call = to_binary(call)
        cursor = Cursor(call.raw, call.body)
        if cursor.next_field() != STRING or cursor.field_id != _VIA:
            return ()
        return tuple(cursor.binary().decode().split())
    except (ProtocolError, UnicodeDecodeError):
        return ()


def is_circle(way: tuple[str, ...], mark: str) -> bool:
    """Return whether a call has passed the observer with the mark before, or too many."""
    return mark in way or len(way) >= _LONGEST


def passed_on(call: Message, way: tuple[str, ...]) -> Message:
    """Return a call as it goes on after these observers."""
    body = arguments(way)
    raw = write_message(Transport.BUFFERED, call.name, call.type, call.seqid, body)
    start = len(raw) - len(body)
    message = Message(raw, start, call.name, call.type, call.seqid, Transport.BUFFERED)
    return transcode(message, call.protocol, call.transport)


def circle_reply(call: Message, way: tuple[str, ...]) -> bytes:
    """Return the answer to a call whose way is a circle."""
    return write_exception(call, ApplicationError.INTERNAL_ERROR, circle_text(" -> ".join(way)))


def circle_text(way: str) -> str:
    """Return in words that a way is a circle, and what to do."""
    return f"{_BEGIN}{way}{_END}"


def circle_in(reply: Message) -> str:
    """Return the way that an answer calls a circle; empty if it says nothing of the kind."""
    raw, begin, end = reply.raw, _BEGIN.encode(), _END.encode()
    at = raw.find(begin, reply.body)
    if at < 0:
        return ""
    return raw[at + len(begin) : max(0, raw.find(end, at))].decode("utf-8", "backslashreplace")
