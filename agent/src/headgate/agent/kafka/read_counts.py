"""How often what a bound watches is read, as observers count it: no decision hangs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from headgate.events import Container, Item, key_text

ReadsOf = Callable[[str], Mapping[str, int]]
"""Returns how often a table's columns were read, as in ``ObserverLease``."""


class ContainerReads(Struct, frozen=True):
    """Reads of one container's columns, of any rows, since the observers that live were started.

    Attributes:
        columns: reads that name them, by ``family:qualifier`` or ``family:``; with the table before
            it where the container has several.
        whole_rows: reads that name no column.
        words: all of it in a sentence.
    """

    container: str
    columns: dict[str, int]
    whole_rows: int
    words: str


def container_reads(container: Container, reads_of: ReadsOf) -> ContainerReads:
    """Return the reads that concern a container."""
    tables = container.tables
    columns: dict[str, int] = {}
    whole_rows = 0
    for table in tables:
        items = [item for item in container.items if item.table == table]
        for column, count in reads_of(table).items():
            if not column:
                whole_rows += count
            elif any(_concerns(column, item) for item in items):
                columns[column if len(tables) == 1 else f"{table} {column}"] = count
    return ContainerReads(
        container.id, columns, whole_rows, _words(container.id, columns, whole_rows)
    )


def _words(name: str, columns: dict[str, int], whole_rows: int) -> str:
    by_count = sorted(columns.items(), key=lambda each: (-each[1], each[0]))
    said = [f"{column} {_times(count)}" for column, count in by_count]
    if whole_rows:
        said.append(f"whole rows {_times(whole_rows)}")
    if not said:
        return f"`{name}` was not read since the observers were started."
    return f"`{name}` was read since the observers were started: {', '.join(said)}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def summed(reads: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of several observers' counts by column."""
    total: dict[str, int] = {}
    for one in reads:
        for column, count in one.items():
            total[column] = total.get(column, 0) + count
    return total


def _concerns(column: str, item: Item) -> bool:
    """Return whether reads of a column, or of a family, return cells of an item."""
    if item.family is None:
        return True
    family = key_text(item.family)
    if item.qualifier is None:
        return column.startswith(f"{family}:")
    qualifier = key_text(item.qualifier)
    return column in (f"{family}:", f"{family}:{qualifier}")
