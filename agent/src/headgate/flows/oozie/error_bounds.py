"""The added element ``error-bounds``: what an action reads and writes, and how far that may be off.

SmartFlux, section 4, "Adopted Technology and Integration": data containers of a processing step and
their error bounds, values from 0 to 1. The paper prints no names; these are Headgate's own.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.tree import Entry, Mapping, Scalar, Tree
from headgate.flows.oozie.containers import (
    PLACES,
    Containers,
    check_attributes,
    read_container,
    text_scalar,
)
from headgate.flows.oozie.document import Element
from headgate.flows.oozie.limits import DECIMAL, LimitReader, read_limits, refuse_limit

READS = "reads"
WRITES = "writes"

_MAX_ERROR = "max-error"
_LEAST_CONFIDENCE: Final = Decimal("0.5")
"""Share of the waves: with less an output would be out of its bound more often than within."""


@dataclass(frozen=True, slots=True)
class BoundedContainer:
    """A container with its error, as the section ``learned`` of a dataflow file has it."""

    name: str
    at: Position
    error: Tree


@dataclass(frozen=True, slots=True)
class ErrorBounds:
    """What an ``error-bounds`` says: names of containers, and those of the written with a bound."""

    at: Position
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bounded: tuple[BoundedContainer, ...]


def read_error_bounds(element: Element, containers: Containers, findings: Findings) -> ErrorBounds:
    """Return what an ``error-bounds`` element says, without what is wrong in it."""
    named: dict[str, list[str]] = {READS: [], WRITES: []}
    bounded: list[BoundedContainer] = []
    check_attributes(element, (), findings)
    for part in element.children:
        if part.name not in named:
            cure = suggestion(part.name, named, "element")
            findings.error(part.at, f"`error-bounds` has no element `{part.name}`", cure)
            continue
        check_attributes(part, (), findings)
        if not part.children:
            findings.error(
                part.at,
                f"`{part.name}` names no container",
                'add one, such as `<column table="…" name="family:qualifier"/>`',
            )
        for child in part.children:
            name = _named(child, part, containers, findings)
            error = _error(child, part, findings)
            if name is None:
                continue
            named[part.name].append(name)
            if error is not None:
                bounded.append(BoundedContainer(name, child.at, error))
    if not element.children:
        findings.error(
            element.at,
            "`error-bounds` names no container",
            "add `<reads>` with what the action reads and `<writes>` with what it writes",
        )
    return ErrorBounds(
        element.at,
        tuple(dict.fromkeys(named[READS])),
        tuple(dict.fromkeys(named[WRITES])),
        tuple(bounded),
    )


def _named(
    element: Element, part: Element, containers: Containers, findings: Findings
) -> str | None:
    if element.name not in PLACES:
        cure = suggestion(element.name, PLACES, "element")
        findings.error(element.at, f"`{part.name}` has no element `{element.name}`", cure)
        return None
    place = read_container(element, tuple(_READ), findings)
    return None if place is None else containers.named(*place)


def _error(element: Element, part: Element, findings: Findings) -> Tree | None:
    """Return the error of a container; None where it has none, or after an error."""
    inner = {child.name for child in element.children}
    given = [name for name in _READ if name in element.attributes or name in inner]
    limits = dict(read_limits(element, _READ, findings))
    if part.name == READS and given:
        findings.error(
            element.at,
            f"`{given[0]}` stands at a container that the action reads: only what it writes can "
            "be bounded",
            f"give it in `<writes>` of the action that writes the container, as `{_MAX_ERROR}`",
        )
        return None
    if given and _MAX_ERROR not in given:
        findings.error(
            element.at,
            f"`confidence` says nothing without `{_MAX_ERROR}`",
            f'add `{_MAX_ERROR}="0.05"` to it, or remove it',
        )
    if _MAX_ERROR not in limits:
        return None
    if "confidence" not in limits:
        return limits[_MAX_ERROR].value
    error = Entry(text_scalar("error", element.at), limits[_MAX_ERROR].value)
    return Mapping({"error": error, "confidence": limits["confidence"]}, element.at)


def _max_error(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = DECIMAL.fullmatch(text)
    if number is None or not 0 < Decimal(number[1]) < 1:
        refuse_limit(_MAX_ERROR, text, "a relative error above 0 and below 1", "0.05", at, findings)
        return None
    return _percentage(number[1], at)


def _confidence(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = DECIMAL.fullmatch(text)
    if number is None or not _LEAST_CONFIDENCE <= Decimal(number[1]) < 1:
        kind = f"a share of the waves, {_LEAST_CONFIDENCE} or more and below 1"
        refuse_limit("confidence", text, kind, "0.95", at, findings)
        return None
    return _percentage(number[1], at)


_READ: Final[abc.Mapping[str, LimitReader]] = {_MAX_ERROR: _max_error, "confidence": _confidence}


def _percentage(share: str, at: Position) -> Scalar:
    return text_scalar(f"{(100 * Decimal(share)).normalize():f}%", at)
