"""The added element ``qod``: what an action watches, and how much change makes it worth running.

Paper: "Definition of dataflows with QoD bounds". What it holds is checked here with the places of
the XML file and handed on as parts of a dataflow file.
"""

from __future__ import annotations

import re
from collections import abc
from dataclasses import dataclass
from importlib import resources
from typing import Final

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.tree import Entry, Mapping, Scalar
from headgate.flows.grammar.values import NAME
from headgate.flows.oozie.containers import (
    PLACES,
    Containers,
    check_attributes,
    read_container,
    text_scalar,
    unused,
)
from headgate.flows.oozie.document import Element
from headgate.flows.oozie.limits import DECIMAL, LimitReader, read_limits, refuse_limit
from headgate.flows.sections.actions.bounds import RESERVED, read_condition

SCHEMA_FILE = "qod.xsd"
"""Name of the XML Schema of ``qod`` and ``error-bounds`` in this package's data."""

_INTEGER = re.compile(r"\+?([0-9]{1,15})")
_WHOLE = 100  # percent


def qod_schema_text() -> str:
    """Return the XML Schema of the added elements; it takes the namespace of what includes it."""
    return resources.files(__package__).joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Quality:
    """What a ``qod`` says: ``when`` and ``combine`` of the action (None for all bounds)."""

    when: Mapping
    combine: Scalar | None


def read_qod(element: Element, containers: Containers, findings: Findings) -> Quality | None:
    """Return what a ``qod`` element says; None after an error that leaves nothing of it."""
    when: dict[str, Entry] = {}
    check_attributes(element, ("combine",), findings)
    for child in element.children:
        if child.name not in PLACES:
            cure = suggestion(child.name, PLACES, "element")
            findings.error(child.at, f"`qod` has no element `{child.name}`", cure)
            continue
        _add_bound(child, when, containers, findings)
    if not element.children:
        findings.error(
            element.at,
            "`qod` has no container",
            'add one, such as `<table name="…" time="60" sequence="100" value="10"/>`',
        )
    if not when:
        return None
    return Quality(Mapping(when, element.at), _combine(element, tuple(when), findings))


def _add_bound(
    element: Element, when: dict[str, Entry], containers: Containers, findings: Findings
) -> None:
    place = read_container(element, tuple(_READ), findings, more=("id",))
    limits = dict(read_limits(element, _READ, findings))
    if not limits:
        findings.error(
            element.at,
            f"`{element.name}` has none of `time`, `sequence`, `value` that can be used",
            'give at least one of them: `time="60" sequence="100" value="10"`',
        )
    if place is None or not limits:
        return
    tree, wanted = place
    container = containers.named(_opaque(tree), wanted)
    name = element.attributes.get("id") or unused(container, when)
    at = element.at
    if not re.fullmatch(NAME, name) or name.lower() in RESERVED:
        findings.error(
            at,
            f"`{name}` can't name a bound",
            "use letters, digits, `_`, `-` and `.`, with a letter first, and no word of `combine`",
        )
        return
    if name in when:
        findings.error(at, f"a second bound `{name}` in this `qod`", "give it another `id`")
        return
    named = (
        {}
        if name == container
        else {"container": Entry(text_scalar("container", at), text_scalar(container, at))}
    )
    when[name] = Entry(text_scalar(name, at), Mapping({**named, **limits}, at))


def _combine(element: Element, bounds: tuple[str, ...], findings: Findings) -> Scalar | None:
    text = " ".join(element.attributes.get("combine", "all").split())
    written = text_scalar(text, element.at)
    read_condition(written, bounds, findings)
    return None if text == "all" else written


def _time(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = DECIMAL.fullmatch(text)
    if number is None or float(number[1]) <= 0:
        refuse_limit("time", text, "a decimal number of seconds above zero", "60.0", at, findings)
        return None
    return _number(float(number[1]), at)


def _sequence(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = _INTEGER.fullmatch(text)
    if number is None or int(number[1]) == 0:
        refuse_limit("sequence", text, "a whole number of updates, 1 or more", "100", at, findings)
        return None
    return _number(int(number[1]), at)


def _value(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = _INTEGER.fullmatch(text)
    if number is None or not 1 <= int(number[1]) <= _WHOLE:
        kind = "a whole percentage of modified keys from 1 to 100"
        refuse_limit("value", text, kind, "10", at, findings)
        return None
    return text_scalar(f"{int(number[1])}%", at)


_READ: Final[abc.Mapping[str, LimitReader]] = {
    "time": _time,
    "sequence": _sequence,
    "value": _value,
}


def _opaque(tree: Mapping) -> Mapping:
    """Return a container whose values are only compared: a key is modified or it is not."""
    codec = Entry(text_scalar("codec", tree.at), text_scalar("opaque", tree.at))
    return Mapping({**tree.entries, "codec": codec}, tree.at)


def _number(value: float, at: Position) -> Scalar:
    exact = int(value) if value == int(value) else value
    return Scalar(str(exact), exact, at)
