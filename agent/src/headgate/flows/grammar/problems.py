"""What is wrong with a dataflow file: where, why, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """Whether the file can be used in spite of the problem."""

    ERROR = "error"
    WARNING = "warning"


class Position(Struct, frozen=True, order=True):
    """A place in the file; line and column count from 1."""

    line: int
    column: int


class Problem(Struct, frozen=True):
    """One thing to correct. ``message`` says what is there, ``cure`` what to write instead."""

    file: str
    line: int
    column: int
    message: str
    cure: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.severity}: {self.message}\n    {self.cure}"


class DataflowErrors(ValueError):
    """A dataflow file that can't be used. ``problems`` holds all of them, warnings too, by line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Findings:
    """Collects the problems of one file, so that all of them are reported at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._problems: dict[Problem, None] = {}

    def error(self, at: Position, message: str, cure: str) -> None:
        """Note something that makes the file unusable."""
        self._add(Problem(self.file, at.line, at.column, message, cure))

    def warning(self, at: Position, message: str, cure: str) -> None:
        """Note something that is allowed but probably not meant."""
        self._add(Problem(self.file, at.line, at.column, message, cure, Severity.WARNING))

    def _add(self, problem: Problem) -> None:
        # A part that an alias repeats is looked at twice; its problems are reported once.
        self._problems[problem] = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything noted so far, by place in the file."""
        return tuple(sorted(self._problems, key=lambda found: (found.line, found.column)))

    @property
    def failed(self) -> bool:
        """Whether an error is among the problems."""
        return any(found.severity is Severity.ERROR for found in self._problems)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that was probably meant by a misspelt word, if one is near enough."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def suggestion(word: str, candidates: Iterable[str], noun: str) -> str:
    """Return the cure for an unknown word: the one probably meant, and all that are possible."""
    known = sorted(candidates)
    if not known:
        return f"there is no {noun} yet: define one"
    listed = ", ".join(f"`{name}`" for name in known[:_LISTED])
    more = ", …" if len(known) > _LISTED else ""
    meant = nearest(word, known)
    question = f"did you mean `{meant}`? " if meant else ""
    return f"{question}possible: {listed}{more}"


NAME_RULE = (
    "use letters without accents, digits, `_`, `-` and `.`, at most 100, with a letter first"
)
"""The cure for a name of a dataflow, a container, an action, a bound or a profile."""
_LISTED = 12  # names shown in a cure: more of them hide the one that is looked for
