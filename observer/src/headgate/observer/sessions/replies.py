"""Replies like earlier ones: most watched writes are answered with the same few bytes."""

from __future__ import annotations

from typing import Final, final

from headgate.wire import Layout, Limits, Message, layout_of

REPLY_LIMITS: Final = Limits(
    # HBase is trusted to answer what was asked, however large.
    max_frame=(1 << 31) - 1,
    max_string=(1 << 31) - 1,
    max_container=(1 << 31) - 1,
    max_depth=64,
)

_SHORT: Final = 64
"""Bytes of a reply that is kept."""
_FLAG: Final = 5
"""Bytes of the struct in one: a void method's, or a flag. What says a value, or what went wrong,
rarely comes again, and would take all places for good."""
_MOST: Final = 256
"""There are 23 methods that write, in two transports, with two flags."""
_EVERY_STRING: Final = 1 << 16


@final
class KnownReplies:
    """Short replies in strict binary that were walked before; only the sequence number may differ.

    HBase's own clients count it up, so that no two replies to them are the same.
    """

    __slots__ = ("_by_length", "_count")

    def __init__(self) -> None:
        """Begin with none."""
        self._by_length: list[list[tuple[Layout, Message]]] = [[] for _ in range(_SHORT + 1)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def remember(self, reply: Message) -> None:
        """Keep a reply that is likely to come again."""
        length = len(reply.raw)
        if length > _SHORT or length - reply.body > _FLAG or self._count >= _MOST:
            return
        if self.find(reply.raw) is not None:
            return
        layout = layout_of(reply, fixed=_EVERY_STRING, numbers=False)
        if layout is not None:
            self._count += 1
            self._by_length[length].append((layout, reply))

    def find(self, data: bytes) -> Message | None:
        """Return a reply that says the same as these bytes, if they are all of one."""
        if len(data) <= _SHORT:
            for layout, reply in self._by_length[len(data)]:
                if layout.fits(data):
                    return reply
        return None
