"""Notify columns: a cell that marks a row as written, so that scans need not read the others."""

from __future__ import annotations

from msgspec import Struct

from headgate.events.origins import Origin

NOTIFY_FAMILY = b"hg"
"""The column family of all notify columns. Agents create it before they ask for a column of it."""

NOTIFY_ALL = "all"
"""The qualifier that observer mode uses; isolation mode uses the name of the dataflow."""


class Notify(Struct, frozen=True):
    """A notify column of a table: ``hg:<qualifier>``.

    Only writes by dataflows and others that are named in ``writers`` set it; any write does where
    that is empty.
    Who asks for it vouches that the table has the family: without it HBase refuses whole writes.
    """

    qualifier: str = NOTIFY_ALL
    writers: tuple[str, ...] = ()

    @property
    def column(self) -> bytes:
        """``hg:<qualifier>``."""
        return NOTIFY_FAMILY + b":" + self.qualifier.encode()


def encode_notify(received: float, origin: Origin | None) -> bytes:
    """Return the value of a notify cell: text that says when, and by which run if one is known.

    ``received`` is Unix time in seconds; it is kept to the millisecond.
    """
    moment = b"%d" % int(received * 1000)
    return moment if origin is None else moment + b" " + origin.run.encode()


def decode_notify(value: bytes) -> tuple[float, str]:
    """Return the Unix time in seconds, and the run or an empty string, of a notify cell.

    Raises:
        ValueError: the value is that of no notify cell.
    """
    moment, _, run = value.partition(b" ")
    if not moment.isdigit():
        raise ValueError(f"{value[:40]!r} is no notify cell: it does not begin with milliseconds")
    return int(moment) / 1000, run.decode()
