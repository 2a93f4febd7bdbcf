"""The origin in a request's attributes."""

from __future__ import annotations

from headgate.events import ORIGIN_ATTRIBUTE, Origin, decode_origin
from headgate.wire import STRING, Cursor


def read_origin(cursor: Cursor) -> bytes | None:
    """Return the origin, still encoded, of a map of attributes that the cursor stands before.

    Raises:
        MalformedMessage: the map makes no sense.
    """
    keys, values, count = cursor.map_head()
    origin: bytes | None = None
    for _ in range(count):
        if keys != STRING or values != STRING:
            cursor.skip(keys)
            cursor.skip(values)
            continue
        key = cursor.binary()
        value = cursor.binary()
        if key == ORIGIN_ATTRIBUTE:
            origin = value
    return origin


def understood(origin: bytes | None) -> tuple[Origin | None, str]:
    """Return the origin, and why it cannot be read where that is so."""
    if origin is None:
        return None, ""
    try:
        return decode_origin(origin), ""
    except ValueError as error:
        return None, str(error)
