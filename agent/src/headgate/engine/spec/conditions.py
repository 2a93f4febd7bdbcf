"""Conditions over bounds: values with ``&`` and ``|`` that explain their result.

``BoundReached("a") | BoundReached("b") & BoundReached("c")`` reads as the paper's algebra (Fluχ,
section 2): *and* binds tighter than *or*. ``parse_condition`` reads the same from text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct


class ConditionError(ValueError):
    """An expression that is no condition. ``position`` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class _Operators(Struct, frozen=True):
    def __and__(self, other: Condition) -> AllOf:
        return AllOf((*_flat(AllOf, self), *_flat(AllOf, other)))

    def __or__(self, other: Condition) -> AnyOf:
        return AnyOf((*_flat(AnyOf, self), *_flat(AnyOf, other)))


class BoundReached(_Operators, frozen=True, tag="bound"):
    """True when the bound of this name is reached."""

    bound: str


class AllOf(_Operators, frozen=True, tag="all"):
    """True when every part is."""

    parts: tuple[BoundReached | AllOf | AnyOf | AtLeast, ...]


class AnyOf(_Operators, frozen=True, tag="any"):
    """True when at least one part is."""

    parts: tuple[BoundReached | AllOf | AnyOf | AtLeast, ...]


class AtLeast(_Operators, frozen=True, tag="at-least"):
    """True when at least ``number`` parts are."""

    number: int
    parts: tuple[BoundReached | AllOf | AnyOf | AtLeast, ...]


Condition = BoundReached | AllOf | AnyOf | AtLeast


def _flat(kind: type[AllOf] | type[AnyOf], part: object) -> tuple[Condition, ...]:
    if isinstance(part, kind):
        return part.parts
    assert isinstance(part, BoundReached | AllOf | AnyOf | AtLeast)  # noqa: S101
    return (part,)


def all_of(bounds: Iterable[str]) -> AllOf:
    """Return the condition that every bound is reached (the default)."""
    return AllOf(tuple(map(BoundReached, bounds)))


def at_least_one(bounds: Iterable[str]) -> AnyOf:
    """Return the condition that at least one bound is reached."""
    return AnyOf(tuple(map(BoundReached, bounds)))


