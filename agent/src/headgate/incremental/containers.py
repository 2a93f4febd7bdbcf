"""How far a stage has read a container, and how its rows and columns were named then."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.events import Cut
from headgate.spark import NamedColumns, Run


class ContainerCursor(Struct, frozen=True):
    """How far a container was read; whoever wants a ``Cut`` can read it as one."""

    offsets: dict[str, tuple[int, ...]] = {}
    """Offsets up to which the container was read, as in a ``Cut``."""
    naming: NamedColumns | None = None
    """How its cells were named; None where an earlier version wrote it."""


def cursor_of(run: Run, container: str) -> bytes:
    """Return the cursor of a container after a run."""
    return msgspec.msgpack.encode(ContainerCursor(run.cut.offsets, run.naming(container)))


def cut_of(cursor: bytes) -> Cut:
    """Return which updates of a container were read."""
    return msgspec.msgpack.decode(cursor, type=Cut)


def renamed(cursor: bytes, naming: NamedColumns) -> str:
    """Return in words how cells are named otherwise than when a cursor was written; empty if not.

    Args:
        cursor: of the container.
        naming: how its cells are named now.
    """
    before = msgspec.msgpack.decode(cursor, type=ContainerCursor).naming
    if before is None:
        # One family has always had the same names, as have columns that all are declared.
        if naming.family or not naming.is_open:
            return ""
        return "its columns were named by what came with them, and are named by the container now"
    if before.keys != naming.keys:
        return f"its keys were {before.keys.value}, and are {naming.keys.value}"
    if (before.family, before.short) != (naming.family, naming.short):
        return f"{_words(before)} were called by their qualifiers, and now {_words(naming)} are"
    return ""


def _words(naming: NamedColumns) -> str:
    if naming.family:
        return f"all columns of family `{naming.family}`"
    return ", ".join(f"`{column}`" for column in naming.short) or "no columns"
