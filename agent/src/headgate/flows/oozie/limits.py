"""Limits as added elements of a workflow say them: in an attribute or in an element of its own."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Callable, Iterator

from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.grammar.tree import Entry, Scalar
from headgate.flows.oozie.containers import GIVEN, text_scalar
from headgate.flows.oozie.document import Element

DECIMAL = re.compile(r"\+?([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})")
"""Pattern of ``xs:decimal`` where it is not negative, its number in the first group."""

LimitReader = Callable[[str, Position, Findings], Scalar | None]
"""Returns the limit that a text is, at its place; None after an error, which it has noted."""


def read_limits(
    element: Element, readers: abc.Mapping[str, LimitReader], findings: Findings
) -> Iterator[tuple[str, Entry]]:
    """Yield the limits of a container by name: written as attributes or as elements, each once."""
    for name, read in readers.items():
        written = [(element.attributes[name], element.at)] if name in element.attributes else []
        written += [(c.text, c.at) for c in element.children if c.name == name]
        for _, at in written[1:]:
            findings.error(
                at, f"`{name}` is given twice", "write it once, as an attribute or as an element"
            )
        for text, at in written[:1]:
            value = read(text.strip(), at, findings)
            if value is not None:
                yield name, Entry(text_scalar(name, at), value)


def refuse_limit(
    name: str, text: str, kind: str, example: str, at: Position, findings: Findings
) -> None:
    """Note that a limit is not of the kind that it has to be."""
    number = f"write a number, such as `{example}`"
    cure = f"{number}, or {GIVEN}" if "${" in text else number
    findings.error(at, f"`{name}` is `{text}`: it has to be {kind}", cure)
