"""Containers as added elements of a workflow name them: a table, column, row, or a group."""

from __future__ import annotations

import re
from collections import abc
from dataclasses import replace

from headgate.flows.grammar.problems import Findings, Position, suggestion
from headgate.flows.grammar.tree import Entry, Items, Mapping, Scalar, Tree
from headgate.flows.oozie.document import Element

PLACES = {
    "table": ("name",),
    "column": ("table", "name"),
    "row": ("table", "name"),
    "group": (),
}
"""The elements that name a container, and the attributes that say where it is."""
_ITEM = ("table", "column", "row")

_TABLE = re.compile(r"(?:\w[\w.\-]*:)?\w[\w.\-]*")
_COLUMN = re.compile(r"[^\s:]+:[\s\S]*")
_PROPERTY = re.compile(r"\$\{([A-Za-z_][A-Za-z_0-9.]*)\}")

GIVEN = "say what its properties are: `--property NAME=VALUE`"
"""The cure for a property of the job that the import doesn't know."""


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
            self.entries[name] = Entry(text_scalar(name, tree.at), tree)
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


def read_container(
    element: Element, limits: tuple[str, ...], findings: Findings, more: tuple[str, ...] = ()
) -> tuple[Mapping, str] | None:
    """Return the container that an element names as a tree, and a name for it; None after an error.

    Args:
        element: one of ``PLACES``.
        limits: what is said of the container besides, in attributes or elements.
        findings: problems are added to them.
        more: attributes that it may have besides.
    """
    check_attributes(element, (*PLACES[element.name], *limits, *more), findings)
    inner = ("item", *limits) if element.name == "group" else limits
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
    rectangle = _rectangle(element, keys, PLACES[element.name], findings)
    if rectangle is None:
        return None
    wanted = "-".join(key for key in keys.values() if key)
    return Mapping(rectangle, element.at), wanted


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
        check_attributes(item, _ITEM, findings)
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
    group = Entry(text_scalar("group", element.at), Items(tuple(parts), element.at))
    return Mapping({"group": group}, element.at), f"{wanted}-group"


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
        cure = f"{plain}, or {GIVEN}" if "${" in table else plain
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
    return {
        key: Entry(text_scalar(key, at), text_scalar(value, at))
        for key, value in keys.items()
        if value
    }


def check_attributes(element: Element, known: tuple[str, ...], findings: Findings) -> None:
    """Note the attributes of an element that are none of the known."""
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


def keyed(trees: abc.Mapping[str, Tree], at: Position) -> Mapping:
    """Return a mapping of a dataflow file, all of it at one place."""
    return Mapping({name: Entry(text_scalar(name, at), tree) for name, tree in trees.items()}, at)


def text_scalar(text: str, at: Position) -> Scalar:
    """Return a text as part of a tree."""
    return Scalar(text, text, at)
