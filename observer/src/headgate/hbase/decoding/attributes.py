"""The origins in a request's attributes."""

from __future__ import annotations

from typing import Final

from headgate.events import ORIGIN_ATTRIBUTE, Origin, decode_origin
from headgate.wire import STRING, Cursor, MalformedMessage

_NOBODY: Final[tuple[Origin | None, ...]] = ()


def read_origin(cursor: Cursor) -> bytes | None:
    """Return the origin, still encoded, of a map of attributes that the cursor stands before.

    Raises:
        MalformedMessage: the map makes no sense, or holds anything but strings, which HBase takes
            what is there for, whatever the map says.
    """
    keys, values, count = cursor.map_head()
    if count and (keys != STRING or values != STRING):
        raise MalformedMessage(f"a map of attributes has entries of types {keys} and {values}")
    origin: bytes | None = None
    for _ in range(count):
        key = cursor.binary()
        value = cursor.binary()
        if key == ORIGIN_ATTRIBUTE:
            origin = value
    return origin


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