def majority(bounds: Iterable[str]) -> AtLeast:
    """Return the condition that more than half of the bounds are reached: 2 of 3, 3 of 4."""
    parts = tuple(map(BoundReached, bounds))
    return AtLeast(len(parts) // 2 + 1, parts)


def bounds_of(condition: Condition) -> tuple[str, ...]:
    """Return the names of the bounds in the condition, each once, from left to right."""
    if isinstance(condition, BoundReached):
        return (condition.bound,)
    return tuple(dict.fromkeys(name for part in condition.parts for name in bounds_of(part)))


def write_condition(condition: Condition) -> str:
    """Return the condition as text; ``parse_condition`` reads it unless it holds ``at least``."""
    match condition:
        case BoundReached(bound):
            return bound
        case AllOf(parts):
            return " and ".join(
                write_condition(p) if isinstance(p, BoundReached) else f"({write_condition(p)})"
                for p in parts
            )
        case AnyOf(parts):
            return " or ".join(
                f"({write_condition(p)})" if isinstance(p, AnyOf) else write_condition(p)
                for p in parts
            )
        case AtLeast(number, parts):
            return f"at least {number} of ({', '.join(map(write_condition, parts))})"


_TOKEN = re.compile(r"\s*(?:(?P<symbol>[()])|(?P<word>[^\s()]+))")


def parse_condition(text: str) -> Condition:
    """Return the condition in an expression of bound names, ``and``, ``or`` and parentheses.

    Raises:
        ConditionError: the text is none; it says what was expected, and where.
    """
    tokens = [
        (m.group("symbol") or m.group("word"), m.start(m.lastindex or 0))
        for m in _TOKEN.finditer(text)
    ]
    reader = _Reader(tokens, len(text.rstrip()))
    condition = reader.alternatives()
    if reader.word is not None:
        raise ConditionError(f"expected 'and' or 'or', found {reader.word!r}", reader.position)
    return condition


class _Reader:
    def __init__(self, tokens: list[tuple[str, int]], end: int) -> None:
        self._tokens = tokens
        self._end = end
        self._next = 0

    @property
    def word(self) -> str | None:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else None

    @property
    def position(self) -> int:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else self._end

    def alternatives(self) -> Condition:
        parts = self._list("or", lambda: self._conjunction())
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def _conjunction(self) -> Condition:
        parts = self._list("and", lambda: self._atom())
        return parts[0] if len(parts) == 1 else AllOf(parts)

    def _list(self, word: str, read: Callable[[], Condition]) -> tuple[Condition, ...]:
        parts = [read()]
        while self.word is not None and self.word.lower() == word:
            self._next += 1
            parts.append(read())
        return tuple(parts)

    def _atom(self) -> Condition:
        word, position = self.word, self.position
        if word is None or word == ")" or word.lower() in {"and", "or"}:
            found = "the end" if word is None else repr(word)
            raise ConditionError(f"expected a bound or '(', found {found}", position)
        self._next += 1
        if word != "(":
            return BoundReached(word)
        inner = self.alternatives()
        if self.word != ")":
            found = "the end" if self.word is None else repr(self.word)
            raise ConditionError(f"expected ')' to close the '(', found {found}", self.position)
        self._next += 1
        return inner


class Dimension(StrEnum):
    """The vectors of a bound."""

    TIME = "time"
    SEQUENCE = "sequence"
    VALUE = "value"


class VectorResult(Struct, frozen=True):
    """One vector measured against its limit; ``unit`` is ``s``, ``updates``, ``%`` or empty.

    ``value`` is None while it cannot be known, and ``words`` then says what is waited for.
    ``limit`` and ``value`` of a value bound are the metric's own: a ratio of 0.05 is said as 5 %.
    ``missing`` says in words what is needed to reach the limit; it is empty when it is reached.
    """

    dimension: Dimension
    value: float | None
    limit: float
    unit: str
    reached: bool
    words: str
    missing: str = ""

    @property
    def fill(self) -> float | None:
        """Part of the limit that is reached, above 1 beyond it; None while it is not known."""
        return None if self.value is None or not self.limit else self.value / self.limit


class BoundResult(Struct, frozen=True, tag="bound"):
    """A bound, reached when any of its vectors is."""

    bound: str
    container: str
    reached: bool
    vectors: tuple[VectorResult, ...]


class GroupResult(Struct, frozen=True, tag="group"):
    """``needed`` of the parts must be reached: all for *and*, one for *or*."""

    operator: str
    needed: int
    reached: bool
    parts: tuple[BoundResult | GroupResult | PredecessorsResult | TriggerResult, ...]


class PredecessorsResult(Struct, frozen=True, tag="predecessors"):
    """Of an action without bounds: reached when no predecessor is waited for any more."""

    reached: bool
    ended: tuple[str, ...]
    waiting: tuple[str, ...]


class TriggerResult(Struct, frozen=True, tag="trigger"):
    """Of a trigger of another kind. ``words`` say how far it is, ``missing`` what it waits for."""

    reached: bool
    words: str
    missing: str = ""
    data: dict[str, float | str | None] = {}


ConditionResult = BoundResult | GroupResult | PredecessorsResult | TriggerResult


def evaluate(condition: Condition, bounds: Mapping[str, BoundResult]) -> ConditionResult:
    """Return the result tree of a condition, given the result of each bound that it names."""
    if isinstance(condition, BoundReached):
        return bounds[condition.bound]
    parts = tuple(evaluate(part, bounds) for part in condition.parts)
    match condition:
        case AllOf():
            operator, needed = "and", len(parts)
        case AnyOf():
            operator, needed = "or", 1
        case AtLeast(number):
            operator, needed = f"at least {number} of", number
    reached = sum(part.reached for part in parts) >= needed
    return GroupResult(operator, needed, reached, parts)


def leaves(result: ConditionResult) -> tuple[BoundResult, ...]:
    """Return the bounds in a result tree, each once, from left to right."""
    if isinstance(result, BoundResult):
        return (result,)
    if isinstance(result, PredecessorsResult | TriggerResult):
        return ()
    return tuple(dict.fromkeys(leaf for part in result.parts for leaf in leaves(part)))


def reasons(result: ConditionResult) -> tuple[str, ...]:
    """Return in words what was reached: one sentence per vector, or per trigger."""
    if isinstance(result, PredecessorsResult):
        return (f"{_list_words(result.ended)} ended",) if result.reached else ()
    if isinstance(result, TriggerResult):
        return (result.words,) if result.reached else ()
    if isinstance(result, BoundResult):
        return tuple(vector.words for vector in result.vectors if vector.reached)
    return tuple(dict.fromkeys(words for part in result.parts for words in reasons(part)))


def missing(result: ConditionResult) -> str:
    """Return in words what is needed for the condition to be reached; empty when it is."""
    if result.reached:
        return ""
    if isinstance(result, BoundResult):
        return " or ".join(v.missing or v.words for v in result.vectors)
    if isinstance(result, PredecessorsResult):
        return f"the end of {_list_words(result.waiting)}"
    if isinstance(result, TriggerResult):
        return result.missing or result.words
    parts = [text for part in result.parts if (text := missing(part))]
    left = result.needed - sum(part.reached for part in result.parts)
    if left == len(parts):
        return ", and ".join(parts)
    if left == 1:
        return ", or ".join(parts)
    return f"{left} of: " + "; ".join(parts)


def _list_words(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
