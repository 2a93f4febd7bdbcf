"""Containers: from one line or a mapping to rectangles of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headgate.engine import Codec, CodecName, Count, OnUndecodable, WatchedContainer
from headgate.events import Container, ContainerId, Item, row_prefix_end
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Items, Mapping, Scalar, Tree
from headgate.flows.keys import CODECS


def read_container(name: str, tree: Tree, findings: Findings) -> WatchedContainer:
    """Return the container that a matched tree describes."""
    items = tuple(_items(tree, findings))
    codec = Codec()
    count = Count.ROWS
    if isinstance(tree, Mapping):
        match tree.get("codec"):
            case Scalar(text=text):
                codec = _codec(text)
        match tree.get("count"):
            case Scalar(text=text):
                count = Count(text)
    return WatchedContainer(Container(ContainerId(name), items), codec, count)


def read_undecodable(tree: Tree) -> OnUndecodable | None:
    """Return what becomes of a container's values that do not decode; None where it is not said."""
    match tree.get("on_undecodable") if isinstance(tree, Mapping) else None:
        case Scalar(text=text):
            return OnUndecodable(text)
        case _:
            return None


def overlap(first: Container, second: Container) -> bool:
    """Return whether a cell may lie in both containers."""
    return any(_items_meet(one, other) for one in first.items for other in second.items)


def _items_meet(one: Item, other: Item) -> bool:
    families = one.family is None or other.family is None or one.family == other.family
    qualifiers = (
        one.qualifier is None or other.qualifier is None or one.qualifier == other.qualifier
    )
    below = one.stop is None or other.start < one.stop
    above = other.stop is None or one.start < other.stop
    return one.table == other.table and families and qualifiers and below and above


def _codec(text: str) -> Codec:
    if text in CODECS:
        return Codec(CODECS[text])
    path = text.removeprefix("json $").replace("[", ".").replace("]", "")
    return Codec(CodecName.JSON, path.removeprefix("."))


def _items(tree: Tree, findings: Findings) -> Iterator[Item]:
    if isinstance(tree, Scalar):
        table, *columns = tree.text.split(" ")
        yield from (_column_item(Item(table), column, tree, findings) for column in columns)
        if not columns:
            yield Item(table)
    elif isinstance(tree, Mapping):
        group = tree.get("group")
        if isinstance(group, Items):
            for part in group.values:
                yield from _items(part, findings)
        else:
            yield from _rectangles(tree, findings)


def _rectangles(tree: Mapping, findings: Findings) -> Iterator[Item]:
    table = tree.get("table")
    if not isinstance(table, Scalar):
        return
    start, stop = _rows(tree, findings)
    rows = Item(table.text, start=start, stop=stop)
    match tree.get("column"), tree.get("family"):
        case Scalar() as column, _:
            yield _column_item(rows, column.text, column, findings)
        case Items(values=columns), _:
            for one in columns:
                if isinstance(one, Scalar):
                    yield _column_item(rows, one.text, one, findings)
        case _, Scalar(text=family):
            yield Item(rows.table, family.encode(), None, start, stop)
        case _:
            yield rows


def _column_item(rows: Item, column: str, written: Scalar, findings: Findings) -> Item:
    family, _, qualifier = column.partition(":")
    name = _bytes(qualifier, written, findings) if qualifier else None
    return Item(rows.table, family.encode(), name, rows.start, rows.stop)


def _rows(tree: Mapping, findings: Findings) -> tuple[bytes, bytes | None]:
    match tree.get("row"), tree.get("prefix"), tree.get("rows"):
        case Scalar() as row, _, _:
            start = _bytes(row.text, row, findings)
            return start, start + b"\0"
        case _, Scalar() as prefix, _:
            start = _bytes(prefix.text, prefix, findings)
            return start, row_prefix_end(start)
        case _, _, Items(values=(Scalar() as first, Scalar() as end)):
            start = _bytes(first.text, first, findings)
            stop = _bytes(end.text, end, findings)
            if start >= stop:
                findings.error(
                    first.at,
                    f"no row lies from `{first.text}` to before `{end.text}`",
                    "write the smaller row first; rows are ordered by their bytes",
                )
            return start, stop
        case _:
            return b"", None


_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|\\)?")


def _bytes(text: str, written: Scalar, findings: Findings) -> bytes:
    r"""Return the bytes of a row or qualifier: UTF-8 with ``\xNN`` for a byte, as HBase's shell."""
    parts: list[bytes] = []
    end = 0
    for escape in _ESCAPE.finditer(text):
        parts.append(text[end : escape.start()].encode())
        end = escape.end()
        match escape[1]:
            case None:
                findings.error(
                    written.at,
                    f"a lone backslash in `{text}`",
                    "write `\\\\` for a backslash, `\\x00` for a byte, outside of double quotes",
                )
            case "\\":
                parts.append(b"\\")
            case code:
                parts.append(bytes.fromhex(code[1:]))
    return b"".join([*parts, text[end:].encode()])
