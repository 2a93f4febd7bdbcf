"""Names of a container's columns in frames, and the columns that names mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from msgspec import Struct

from headgate.engine import WatchedContainer
from headgate.events import NOTIFY_FAMILY, KeyForm, UnreadableKey, key_bytes, key_text
from headgate.spark.source.tables import ROW
from headgate.spark.source.values import to_bytes
from headgate.spark.views import ContainerView, ViewError, view_of


class NamedColumns(Struct, frozen=True):
    """How a container's rows and columns are named: another one is another naming of its cells."""

    family: str
    """The one family whose columns are called by their qualifiers; empty where there is none."""
    short: tuple[str, ...]
    """Declared columns that are called by their qualifiers, if the container has several
    families."""
    keys: KeyForm
    is_open: bool
    """True if there may be columns that the container does not declare."""


class ColumnNames:
    """One name for each column a container may have, the same whatever cells there are.

    A column is called by its qualifier where the container has one family, and where the container
    declares the column and declares no other one with that qualifier. Every other column is called
    ``family:qualifier``, as is one whose qualifier is empty, is ``row``, or itself begins with a
    family of the table and a colon. Qualifiers that are no UTF-8 text are written as ``key_text``
    writes them.

    Args:
        view: the container.
        families: returns the table's families; asked only where the container leaves them open, and
            for qualifiers with a colon.
        asked: columns (``family:qualifier``) that count as declared instead of the container's.
    """

    def __init__(
        self,
        view: ContainerView,
        families: Callable[[], Sequence[bytes]],
        asked: Sequence[bytes] | None = None,
    ) -> None:
        self._view = view
        self._of_table = families
        self._listed = view.declared if asked is None else tuple(asked)

    @cached_property
    def families(self) -> tuple[bytes, ...]:
        """The families that the container's columns may be of."""
        if self._view.has_all_families:
            return tuple(family for family in self._of_table() if family != NOTIFY_FAMILY)
        named = (item.family for item in self._view.items if item.family is not None)
        return tuple(dict.fromkeys(named))

    @cached_property
    def _alone(self) -> frozenset[bytes]:
        """The declared columns of whose qualifiers there are no others."""
        often = Counter(column.partition(b":")[2] for column in self._listed)
        return frozenset(c for c in self._listed if often[c.partition(b":")[2]] == 1)

    @cached_property
    def _declared(self) -> dict[str, bytes]:
        return self.names(self._listed)

    def name(self, column: bytes) -> str:
        """Return the name of a column, ``family:qualifier``."""
        family, _, qualifier = column.partition(b":")
        name = key_text(qualifier)
        if not name or name.casefold() == ROW or self._has_family(qualifier):
            return key_text(column)
        alone = column in self._alone or self.families == (family,)
        return name if alone else key_text(column)

    def names(self, columns: Iterable[bytes]) -> dict[str, bytes]:
        """Return columns by their names."""
        return {self.name(column): column for column in columns}

    def column(self, name: str) -> bytes | None:
        """Return the column that a name means, whether or not the container has it.

        Names are texts of keys, in either spelling; ``family:qualifier`` means a column, too, that
        has a shorter name.

        Returns:
            None where the name has no family and several are possible.

        Raises:
            UnreadableKey: the name is no Unicode text.
        """
        column = key_bytes(name)
        declared = self._declared.get(key_text(column))
        if declared is not None:
            return declared
        if self._has_family(column):
            return column
        if len(self.families) == 1:
            return self.families[0] + b":" + column
        return column if b":" in column else None

    def _has_family(self, name: bytes) -> bool:
        """Return whether a name begins with a family of the table and a colon."""
        family, colon, _ = name.partition(b":")
        return bool(colon) and (family in self.families or family in self._of_table())

    @property
    def naming(self) -> NamedColumns:
        """How the container's columns are named."""
        one = len(self.families) == 1
        return NamedColumns(
            key_text(self.families[0]) if one else "",
            () if one else tuple(sorted(map(key_text, self._alone))),
            self._view.keys,
            not self._view.complete,
        )

    def typed(self, types: Mapping[str, str]) -> dict[bytes, str]:
        """Return the types that a step asks for, by column; names of no column are left out."""
        found = ((self.column(name), kind) for name, kind in types.items())
        items = self._view.items
        return {
            column: kind
            for column, kind in found
            if column is not None and any(item.has_column(column) for item in items)
        }


def target_columns(
    view: ContainerView, names: ColumnNames, written: Sequence[str]
) -> Mapping[str, bytes]:
    """Return the HBase column for each column of a frame that is written to the container.

    Args:
        view: where to.
        names: of the container's columns.
        written: the frame's columns without ``row``.

    Raises:
        ViewError: a column has no place, or only one outside the container, or two have the same.
    """
    targets: dict[str, bytes] = {}
    places: dict[bytes, str] = {}
    for name in written:
        column = _target(view, names, name)
        if column in places:
            message = (
                f"columns {places[column]!r} and {name!r} of the frame are both column "
                f"{key_text(column)!r} of container {view.name!r}; drop one of them"
            )
            raise ViewError(message)
        places[column] = name
        targets[name] = column
    return targets


def _target(view: ContainerView, names: ColumnNames, name: str) -> bytes:
    try:
        column = names.column(name)
    except UnreadableKey as error:
        message = f"a column for container {view.name!r} has a name that is no text: {error}"
        raise ViewError(message) from error
    if column is None:
        possible = " or ".join(map(key_text, names.families))
        message = (
            f"column {name!r} could go to family {possible} of container {view.name!r}; name it "
            "family:qualifier"
        )
        raise ViewError(message)
    if not view.has_column(column):
        known = ", ".join(sorted(map(names.name, view.declared))) or "none declared"
        message = (
            f"column {name!r} is not in container {view.name!r} (its columns: {known}); "
            "rename it, or drop it before writing"
        )
        raise ViewError(message)
    return column


class _OnlyTheTableKnows(Exception):
    """The families of a table are wanted, which nobody has asked for."""


def check_writable(watched: WatchedContainer, keys: KeyForm, columns: pa.Schema) -> None:
    """Check that rows of a frame have a place in a container, as far as the container says it.

    Args:
        watched: the container.
        keys: in which form its keys are read.
        columns: of the frame.

    Raises:
        ViewError: the container is in several tables, the frame has no ``row``, or a column has no
            place in the container.
        UnwritableValue: values of a column's type have no bytes under the container's codec.
    """
    view = view_of(watched, None, keys)
    if ROW not in columns.names:
        message = f"it has no column {ROW!r} with the keys of the rows; add it"
        raise ViewError(message)
    fields = [field for field in columns if field.name != ROW]
    for field in fields:
        to_bytes(pa.array([], field.type), view.codec)
    try:
        target_columns(view, ColumnNames(view, _unasked), [field.name for field in fields])
    except _OnlyTheTableKnows:
        return


def _unasked() -> Sequence[bytes]:
    raise _OnlyTheTableKnows
