"""What the stack reports of long work while it goes on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """One thing that has happened.

    Attributes:
        subject: What it is about: ``jars``, ``ports``, ``lock`` or a part's name.
        text: A phrase that people read.
        done: How much of ``total`` is done, where that can be counted.
        total: 0 where nothing is counted.
    """

    subject: str
    text: str
    done: int = 0
    total: int = 0


Listener = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Listen to nothing."""
