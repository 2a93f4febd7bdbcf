"""The origin in a request's attributes."""

from __future__ import annotations

from headgate.events import ORIGIN_ATTRIBUTE, Origin, decode_origin
from headgate.wire import STRING, Cursor, MalformedMessage


def read_origin(cursor: Cursor) -> Origin | None:
    """Return the origin in a map of attributes, which the cursor stands before; None: it has none.

    Raises:
        MalformedMessage: the map makes no sense, or its origin was not written by headgate.
    """
    keys, values, count = cursor.map_head()
    origin: Origin | None = None
    for _ in range(count):
        if keys != STRING or values != STRING:
            cursor.skip(keys)
            cursor.skip(values)
            continue
        key = cursor.binary()
        value = cursor.binary()
        if key == ORIGIN_ATTRIBUTE:
            try:
                origin = decode_origin(value)
            except ValueError as error:
                raise MalformedMessage(str(error)) from error
    return origin
