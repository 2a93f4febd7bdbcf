"""What the engine's probes have measured, as learning takes it: arrays of x and x′.

The same functions of the same arrays are applied to recorded waves (``pairs``), and their sums are
rounded once: what is measured while updates arrive is bit for bit what is learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from headgate.engine import MetricQuestion, Part, UserMetric
from headgate.learning.impact import Impact, Values, Version, measure, version_of
from headgate.learning.user_metrics import question_about


class Until(Struct, frozen=True, eq=False):
    """The moment up to which a container is measured: now, or the reset of a probe."""

    parts: Sequence[Part] = ()
    """The container as that probe has it, table by table; empty for now."""
    elements: int | None = None
    """n at that reset; None where it is not known."""

    @property
    def is_now(self) -> bool:
        """True if nothing has come since that moment."""
        return not any(pending.updates or pending.past is not None for _, pending in self.parts)

    @property
    def updates(self) -> int:
        """Updates after that moment."""
        return updates_of(self.parts)

    def elements_of(self, parts: Sequence[Part]) -> int:
        """Return n at that moment.

        Raises:
            ValueError: it is not known.
        """
        if self.is_now:
            return elements_of(parts)
        if self.elements is None:
            message = "nobody has counted the elements of a container at that moment"
            raise ValueError(message)
        return self.elements


NOW: Final = Until()


def is_known(parts: Sequence[Part]) -> bool:
    """Return whether nothing of a container is still to be scanned or read, and none is missing."""
    return all(
        cells.scans.complete and not cells.reads.unsettled and not pending.uncounted
        for cells, pending in parts
    )


def updates_of(parts: Sequence[Part]) -> int:
    """Return σ since the probe's last reset."""
    return sum(pending.updates for _, pending in parts)


def elements_of(parts: Sequence[Part]) -> int:
    """Return n: how many cells are there."""
    return sum(cells.columns.size for cells, _ in parts)


def counted_elements(parts: Sequence[Part]) -> int | None:
    """Return n; None while a scan or a read may still find others."""
    known = all(cells.scans.complete and not cells.reads.unsettled for cells, _ in parts)
    return elements_of(parts) if known else None


def mean_of(parts: Sequence[Part]) -> float:
    """Return the mean of a container's values as they are; 0 where it is empty."""
    values = [
        cells.columns.doubles(cells.columns.slots)
        for cells, _ in parts
        if cells.columns.values is not None
    ]
    return version_of(_joined(values)).sum / max(1, elements_of(parts))


def version_at_reset(
    parts: Sequence[Part], levels: Values | None, elements: int | None = None
) -> Version:
    """Return a container as it was when the probe was reset; it looks at all cells.

    Args:
        parts: the container, table by table.
        levels: see ``impact_of``.
        elements: n at the reset; only negative levels need it.
    """
    return version_of(_joined([pending.previous() for _, pending in parts]), levels, elements)


def impact_of(
    parts: Sequence[Part], version: Version, levels: Values | None, until: Until = NOW
) -> Impact:
    """Return how far a container has moved since the probe was reset.

    Args:
        parts: the container, table by table.
        version: what ``version_at_reset`` returns of the same parts and levels.
        levels: deciles of the container in training, shape (9,); None without crossings.
        until: the moment up to which it is measured.
    """
    current, previous = _moved(parts, until)
    return measure(current, previous, version, until.elements_of(parts), levels)


def question_on(
    parts: Sequence[Part],
    name: str,
    moment: tuple[float, ...],
    metric: UserMetric,
    until: Until = NOW,
) -> float | MetricQuestion:
    """Return what a user's metric has to be asked about the time since the probe was reset.

    See ``question_about``.
    """
    current, previous = _moved(parts, until)
    return question_about(current, previous, until.elements_of(parts), name, moment, metric)


def _moved(parts: Sequence[Part], until: Until) -> tuple[Values, Values]:
    """Return x and x′ of the cells that differ between a probe's reset and a later moment."""
    others: Sequence[Part | None] = until.parts or [None] * len(parts)
    moved = [
        pending.moved(None if other is None else other[1])
        for (_, pending), other in zip(parts, others, strict=True)
    ]
    return _joined([x for x, _ in moved]), _joined([before for _, before in moved])


class Meter:
    """What one probe is measured against, kept until its next reset.

    Args:
        levels: see ``impact_of``.
    """

    def __init__(self, levels: Values | None = None) -> None:
        self._levels = levels
        self._against: tuple[tuple[float, ...], Version] | None = None
        self.needs_elements = levels is not None and bool((levels < 0.0).any())
        """True if the meter cannot measure without n at the reset."""

    def forget(self) -> None:
        """Take note that the probe was reset."""
        self._against = None

    def impact(
        self, parts: Sequence[Part], elements: int | None = None, until: Until = NOW
    ) -> Impact:
        """Return how far the container has moved since the reset.

        Args:
            parts: the container, table by table.
            elements: n at the reset, see ``needs_elements``.
            until: the moment up to which it is measured.
        """
        # A first scan, or a read, may find what x′ was after all: its sum moves with it.
        key = tuple(pending.magnitude.value for _, pending in parts)
        if self._against is None or self._against[0] != key:
            self._against = key, version_at_reset(parts, self._levels, elements)
        return impact_of(parts, self._against[1], self._levels, until)


def _joined(arrays: Sequence[Values]) -> Values:
    return np.concatenate(arrays) if arrays else np.empty(0)
