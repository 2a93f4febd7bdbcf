"""Facets of trigger policies: what only some of them do.

The engine asks for a facet by its type, once, when an action gets its policy. See also
``TakesIncrements`` of stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headgate.engine.spec.dataflow import Bound
from headgate.engine.triggers.policy import Inputs, Limits


class Foresees(ABC):
    """A facet of trigger policies: it foresees when it need not be asked, and when it must be."""

    @abstractmethod
    def stays_idle(self, inputs: Inputs, now: float, wait_until: float | None) -> bool:
        """Return cheaply whether nothing is to be done before ``wait_until``; False: judge.

        Where it says so with ``inputs.increases``, whole batches are taken without a question.
        """

    @abstractmethod
    def times(self, inputs: Inputs) -> Sequence[float]:
        """Return when it has to be asked, whatever else happens, in Unix seconds."""


class Blocks(ABC):
    """A facet of trigger policies: while some bounds are reached, writers are held back."""

    blocking: tuple[str, ...]
    """Names of these bounds; none where it is not used."""

    @abstractmethod
    def holding(self, inputs: Inputs) -> tuple[str, ...]:
        """Return which of ``blocking`` are reached now."""


class Adjusts(ABC):
    """A facet of trigger policies: intervals of bounds are adjusted by load and resources."""

    adjustable: tuple[Bound, ...]
    """Bounds whose intervals, where they have any, are adjusted."""

    @abstractmethod
    def adjust(self, limits: Limits) -> None:
        """Have other limits hold."""


class PolicyReport(Struct, frozen=True):
    """Where a policy is, for people and in data."""

    words: str
    data: dict[str, Any]


class Reports(ABC):
    """A facet of trigger policies: it has more to say than how far the next run is."""

    @abstractmethod
    def report(self) -> PolicyReport:
        """Return where it is, changing nothing."""


class Adopts(ABC):
    """A facet of trigger policies: it goes by what it was given, such as models."""

    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Return the version of each by name, of those that it goes by now."""
