"""Kinds of values that a dataflow file may hold: the vocabulary of its grammar.

A grammar written in these is read twice: ``matching`` holds a file against it, ``schema`` turns it
into a JSON Schema. So the two can't disagree on what may stand where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

ANY_TEXT = r"[\s\S]+"
"""Pattern of a text that isn't empty."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that a single value may be: above ``above``, ``at_least`` up to ``at_most``."""

    above: float | None = None
    at_most: float | None = None
    whole: bool = False
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Single:
    """A single value: text that matches ``pattern``, one of ``words``, a number, true or false."""

    what: str
    """Names the kind in messages: "expected …"."""
    pattern: str | None = None
    words: tuple[str, ...] = ()
    """Where ``null`` is one of them, YAML's own null is it, too."""
    numbers: Numbers | None = None
    truth: bool = False
    why_not: Callable[[str], tuple[str, str]] | None = None
    """Says of a refused value, as written, what is wrong with it and the cure."""
    rule: str = ""
    """What to write, where ``what`` alone would say no more than that the value is another."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one kind."""

    item: Kind
    what: str
    at_least: int = 1
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping from names that the user chooses to values of one kind."""

    value: Kind
    what: str
    name: str
    """Pattern of the names."""
    noun: str
    """What a name names, in messages."""
    at_least: int = 0


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a record: the kind of its value, and what it means (shown by editors)."""

    kind: Kind
    doc: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class RecordOf:
    """A mapping with known keys."""

    what: str
    keys: dict[str, Key]
    one_of: tuple[str, ...] = ()
    """Exactly one of these keys is there."""
    some_of: tuple[str, ...] = ()
    """At least one of these keys is there."""
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of keys of which only one may be there."""
    together: tuple[tuple[str, str], ...] = ()
    """Pairs of keys that are there together or not at all."""
    needs: tuple[tuple[str, str], ...] = ()
    """Pairs of keys of which the first is there only beside the second."""
    cures: dict[str, str] = field(default_factory=dict)
    """What to write instead of keys that people try and that don't exist."""


@dataclass(frozen=True, slots=True)
class Either:
    """One of several kinds, told apart by their YAML form: single value, list or mapping."""

    what: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value, handed on as it is."""

    what: str = "any value"


Kind = Single | ListOf | MapOf | RecordOf | Either | Anything
