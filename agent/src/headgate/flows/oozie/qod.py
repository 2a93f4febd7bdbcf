"""The added element ``qod``: what an action watches, and how much change makes it worth running.

Paper: "Definition of dataflows with QoD bounds". What it holds is checked here with the places of
the XML file and handed on as parts of a dataflow file.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import resources

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.tree import Entry, Items, Mapping, Scalar, Tree
from headgate.flows.grammar.values import NAME
from headgate.flows.oozie.document import Element
from headgate.flows.sections.bounds import RESERVED, read_condition

SCHEMA_FILE = "qod.xsd"
"""Name of the XML Schema of ``qod`` in this package's data."""

_LIMITS = ("time", "sequence", "value")
_PLACES = {
    "table": ("name",),
    "column": ("table", "name"),
    "row": ("table", "name"),
    "group": (),
}
"""The elements that name a container, and the attributes that say where it is."""
_ITEM = ("table", "column", "row")

_TABLE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]*:)?[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_COLUMN = re.compile(r"[^\s:]+:[\s\S]*")
_DECIMAL = re.compile(r"\+?([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})")
_INTEGER = re.compile(r"\+?([0-9]{1,15})")
_WHOLE = 100  # percent
_PROPERTY = re.compile(r"\$\{([A-Za-z_][A-Za-z_0-9.]*)\}")


def qod_schema_text() -> str:
    """Return the XML Schema of ``qod``; included by a workflow's schema it takes its namespace."""
    return resources.files(__package__).joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Quality:
    """What a ``qod`` says: ``when`` and ``combine`` of the action (None for all bounds)."""

    when: Mapping
    combine: Scalar | None


class Containers:
    """The containers of a dataflow that is made of XML: each is declared once, and gets a name."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._names: dict[str, str] = {}

    def named(self, tree: Mapping, wanted: str) -> str:
        """Return the name of a container, a new one like the wanted if it has none yet."""
        what = repr(_plain(tree))
        if what not in self._names:
            name = unused(_as_name(wanted), self.entries)
            self.entries[name] = Entry(_text(name, tree.at), tree)
            self._names[what] = name
        return self._names[what]


def unused(name: str, taken: dict[str, Entry]) -> str:
    """Return the name, with a number behind it where it is taken."""
    number = 2
    candidate = name
    while candidate in taken:
        candidate = f"{name}-{number}"
        number += 1
    return candidate


def read_qod(element: Element, containers: Containers, findings: Findings) -> Quality | None:
    """Return what a ``qod`` element says; None after an error that leaves nothing of it."""
    when: dict[str, Entry] = {}
    _check_attributes(element, ("combine",), findings)
    for child in element.children:
        if child.name not in _PLACES:
            cure = suggestion(child.name, _PLACES, "element")
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


def resolved(element: Element, properties: abc.Mapping[str, str]) -> Element:
    """Return an element with the job's properties in the place of ``${name}``, where known."""

    def value(text: str) -> str:
        return _PROPERTY.sub(lambda found: properties.get(found[1], found[0]), text)

    return replace(
        element,
        attributes={name: value(text) for name, text in element.attributes.items()},
        children=[resolved(child, properties) for child in element.children],
        text=value(element.text),
    )


def _add_bound(
    element: Element, when: dict[str, Entry], containers: Containers, findings: Findings
) -> None:
    place = _container(element, findings)
    limits = dict(_limits(element, findings))
    if not limits:
        findings.error(
            element.at,
            f"`{element.name}` has none of `time`, `sequence`, `value` that can be used",
            'give at least one of them: `time="60" sequence="100" value="10"`',
        )
    if place is None or not limits:
        return
    tree, wanted = place
    container = containers.named(tree, wanted)
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
        else {"container": Entry(_text("container", at), _text(container, at))}
    )
    when[name] = Entry(_text(name, at), Mapping({**named, **limits}, at))


def _combine(element: Element, bounds: tuple[str, ...], findings: Findings) -> Scalar | None:
    text = " ".join(element.attributes.get("combine", "all").split())
    written = _text(text, element.at)
    read_condition(written, bounds, findings)
    return None if text == "all" else written


# -- limits --------------------------------------------------------------------------------------


def _limits(element: Element, findings: Findings) -> Iterator[tuple[str, Entry]]:
    """Yield the limits: written as attributes or as elements, each once."""
    for name, read in _READ.items():
        written = [(element.attributes[name], element.at)] if name in element.attributes else []
        written += [(c.text, c.at) for c in element.children if c.name == name]
        for _, at in written[1:]:
            findings.error(
                at, f"`{name}` is given twice", "write it once, as an attribute or as an element"
            )
        for text, at in written[:1]:
            value = read(text.strip(), at, findings)
            if value is not None:
                yield name, Entry(_text(name, at), value)


