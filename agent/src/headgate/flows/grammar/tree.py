"""YAML text to a tree of values that know their place in the file.

Scalars are resolved by the core schema of YAML 1.2, as editors do: ``on`` and ``12:30`` are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from headgate.flows.grammar.problems import Findings, Position

MAX_CHARACTERS = 1 << 20
"""Longest dataflow file, in characters: far above what a person maintains."""

_MAX_DEPTH = 40  # nested collections; the format itself needs 7, parameters are free
_MAX_NODES = 100_000  # values after aliases are expanded, so that a few lines can't fill the memory


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value as written (``text``) and as YAML understands it (``value``)."""

    text: str
    value: str | int | float | bool | None
    at: Position
    text_at: Position | None = None
    """Where the text's first character is, if all of the text follows it on the same line."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    values: tuple[Tree, ...]
    at: Position


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping and its value."""

    key: Scalar
    value: Tree


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping, in the order of the file."""

    entries: dict[str, Entry]
    at: Position

    def get(self, key: str) -> Tree | None:
        """Return the value of the key, None where it is absent."""
        entry = self.entries.get(key)
        return entry.value if entry else None


Tree = Scalar | Items | Mapping


def read_tree(text: str, findings: Findings) -> Tree | None:
    """Return the tree of a YAML document; None after a problem that leaves no tree to look at."""
    if len(text) > MAX_CHARACTERS:
        findings.error(
            Position(1, 1),
            f"{len(text):,} characters; a dataflow file has at most {MAX_CHARACTERS:,}",
            "check that this is the dataflow file, and keep data out of it",
        )
        return None
    try:
        return _Composer(yaml.parse(text, Loader=yaml.SafeLoader), findings).document()
    except _HopelessError:
        return None
    except ReaderError as error:
        before = text[: error.position]
        findings.error(
            Position(before.count("\n") + 1, len(before) - before.rfind("\n")),
            f"the character {_code_point(error.character)} can't stand in YAML",
            "remove it, or write it as an escape in double quotes",
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        found = error.problem or error.context or "not YAML"
        findings.error(
            _position(mark),
            f"{error.context}: {found}" if error.context and error.problem else found,
            next((cure for sign, cure in _CURES if sign in found), _GENERAL_CURE),
        )
    # PyYAML converts \U escapes and %YAML numbers without checking their range.
    except (ValueError, OverflowError) as error:
        findings.error(
            Position(1, 1), f"not YAML: {error}", "check escapes such as \\U and % lines"
        )
    return None


_GENERAL_CURE = "check the indentation, and the quotes and brackets around this place"
_CURES = (
    ("'\\t'", "indent with spaces: YAML has no tabs there"),
    ("mapping values are not allowed here", "put the value in quotes, or check the indentation"),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("expected <block end>", "align this line with the ones it belongs to"),
    ("',' or ']'", "close the list with `]`, and put a comma between its values"),
    ("',' or '}'", "close the mapping with `}`, and put a comma between its entries"),
    ("cannot start any token", "put the value in quotes"),
)


def _code_point(character: int | str) -> str:
    return f"U+{character if isinstance(character, int) else ord(character):04X}"


class _Mark(Protocol):
    """What both of PyYAML's marks, the plain and the compiled one, say of a place."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def _position(mark: _Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)


class _HopelessError(Exception):
    """The rest of the document has no meaning; the reason is among the findings."""


