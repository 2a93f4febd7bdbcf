"""The origin and the time to live in a request's attributes."""

from __future__ import annotations

from typing import Final

from headgate.events import NO_TTL, ORIGIN_ATTRIBUTE, Origin, decode_origin
from headgate.wire import STRING, Cursor, MalformedMessage

_NOBODY: Final[tuple[Origin | None, ...]] = ()

_TTL_ATTRIBUTE: Final = b"_ttl"
"""HBase's ``Mutation.OP_ATTRIBUTE_TTL``: 8 bytes, big-endian, in ms."""
_TTL_BYTES: Final = 8
_NO_END: Final = 2**63 - 1
"""Time to live, in ms, that HBase itself treats as none."""


def read_attributes(cursor: Cursor) -> tuple[bytes | None, int]:
    """Return what a map of attributes says, which the cursor stands before.

    That is the origin, still encoded, None where there is none, and the time to live in ms, or
    ``NO_TTL``. HBase refuses a time to live of less than 8 bytes, with an error that may come after
    an effect.

    Raises:
        MalformedMessage: the map makes no sense, or holds anything but strings, which HBase takes
            what is there for, whatever the map says.
    """
    keys, values, count = cursor.map_head()
    if count and (keys != STRING or values != STRING):
        raise MalformedMessage(f"a map of attributes has entries of types {keys} and {values}")
    origin: bytes | None = None
    ttl = NO_TTL
    for _ in range(count):
        key = cursor.binary()
        value = cursor.binary()
        if key == ORIGIN_ATTRIBUTE:
            origin = value
        elif key == _TTL_ATTRIBUTE and len(value) >= _TTL_BYTES:
            given = int.from_bytes(value[:_TTL_BYTES], "big", signed=True)
            ttl = NO_TTL if given == _NO_END else max(given, 0)
    return origin, ttl


def note_origin(found: list[bytes | None], origin: bytes | None) -> None:
    """Add a part's origin, still encoded, to the different ones of a request."""
    if origin not in found:
        found.append(origin)


def understood(found: list[bytes | None]) -> tuple[tuple[Origin | None, ...], str]:
    """Return the different origins of a request's parts, and why one cannot be read.

    None is among them for parts that name none, or one that cannot be read. There is nothing where
    no part names any.
    """
    if found == [None] or not found:
        return _NOBODY, ""
    origins: list[Origin | None] = []
    problem = ""
    for each in found:
        origin: Origin | None = None
        if each is not None:
            try:
                origin = decode_origin(each)
            except ValueError as error:
                problem = problem or str(error)
        if origin not in origins:
            origins.append(origin)
    return tuple(origins), problem
