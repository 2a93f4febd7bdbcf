"""What ends a wave of input: the section ``waves`` of a dataflow file."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from headgate.flows.grammar.kinds import Key, Single
from headgate.flows.grammar.quantities import DURATION, duration_seconds
from headgate.flows.grammar.tree import Scalar, Tree
from headgate.flows.sections.changes import Setting, always
from headgate.flows.sections.section import Draft, Section


class WaveEnd(StrEnum):
    """What ends a wave of input."""

    MARK = "mark"
    """Somebody says so: ``headgate flow mark``."""
    EVERY = "every"
    """A period passes."""
    QUIET = "quiet"
    """No input came for a while."""


class WaveSpec(Struct, frozen=True):
    """How waves end; ``seconds`` is the period or the quiet time, None for marks."""

    end: WaveEnd = WaveEnd.MARK
    seconds: float | None = None


def _read(written: Tree | None, _draft: Draft) -> WaveSpec:
    if not isinstance(written, Scalar) or written.text == WaveEnd.MARK:
        return WaveSpec()
    end, _, duration = written.text.partition(" ")
    return WaveSpec(WaveEnd(end), duration_seconds(duration))


WAVES: Final = Section(
    "waves",
    Key(
        Single(
            "`mark`, `every 5 min` or `quiet 30 s`",
            pattern=rf"(?:every|quiet) {DURATION}",
            words=("mark",),
        ),
        "what ends a wave of input: `headgate flow mark` (default), a period, or a quiet time",
    ),
    _read,
    difference=Setting(always("from now")),
)
