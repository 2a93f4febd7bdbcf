"""A container as a step sees it: one table, its columns under short names, and a codec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headgate.client import ScanRange
from headgate.engine import Codec, WatchedContainer
from headgate.events import NOTIFY_FAMILY, Item

_NOTIFY = NOTIFY_FAMILY + b":"


class ViewError(ValueError):
    """A container that cannot be read or written in the way that a step asks for."""


class ContainerView(Struct, frozen=True):
    """A container's part of one table."""

    name: str
    table: str
    items: tuple[Item, ...]
    codec: Codec

    @property
    def declared(self) -> tuple[bytes, ...]:
        """Columns (``family:qualifier``) that the container names, in its order, each once."""
        columns = (item.column for item in self.items if item.qualifier is not None)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def complete(self) -> bool:
        """Whether every item names its column, so that no others can turn up."""
        return all(item.qualifier is not None for item in self.items)

    @property
    def families(self) -> tuple[str, ...]:
        """Column families that the container names, each once."""
        named = (item.family.decode() for item in self.items if item.family is not None)
        return tuple(dict.fromkeys(named))

    @property
    def uniform(self) -> bool:
        """Whether all items have the same range of rows."""
        return len({(item.start, item.stop) for item in self.items}) == 1

    @property
    def extent(self) -> ScanRange:
        """The smallest range of rows and columns that has all items."""
        stops = [item.stop for item in self.items]
        columns: tuple[bytes, ...] = ()
        if all(item.family is not None for item in self.items):
            whole = {item.family for item in self.items if item.qualifier is None}
            chosen = [item.family if item.family in whole else item.column for item in self.items]
            columns = tuple(dict.fromkeys(column for column in chosen if column is not None))
        return ScanRange(
            start=min(item.start for item in self.items),
            stop=None if None in stops else max(stop for stop in stops if stop is not None),
            columns=columns,
        )

    def has(self, row: bytes, column: bytes) -> bool:
        """Return whether a cell is in the container; notify cells are in none."""
        if column.startswith(_NOTIFY):
            return False
        return any(item.has_row(row) and item.has_column(column) for item in self.items)

    def named(self, names: Iterable[str], known: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return the columns of the container that the names of a frame mean and nobody knows yet.

        A name without a family is one where the container has a single family.
        """
        known_names = set(names_of(known).values()) | {
            column.decode(errors="replace") for column in known
        }
        family = self.families[0] if len(self.families) == 1 else None
        columns = (
            name if ":" in name or family is None else f"{family}:{name}"
            for name in dict.fromkeys(names)
            if name not in known_names
        )
        return tuple(
            column
            for column in (text.encode() for text in columns)
            if b":" in column and any(item.has_column(column) for item in self.items)
        )

    def ranges(self, column: bytes) -> tuple[tuple[bytes, bytes | None], ...]:
        """Return the ranges of rows in which a column belongs to the container."""
        return tuple((item.start, item.stop) for item in self.items if item.has_column(column))


def view_of(watched: WatchedContainer, table: str | None = None) -> ContainerView:
    """Return the container's part of a table, which need not be named where there is only one.

    Raises:
        ViewError: the container lies in several tables, or not in this one.
    """
    tables = watched.container.tables
    if table is None and len(tables) != 1:
        message = (
            f"container {watched.id!r} lies in tables {', '.join(tables)}; say which one: "
            f'table="{tables[0]}"'
        )
        raise ViewError(message)
    chosen = tables[0] if table is None else table
    items = tuple(item for item in watched.container.items if item.table == chosen)
    if not items:
        message = f"container {watched.id!r} has nothing in table {chosen!r}"
        raise ViewError(message)
    return ContainerView(watched.id, chosen, items, watched.codec)


def names_of(columns: Iterable[bytes]) -> dict[bytes, str]:
    """Return a name for each column: its qualifier, or all of it where two have one qualifier."""
    listed = list(columns)
    texts = [column.decode(errors="backslashreplace") for column in listed]
    short = [text.partition(":")[2] or text for text in texts]
    often = Counter(short)
    return {
        column: name if often[name] == 1 else text
        for column, name, text in zip(listed, short, texts, strict=True)
    }


def target_columns(
    view: ContainerView, names: Sequence[str], families: Sequence[str]
) -> Mapping[str, bytes]:
    """Return the HBase column for each column of a frame that is written to the container.

    Args:
        view: where to.
        names: the frame's columns without ``row``: short names of declared columns,
            ``family:qualifier``, or new qualifiers where only one family is possible.
        families: the table's families, used where the container names none.

    Raises:
        ViewError: a column has no place, or only one outside the container.
    """
    declared = {name: column for column, name in names_of(view.declared).items()}
    possible = view.families or tuple(f for f in families if f != NOTIFY_FAMILY.decode())
    targets = {}
    for name in names:
        if name in declared:
            targets[name] = declared[name]
            continue
        if ":" in name:
            column = name.encode()
        elif len(possible) == 1:
            column = f"{possible[0]}:{name}".encode()
        else:
            message = (
                f"column {name!r} could go to family {' or '.join(possible)} of container "
                f"{view.name!r}; name it family:qualifier"
            )
            raise ViewError(message)
        if not any(item.has_column(column) for item in view.items):
            known = ", ".join(sorted(declared)) or "none declared"
            message = (
                f"column {name!r} is not in container {view.name!r} (its columns: {known}); "
                "rename it, or drop it before writing"
            )
            raise ViewError(message)
        targets[name] = column
    return targets
