"""The reference page of the library, made of its signatures and docstrings.

``python tests/incremental/library/library_page.py`` writes it anew.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from headgate.incremental import library

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "stage-library.md"

_HEAD = """\
# The library of stages

Functions of `headgate.incremental.library` that return a `Stage` are used as any stage: an action
names `stage: stages:totals`, and `stages.py` has `totals = library.aggregate(…)`.
[Stages](../stages.md) says what flows, states and weights are. The others help with stages of your
own.

This page is made of the code: `python tests/incremental/library/library_page.py` writes it anew,
and a test compares it.
"""


def _members() -> Iterator[tuple[str, Any]]:
    for name in library.__all__:
        yield name, getattr(library, name)


def _plain(text: str) -> str:
    """Return a docstring's words in Markdown: ``code`` is `code`."""
    return text.replace("``", "`")


def _sections(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the sections of a docstring by heading; the text before them under an empty one."""
    heading = ""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if found := re.fullmatch(r"(Flows|Args|Raises|Returns|Yields):", line):
            yield heading, "\n".join(lines).strip("\n")
            heading, lines = found[1], []
        else:
            lines.append(line)
    yield heading, "\n".join(lines).strip("\n")


def _items(text: str) -> Iterator[str]:
    """Yield the entries of a section as items of a list."""
    entries = re.split(r"\n(?=    \S)", text)
    for entry in entries:
        name, colon, said = " ".join(entry.split()).partition(": ")
        yield f"- `{name}`: {_plain(said)}" if colon else f"- {_plain(name)}"


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parts = []
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        text = f"{parameter.name}: {parameter.annotation}"
        if parameter.default is not parameter.empty:
            text += f" = {_default(parameter.default)}"
        parts.append(text)
    one_line = f"{name}({', '.join(parts)}) -> {signature.return_annotation}"
    if len(one_line) <= 100:
        return one_line
    lines = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{lines}) -> {signature.return_annotation}"


def _default(value: Any) -> str:
    if isinstance(value, StrEnum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value)


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield f"```python\n{_signature(name, function)}\n```\n"
    for heading, text in _sections(function.__doc__ or ""):
        if not heading:
            yield _plain(text) + "\n"
        elif text:
            yield f"**{heading}**\n\n" + "\n".join(_items(text)) + "\n"


def _type(name: str, kind: type) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield _plain(inspect.cleandoc(kind.__doc__ or "")) + "\n"
    if issubclass(kind, StrEnum):
        yield "\n".join(f"- `{name}.{each.name}`: `{each.value!r}`" for each in kind) + "\n"
    elif issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        types = kind.__annotations__
        yield "\n".join(f"- `{field.name}: {types[field.name]}`" for field in fields) + "\n"


def library_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name, member in _members():
        parts += _type(name, member) if inspect.isclass(member) else _function(name, member)
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(library_page())
