"""Containers: what they may say, in one line or a mapping, and the rectangles they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.engine import (
    JSON_IN_BRACKETS,
    LAYOUTS,
    Codec,
    CodecName,
    Count,
    DataflowSpec,
    OnUndecodable,
    WatchedContainer,
    canonical_path,
)
from headgate.events import (
    Container,
    ContainerId,
    Item,
    KeyForm,
    UnreadableKey,
    key_bytes,
    row_prefix_end,
    typed_key,
)
from headgate.flows.grammar.kinds import Either, Key, ListOf, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings, nearest
from headgate.flows.grammar.tree import Items, Mapping, Scalar, Tree, entries_of, text_of
from headgate.flows.grammar.values import NAME, text_value
from headgate.flows.sections.changes import Change, ChangeKind, Parts, always
from headgate.flows.sections.section import Draft, Section
from headgate.settings import shell_word

_WORD = r"A-Za-z0-9_\u00aa-\uffff"  # HBase takes any letter of Unicode
_TABLE = rf"(?:[{_WORD}][{_WORD}.\-]*:)?[{_WORD}][{_WORD}.\-]*"
_FAMILY = r"[^\s:]+"
_COLUMN = rf"{_FAMILY}:[\s\S]*"

PLACE = rf"{_TABLE}(?: {_FAMILY}:[^\s]*)*"
"""Pattern of a container in one line: a table, then any number of columns or families."""

JSON_PATH = rf"json \$(?:\.[A-Za-z0-9_\-]+|{JSON_IN_BRACKETS})*"
"""Pattern of the codec that takes a number out of a JSON document."""

CODECS = {
    "number": CodecName.UTF8,
    **{name.value: name for name in LAYOUTS},
    "opaque": CodecName.OPAQUE,
}
"""Codecs by the word for them; ``json $.path`` is the only one with a parameter."""


def _why_no_place(value: str) -> tuple[str, str]:
    table, _, column = value.partition(" ")
    if "/" in value:
        return (
            "this is no container",
            "write the table, a space, the column: `zones c:concentration`",
        )
    if column and ":" not in column:
        return (
            "a column has no family",
            f"write `{table} {column}:` for the family, `{table} {column}:qualifier` for a column",
        )
    if table.count(":") > 1:
        return "the table and the column run together", "put a space between table and column"
    return "this is no container", "write a table, or table and column: `zones c:concentration`"


def _why_no_column(value: str) -> tuple[str, str]:
    return "a column has a family and a qualifier", f"write `family:qualifier`, such as `c:{value}`"


def _why_no_codec(value: str) -> tuple[str, str]:
    if value.lower() in _TYPES:
        return "a type is no codec", f"write {_TYPES[value.lower()]}"
    if value.startswith("json"):
        cure = 'write `json $.key.key`, `json $.list[-1]` or `json $["any key"]`'
        return "the path is missing or no path", cure
    if _UNSIGNED.fullmatch(value):
        return "no codec reads unsigned integers", "write `opaque`, by which values are compared"
    # A codec of another width reads nothing: it is not what was meant.
    meant = nearest(value, [name for name in CODECS if _digits(name) == _digits(value)])
    question = f"did you mean `{meant}`? " if meant else ""
    return "this is no codec", f"{question}possible: {', '.join(CODECS)}, json $.path"


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


_UNSIGNED = re.compile(r"u(nsigned)?[-_ ]?(int|long|short)\d*")
_TYPES = {
    "double": "`float64`: HBase's Bytes.toBytes(double)",
    "float": "`float32`: HBase's Bytes.toBytes(float)",
    "long": "`int64`: HBase's Bytes.toBytes(long)",
    "int": "`int32`: HBase's Bytes.toBytes(int)",
    "short": "`int16`: HBase's Bytes.toBytes(short)",
    "bool": "`boolean`: HBase's Bytes.toBytes(boolean)",
    "bigint": "`phoenix-int64`, or `int64` for HBase's Bytes.toBytes(long)",
    "integer": "`phoenix-int32`, or `int32` for HBase's Bytes.toBytes(int)",
    "smallint": "`phoenix-int16`, or `int16` for HBase's Bytes.toBytes(short)",
    "tinyint": "`phoenix-int8`",
    "int8": "`phoenix-int8` for Phoenix's TINYINT; HBase's Bytes.toBytes has no such width",
    "byte": "`phoenix-int8` for Phoenix's TINYINT; HBase's Bytes.toBytes has no such width",
    "utf8": "`number` for decimal text, `opaque` for any other",
    "string": "`number` for decimal text, `opaque` for any other",
    "text": "`number` for decimal text, `opaque` for any other",
    "decimal": "`number` for decimal text",
    "bytes": "`opaque`, by which values are compared",
    "binary": "`opaque`, by which values are compared",
}
"""Codecs to write instead of types of Java, Python or SQL, in words, by type."""


_ROW = text_value("a row key as text, bytes as \\x00")
_RECTANGLE = {
    "table": Key(
        Single(
            "the name of a table",
            pattern=_TABLE,
            rule="use letters, digits, `_`, `-` and `.`, with a letter, a digit or `_` first; "
            "before it a namespace and a colon, if it has one: `sales:orders`",
        ),
        "the table, with its namespace if it has one",
    ),
    "family": Key(
        Single(
            "the name of a family",
            pattern=_FAMILY,
            rule="write it without space and colon; for a column write `column: family:qualifier`",
        ),
        "a whole column family",
    ),
    "column": Key(
        Either(
            "`family:qualifier` or a list of them",
            (
                Single("`family:qualifier`", pattern=_COLUMN, why_not=_why_no_column),
                ListOf(
                    Single("`family:qualifier`", pattern=_COLUMN, why_not=_why_no_column),
                    "a list of `family:qualifier`",
                ),
            ),
        ),
        "a column, or several that are treated as one container",
    ),
    "row": Key(_ROW, "a single row"),
    "prefix": Key(_ROW, "the rows whose key begins so"),
    "rows": Key(
        ListOf(_ROW, "[first row, first row after]", at_least=2, at_most=2),
        "a range of rows: the first, and the first that no longer belongs to it",
    ),
}

_RECTANGLE_APART = (
    ("family", "column"),
    ("row", "prefix"),
    ("row", "rows"),
    ("prefix", "rows"),
)
_PLACE = Single("a container such as `zones c:concentration`", pattern=PLACE, why_not=_why_no_place)
_ITEM = RecordOf(
    "the item",
    {**_RECTANGLE, "table": Key(_RECTANGLE["table"].kind, _RECTANGLE["table"].doc, required=True)},
    apart=_RECTANGLE_APART,
)

_CONTAINER_KEYS = RecordOf(
    "the container",
    {
        **_RECTANGLE,
        "group": Key(
            ListOf(
                Either("a container such as `zones c:concentration`", (_PLACE, _ITEM)),
                "a list of containers",
            ),
            "parts of one or several tables that are treated as one container",
        ),
        "codec": Key(
            Single(
                "a codec such as `number`, `float64` or `json $.path`",
                pattern=JSON_PATH,
                words=tuple(CODECS),
                why_not=_why_no_codec,
            ),
            "how values are written: `number` (default) is decimal text, `float64`, `int32`, … are "
            "of HBase's Bytes.toBytes, `phoenix-…` of Phoenix, `opaque` is only compared",
        ),
        "count": Key(
            Single("`rows` or `cells`", words=("rows", "cells")),
            "what one element is; default `rows`",
        ),
        "keys": Key(
            Single("`text` or `binary`", words=tuple(KeyForm)),
            "what rows and qualifiers are for a step: `text` (default), in which bytes that are no "
            "UTF-8 text, and backslashes, are written `\\xNN`; or `binary`",
        ),
        "on_undecodable": Key(
            Single("`fail`, `null` or `skip`", words=tuple(OnUndecodable)),
            "what becomes of a value that the codec cannot read when a step reads it: the step "
            "fails, it is null (default), or its row is left out",
        ),
    },
    one_of=("table", "group"),
    apart=(
        *_RECTANGLE_APART,
        *(("group", key) for key in _RECTANGLE if key != "table"),
    ),
)
_CONTAINER: Final = Either("a container such as `zones c:concentration`", (_PLACE, _CONTAINER_KEYS))


class DeclaredContainer(Struct, frozen=True):
    """A container as the file declares it."""

    watched: WatchedContainer
    on_undecodable: OnUndecodable | None = None
    """What a step sees of values that the codec cannot read; None where it is not said."""
    keys: KeyForm | None = None
    """Form in which a step sees rows and qualifiers; None where it is not said."""


def _read(written: Tree | None, draft: Draft) -> dict[str, DeclaredContainer]:
    return {
        name: _container(name, entry.value, draft.findings)
        for name, entry in entries_of(written).items()
    }


def _container(name: str, tree: Tree, findings: Findings) -> DeclaredContainer:
    container = Container(ContainerId(name), tuple(_items(tree, findings)))
    if not isinstance(tree, Mapping):
        return DeclaredContainer(WatchedContainer(container, Codec(), Count.ROWS))
    codec, count, undecodable, keys = map(
        text_of, map(tree.get, ("codec", "count", "on_undecodable", "keys"))
    )
    return DeclaredContainer(
        WatchedContainer(
            container, _codec(codec) if codec else Codec(), Count(count) if count else Count.ROWS
        ),
        OnUndecodable(undecodable) if undecodable else None,
        KeyForm(keys) if keys else None,
    )


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    return replace(spec, containers=tuple(one.watched for one in draft[CONTAINERS].values()))


def _changed(
    name: str, before: DeclaredContainer, after: DeclaredContainer, spec: DataflowSpec
) -> Iterator[Change]:
    part = f"container `{name}`"
    if before.watched != after.watched:
        words = "its updates count on; its cells are read anew"
        yield Change(ChangeKind.CHANGED, part, words)
    if before.on_undecodable != after.on_undecodable:
        words = "`on_undecodable`, from the next attempt of a step that reads it"
        yield Change(ChangeKind.CHANGED, part, words)
    if before.keys != after.keys:
        words = (
            "`keys`, from the next attempt of a step that reads it; a stage that reads it is made "
            f"anew by `headgate stage rebuild {shell_word(spec.name)} STAGE --with-sources`"
        )
        yield Change(ChangeKind.CHANGED, part, words)


CONTAINERS: Final = Section(
    "containers",
    Key(
        MapOf(_CONTAINER, "containers by name", NAME, "container"),
        "parts of tables that actions read, write and watch",
    ),
    _read,
    _specify,
    difference=Parts(
        "container",
        always("scanned first where a bound needs it"),
        _changed,
        "not watched any more",
    ),
)


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
    return Codec(CodecName.JSON, canonical_path(text.removeprefix("json ")))


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
        case _, Scalar() as family:
            yield Item(rows.table, key_bytes(family.text), None, start, stop)
        case _:
            yield rows


def _column_item(rows: Item, column: str, written: Scalar, findings: Findings) -> Item:
    family, _, qualifier = column.partition(":")
    name = _bytes(qualifier, written, findings) if qualifier else None
    return Item(rows.table, key_bytes(family), name, rows.start, rows.stop)


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


def _bytes(text: str, written: Scalar, findings: Findings) -> bytes:
    """Return the bytes of a row or qualifier as a dataflow file writes them."""
    try:
        return typed_key(text)
    except UnreadableKey as error:
        findings.error(
            written.at,
            str(error),
            "write `\\\\` for a backslash, `\\x00` for a byte, outside of double quotes",
        )
        return text.encode(errors="backslashreplace")