class _Composer:
    """Builds the tree from YAML events, one document, no deeper and larger than the limits."""

    def __init__(self, events: Iterator[Event], findings: Findings) -> None:
        self._events = events
        self._findings = findings
        self._anchored: dict[str, tuple[Tree, int]] = {}
        self._nodes = 0

    def document(self) -> Tree | None:
        tree: Tree | None = None
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if tree is not None:
                    self._findings.error(
                        _position(event.start_mark),
                        "a second document begins here",
                        "keep one dataflow in one file: remove the `---`",
                    )
                    raise _HopelessError
                tree = self._node(next(self._events), 0)
        if tree is None:
            self._findings.error(
                Position(1, 1), "the file is empty", "start with `name:`, `containers:`, `actions:`"
            )
        return tree

    def _node(self, event: Event, depth: int) -> Tree:
        at = _position(event.start_mark)
        if isinstance(event, AliasEvent):
            return self._alias(event, at)
        before = self._nodes
        self._count(1, at)
        if isinstance(event, NodeEvent) and not isinstance(event, ScalarEvent):
            self._check_depth(depth, at)
        tree: Tree
        match event:
            case ScalarEvent():
                tree = self._scalar(event, at)
            case SequenceStartEvent():
                self._check_tag(event, at, "tag:yaml.org,2002:seq")
                tree = Items(tuple(self._values(depth + 1)), at)
            case MappingStartEvent():
                self._check_tag(event, at, "tag:yaml.org,2002:map")
                tree = self._mapping(at, depth + 1)
            case _:
                raise TypeError(event)  # YAML's parser gives no other event where a node begins
        anchor = getattr(event, "anchor", None)
        if anchor:
            self._anchored[anchor] = (tree, self._nodes - before)
        return tree

    def _check_depth(self, depth: int, at: Position) -> None:
        if depth >= _MAX_DEPTH:
            self._findings.error(
                at,
                f"more than {_MAX_DEPTH} lists and mappings lie in each other",
                "make the structure flatter",
            )
            raise _HopelessError

    def _count(self, nodes: int, at: Position) -> None:
        self._nodes += nodes
        if self._nodes > _MAX_NODES:
            self._findings.error(
                at,
                f"the file has more than {_MAX_NODES:,} values, aliases counted each time",
                "remove aliases that repeat aliases",
            )
            raise _HopelessError

    def _alias(self, event: AliasEvent, at: Position) -> Tree:
        known = self._anchored.get(event.anchor or "")
        if known is None:
            self._findings.error(
                at,
                f"`*{event.anchor}` refers to nothing that is complete before it",
                f"write `&{event.anchor}` before the value that is meant, further up",
            )
            raise _HopelessError
        tree, nodes = known
        self._count(nodes, at)
        return tree

    def _values(self, depth: int) -> Iterator[Tree]:
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                return
            yield self._node(event, depth)

    def _mapping(self, at: Position, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        for event in self._events:
            if not isinstance(event, NodeEvent):
                break
            key = self._node(event, depth)
            value = self._node(next(self._events), depth)
            if not isinstance(key, Scalar):
                self._findings.error(
                    key.at,
                    "a list or a mapping can't be a key",
                    "write a plain name before the `:`",
                )
            elif key.text in entries:
                first = entries[key.text].key.at
                self._findings.error(
                    key.at,
                    f"`{key.text}` is here for the second time; the first is on line {first.line}",
                    "keep one of them, or give this one another name",
                )
            else:
                entries[key.text] = Entry(key, value)
        return Mapping(entries, at)

    def _check_tag(
        self, event: CollectionStartEvent | ScalarEvent | MappingStartEvent, at: Position, own: str
    ) -> None:
        if event.tag not in (None, "!", own):
            self._findings.error(
                at,
                f"the tag `{event.tag}` has no meaning here",
                "remove it and write the value only",
            )

    def _scalar(self, event: ScalarEvent, at: Position) -> Scalar:
        text = event.value
        self._check_tag(event, at, _STRING_TAG)
        if not _encodable(text):
            self._findings.error(
                at, "the text holds half of a character pair (\\ud800 to \\udfff)", "write it whole"
            )
            text = ""
        plain = event.implicit[0] and event.tag is None
        quotes = 1 if event.style in _QUOTES else 0
        ends_at = _position(event.end_mark)
        one_line = event.style not in _BLOCKS and at.line == ends_at.line
        text_at = Position(at.line, at.column + quotes) if one_line else None
        return Scalar(text, core_value(text) if plain else text, at, text_at)


_QUOTES = ("'", '"')
_BLOCKS = ("|", ">")


_STRING_TAG = "tag:yaml.org,2002:str"


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


# The core schema of YAML 1.2.2, section 10.3; digits are limited to what 64 bits hold.
_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,30}|[0-9]{1,30}(\.[0-9]{0,30})?)([eE][-+]?[0-9]{1,3})?")


def core_value(text: str) -> str | int | float | bool | None:
    """Return what a plain scalar means in YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


def spark_settings(tree: Tree | None) -> Iterator[tuple[str, str]]:
    """Yield Spark's settings in a matched mapping, as Spark reads them."""
    for name, entry in entries_of(tree).items():
        if isinstance(entry.value, Scalar):
            value = entry.value.value
            yield name, str(value).lower() if isinstance(value, bool) else entry.value.text


def plain_value(tree: Tree | None) -> object:
    """Return a tree as the values that JSON has; None where there is no tree."""
    match tree:
        case Scalar(value=value):
            return value
        case Items(values=values):
            return [plain_value(value) for value in values]
        case Mapping(entries=entries):
            return {name: plain_value(entry.value) for name, entry in entries.items()}
        case _:
            return None


def text_of(tree: Tree | None) -> str:
    """Return a single value as written; empty where there is none."""
    return tree.text if isinstance(tree, Scalar) else ""


def texts_of(tree: Tree | None) -> tuple[str, ...]:
    """Return the single values of a list as written; empty where there is no list."""
    values = tree.values if isinstance(tree, Items) else ()
    return tuple(one.text for one in values if isinstance(one, Scalar))


def entries_of(tree: Tree | None) -> dict[str, Entry]:
    """Return the entries of a mapping; none where there is no mapping."""
    return tree.entries if isinstance(tree, Mapping) else {}


def scalars_of(tree: Tree | None) -> tuple[Scalar, ...]:
    """Return the single values of a list, or the one that stands in its place."""
    values = tree.values if isinstance(tree, Items) else (tree,)
    return tuple(value for value in values if isinstance(value, Scalar))


def number_or_text(one: Scalar) -> float | str:
    """Return a single value as a number where it is one, and as text otherwise."""
    return one.value if isinstance(one.value, int | float | str) else one.text
