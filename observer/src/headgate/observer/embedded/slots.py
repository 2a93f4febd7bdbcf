"""Journals of a program's processes: each has a slot, a directory with a lock, below one root.

A slot's number is a part of the name of the observer that uses it, so whoever takes a slot is the
next epoch of the same observer and publishes what an earlier process left in it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def slot_directory(root: Path, slot: int) -> Path:
    """Return the journal's directory of a slot."""
    return root / str(slot)


def slots_to_take(root: Path) -> Iterator[int]:
    """Yield slots in the order in which to try them: with something left to publish, free, new."""
    known = _slots(root)
    left = [slot for slot in known if _left_something(slot_directory(root, slot))]
    yield from (slot for slot in left if _is_free(slot_directory(root, slot)))
    yield from (slot for slot in known if slot not in left)
    slot = 0
    while True:
        if slot not in known:
            yield slot
        slot += 1


def abandoned_slots(root: Path) -> list[int]:
    """Return the slots that hold something to publish and belong to no living process."""
    found = []
    for slot in _slots(root):
        directory = slot_directory(root, slot)
        if _left_something(directory) and _is_free(directory):
            found.append(slot)
    return found


def _slots(root: Path) -> list[int]:
    if not root.is_dir():
        return []
    return sorted(int(path.name) for path in root.iterdir() if path.name.isdecimal())


def _left_something(directory: Path) -> bool:
    kinds = (".segment", ".watermark", ".gaps")
    return any(path.suffix in kinds for path in directory.iterdir())


def _is_free(directory: Path) -> bool:
    """Return whether no process holds the slot; it may be taken a moment later."""
    try:
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(handle)