def _time(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = _DECIMAL.fullmatch(text)
    if number is None or float(number[1]) <= 0:
        _refuse("time", text, "a decimal number of seconds above zero", "60.0", at, findings)
        return None
    return _number(float(number[1]), at)


def _sequence(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = _INTEGER.fullmatch(text)
    if number is None or int(number[1]) == 0:
        _refuse("sequence", text, "a whole number of updates, 1 or more", "100", at, findings)
        return None
    return _number(int(number[1]), at)


def _value(text: str, at: Position, findings: Findings) -> Scalar | None:
    number = _INTEGER.fullmatch(text)
    if number is None or not 1 <= int(number[1]) <= _WHOLE:
        kind = "a whole percentage of modified keys from 1 to 100"
        _refuse("value", text, kind, "10", at, findings)
        return None
    return _text(f"{int(number[1])}%", at)


_READ: dict[str, Callable[[str, Position, Findings], Scalar | None]] = {
    "time": _time,
    "sequence": _sequence,
    "value": _value,
}


def _refuse(
    name: str, text: str, kind: str, example: str, at: Position, findings: Findings
) -> None:
    number = f"write a number, such as `{example}`"
    cure = f"{number}, or {_GIVEN}" if "${" in text else number
    findings.error(at, f"`{name}` is `{text}`: it has to be {kind}", cure)


_GIVEN = "say what its properties are: `--property NAME=VALUE`"


# -- containers ----------------------------------------------------------------------------------


def _container(element: Element, findings: Findings) -> tuple[Mapping, str] | None:
    """Return the container of an element as a tree, and a name for it."""
    at = element.at
    _check_attributes(element, (*_PLACES[element.name], *_LIMITS, "id"), findings)
    inner = ("item", *_LIMITS) if element.name == "group" else _LIMITS
    for child in element.children:
        if child.name not in inner:
            cure = suggestion(child.name, inner, "element")
            findings.error(child.at, f"`{element.name}` has no element `{child.name}`", cure)
    given = element.attributes
    match element.name:
        case "table":
            keys = {"table": given.get("name")}
        case "column":
            keys = {"table": given.get("table"), "column": given.get("name")}
        case "row":
            keys = {"table": given.get("table"), "row": given.get("name")}
        case _:
            return _group(element, findings)
    rectangle = _rectangle(element, keys, _PLACES[element.name], findings)
    if rectangle is None:
        return None
    wanted = "-".join(key for key in keys.values() if key)
    return _opaque(rectangle, at), wanted


def _group(element: Element, findings: Findings) -> tuple[Mapping, str] | None:
    items = [child for child in element.children if child.name == "item"]
    if not items:
        findings.error(
            element.at,
            "`group` has no item",
            'add its parts: `<item table="…" column="family:qualifier"/>`',
        )
        return None
    parts: list[Tree] = []
    for item in items:
        _check_attributes(item, _ITEM, findings)
        for child in item.children:
            findings.error(
                child.at,
                f"`item` has no element `{child.name}`",
                "the items of a group share its limits: give them at the group",
            )
        keys = {name: item.attributes.get(name) for name in _ITEM if name in item.attributes}
        rectangle = _rectangle(item, {"table": None, **keys}, ("table",), findings)
        if rectangle is not None:
            parts.append(Mapping(rectangle, item.at))
    if len(parts) < len(items):
        return None
    wanted = "-".join(dict.fromkeys(item.attributes["table"] for item in items))
    group = Entry(_text("group", element.at), Items(tuple(parts), element.at))
    return _opaque({"group": group}, element.at), f"{wanted}-group"


def _rectangle(
    element: Element,
    keys: dict[str, str | None],
    attributes: tuple[str, ...],
    findings: Findings,
) -> dict[str, Entry] | None:
    at = element.at
    sound = True
    for attribute in attributes:
        if not element.attributes.get(attribute):
            findings.error(
                at, f"`{element.name}` has no `{attribute}`", f'add `{attribute}="…"` to it'
            )
            sound = False
    table, column = keys["table"], keys.get("column")
    if table and not _TABLE.fullmatch(table):
        plain = "write `name` or `namespace:name`"
        cure = f"{plain}, or {_GIVEN}" if "${" in table else plain
        findings.error(at, f"`{table}` is no table", cure)
        sound = False
    if column and not _COLUMN.fullmatch(column):
        findings.error(
            at,
            f"`{column}` is no column",
            "write `family:qualifier`, or `family:` for all of a family",
        )
        sound = False
    if not sound:
        return None
    return {key: Entry(_text(key, at), _text(value, at)) for key, value in keys.items() if value}


def _opaque(keys: dict[str, Entry], at: Position) -> Mapping:
    """Return a container whose values are only compared: a key is modified or it is not."""
    return Mapping({**keys, "codec": Entry(_text("codec", at), _text("opaque", at))}, at)


def _check_attributes(element: Element, known: tuple[str, ...], findings: Findings) -> None:
    for name in element.attributes:
        if name not in known:
            cure = suggestion(name, known, "attribute")
            findings.error(element.at, f"`{element.name}` has no attribute `{name}`", cure)


def _as_name(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", text).strip("-")[:80]
    return name if re.match("[A-Za-z_]", name) else f"c-{name}"


def _plain(tree: Tree) -> object:
    match tree:
        case Scalar(text=text):
            return text
        case Items(values=values):
            return [_plain(value) for value in values]
        case _:
            return {name: _plain(entry.value) for name, entry in tree.entries.items()}


def _text(text: str, at: Position) -> Scalar:
    return Scalar(text, text, at)


def _number(value: float, at: Position) -> Scalar:
    exact = int(value) if value == int(value) else value
    return Scalar(str(exact), exact, at)
