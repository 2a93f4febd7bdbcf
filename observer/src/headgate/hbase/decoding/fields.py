"""Fields of one struct, known by their ids: none of those that matter may come twice."""

from __future__ import annotations

from headgate.wire import MalformedMessage


def once(seen: int, field: int) -> int:
    """Return the ids seen so far, as bits, with one more.

    HBase's reader takes the last of two fields with the same id, others may take the first.

    Args:
        seen: 0 at the beginning of a struct.
        field: an id from 1 to 62 that means something here.

    Raises:
        MalformedMessage: the field comes for the second time.
    """
    bit = 1 << field
    if seen & bit:
        raise MalformedMessage(f"field {field} comes twice in one struct")
    return seen | bit
