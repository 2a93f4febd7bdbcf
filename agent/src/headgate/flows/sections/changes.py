"""Changes between two versions of a dataflow, and how the versions of a section are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from headgate.engine import DataflowSpec

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = TypeVar("P")


class ChangeKind(StrEnum):
    """What happened to a part of a dataflow."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Change(Struct, frozen=True):
    """One part that differs; ``words`` say how, and what becomes of its state."""

    kind: ChangeKind
    part: str
    """Such as ``bound `readings` of `zones```."""
    words: str

    def __str__(self) -> str:
        return f"{self.part}: {self.kind.value}, {self.words}"


@dataclass(frozen=True, slots=True)
class Version(Generic[T_co]):
    """One of two compared dataflows: the value of a section, and the specification of all.

    The value is None where only the engine has it.
    """

    value: T_co
    spec: DataflowSpec


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """Comparison of a section that is one value."""

    words: Callable[[Version[T], Version[T]], str]
    """Returns what is another, and what becomes of it."""
    compared: Callable[[Version[T]], object] = lambda version: version.value
    """Returns what has to be equal."""

    def changes(self, name: str, old: Version[T], new: Version[T]) -> Iterator[Change]:
        """Yield the change of the section of that name, if there is one."""
        if self.compared(old) != self.compared(new):
            yield Change(ChangeKind.CHANGED, name, self.words(old, new))


@dataclass(frozen=True, slots=True)
class Parts(Generic[P]):
    """Comparison of a section that holds parts by name."""

    noun: str
    """Word before the name of a part."""
    added: Callable[[str, Mapping[str, P], Mapping[str, P]], str]
    """Returns what becomes of a new part, by its name, all old parts and all new ones."""
    changed: Callable[[str, P, P, DataflowSpec], Iterable[Change]]
    """Yields what is another of a part that is in both versions.

    It gets the part's name, its two versions and the new specification.
    """
    removed: str
    """What becomes of a part that is gone."""
    parts: Callable[[Version[Any]], Mapping[str, P]] = lambda version: version.value
    """Returns the parts by name."""

    def changes(self, _: str, old: Version[Any], new: Version[Any]) -> Iterator[Change]:
        """Yield the changes of all parts: those of the new version first."""
        before, after = self.parts(old), self.parts(new)
        for name, part in after.items():
            if name in before:
                yield from self.changed(name, before[name], part, new.spec)
            else:
                words = self.added(name, before, after)
                yield Change(ChangeKind.ADDED, f"{self.noun} `{name}`", words)
        for name in (one for one in before if one not in after):
            yield Change(ChangeKind.REMOVED, f"{self.noun} `{name}`", self.removed)


Difference = Setting[Any] | Parts[Any]
"""How two versions of a section are compared."""


def always(words: str) -> Callable[..., str]:
    """Return a function that gives the same words whatever the two versions are."""
    return lambda *_: words


def from_to(
    shown: Callable[[Any], object] = str, then: str = ""
) -> Callable[[Version[Any], Version[Any]], str]:
    """Return a function that gives words which show both values.

    Args:
        shown: makes a value fit for people.
        then: what becomes of it, with its separator.
    """
    return lambda old, new: f"{shown(old.value)} → {shown(new.value)}{then}"
