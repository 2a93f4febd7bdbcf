"""Increments: what a run of a stage makes for others, and what it takes (BIPS, section 2.2)."""

from __future__ import annotations

from msgspec import Struct

from headgate.engine.spec.stages import FlowId

FramingKey = int | str
"""What consecutive increments of a flow have in common that are read as one (BIPS, section 2.6)."""


class Produced(Struct, frozen=True):
    """An increment that a run has made for one of its output flows; its name is unique.

    ``key`` is None with the default framing: then it is read by itself, and its key is its index.
    """

    flow: str
    name: str
    key: FramingKey | None
    rows: int


class Increment(Struct, frozen=True, array_like=True):
    """An increment of a flow: the one with this ``index`` of all that were ever made, from 0 on."""

    name: str
    index: int
    rows: int
    key: FramingKey | None = None

    @property
    def framing_key(self) -> FramingKey:
        """Its framing key; with the default framing its index."""
        return self.index if self.key is None else self.key


class FlowTaken(Struct, frozen=True):
    """What a run takes of one input flow: what it reads, and what is removed once it commits.

    ``read_before`` counts those of the increments that then waited which had been read before.
    """

    source: FlowId
    read: tuple[Increment, ...] = ()
    removed: tuple[Increment, ...] = ()
    read_before: int = 0
