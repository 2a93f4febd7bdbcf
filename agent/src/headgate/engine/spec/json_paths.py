"""Paths to one number in a JSON document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

MOST_LEVELS: Final = 256
"""Levels of a document that is still read. The decoder's own limit depends on how deep its caller
is in the stack, so that one document could be read in one place and not in another."""

JSON_IN_BRACKETS: Final = (
    r"\[-?[0-9]{1,9}\]"
    r"|\[\"(?:[^\"\\]|\\[\"\\])*\"\]"
    r"|\['(?:[^'\\]|\\['\\])*'\]"
)
"""Pattern of a step in brackets: an index, of which -1 is the last, or any key in quotes."""

_STEP: Final = re.compile(rf"\.?(?:{JSON_IN_BRACKETS}|[^.\[\]\"']+)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\-]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_TO_ESCAPE: Final = re.compile(r"[\"\\]")
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)

Step = tuple[str, int | None]
"""A key, and the index that it is where a list is found."""


def path_steps(path: str) -> tuple[Step, ...]:
    """Return the keys and indices of a path.

    Raises:
        ValueError: it is no path.
    """
    rest = path.removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (at and rest[at] not in ".["):
            message = f'{path!r} is no JSON path; write $.key, $.list[0] or $["any key"]'
            raise ValueError(message)
        steps.append(_step(found[0].removeprefix(".")))
        at = found.end()
    return tuple(steps)


def _step(written: str) -> Step:
    if written.startswith(("['", '["')):
        return _ESCAPED.sub(r"\1", written[2:-2]), None
    key = written.strip("[]")
    return key, int(key) if _NUMBER.fullmatch(key) else None


def canonical_path(path: str) -> str:
    """Return the one spelling of a path: keys and indices with dots, other keys in quotes.

    Raises:
        ValueError: it is no path.
    """
    words = ""
    for key, index in path_steps(path):
        if _PLAIN.fullmatch(key) and (index is not None or not _NUMBER.fullmatch(key)):
            words += f".{key}"
        else:
            escaped = _TO_ESCAPE.sub(r"\\\g<0>", key)
            words += f'["{escaped}"]'
    return words.removeprefix(".")


def member(document: Any, steps: Sequence[Step]) -> Any:
    """Return what stands in a document at a path.

    Raises:
        LookupError: a list is too short, or an object lacks the key.
        TypeError: the path leads into what is no list and no object.
    """
    for key, index in steps:
        document = document[index if isinstance(document, list) else key]
    return document


def is_too_deep(document: bytes) -> bool:
    """Return whether a document has more than ``MOST_LEVELS`` levels."""
    if document.count(b"[") + document.count(b"{") <= MOST_LEVELS:
        return False  # nearly always
    depth = 0
    for found in _BRACKETS.finditer(document):
        if found[0] in (b"[", b"{"):
            depth += 1
            if depth > MOST_LEVELS:
                return True
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return False
