"""The specification of a stage: its flows, and what translates them (paper: Table 1).

A stage is given increments of its input flows and, as one more flow, its state. Both are routed
into groups by a key, ordered within each, and translated group by group; what is written to the
state flow is what the next epoch finds of the group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, Final, TypeAlias

import pyarrow as pa
from msgspec import Struct
from pyarrow import types

from headgate.incremental.stages.declared import (
    check_columns,
    check_each,
    check_function,
    check_kind,
    misused,
)
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.framing import Framing, check_framing
from headgate.incremental.stages.streams import FlowStream
from headgate.incremental.state.keys import Key
from headgate.incremental.state.rows import Match

STATE: Final = "state"
"""The name of the loopback flow."""
GROUP: Final = "_group"
"""The column of tables of groups that says of which group a row is: its number, from 0."""

_UNVERSIONED: Final = "1"
"""How states name the version of a stage that gives none."""

Adu = dict[str, Any]
"""An application data unit: one row, by column."""


class Route(Enum):
    """Where a unit goes that goes to no group of its own key."""

    EACH = "each"
    """A group for each unit by itself (``RouteByADU``)."""
    ALL = "all"
    """All groups of the run get it: a parameter. Without any it waits for a run with some."""
    NONE = "none"
    """Nowhere: it is dropped."""


class Keys(Struct, frozen=True):
    """Several groups, to each of which a unit goes."""

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.keys, tuple | list):
            raise misused("`Keys`", self.keys, "write several keys as a tuple: `Keys((a, b))`")


class Computed(Struct, frozen=True):
    """A key that is computed of all units at once, for speed."""

    columns: Callable[[pa.Table], Sequence[pa.Array | pa.ChunkedArray]]
    """Of the units of an increment, columns of as many rows whose values are the keys, as those of
    named columns would be."""

    def __post_init__(self) -> None:
        check_function("`Computed`", self.columns)


Columns = str | tuple[str, ...]
"""Names; no names at all are those of one group of all units."""
RouteBy: TypeAlias = "Columns | Computed | Callable[[Adu], Key | Keys | Route] | Route"
OrderBy: TypeAlias = "Columns | Callable[[Adu], Key] | None"
Rows = Sequence[Adu]
Translate = Callable[[Key, Mapping[str, Rows]], Mapping[str, Iterable[Adu]]]
"""By group: its key and the rows by flow, those of the state under ``state``; returns rows by
output flow, and under ``state`` all that is to stay of the group."""


class Groups(Struct, frozen=True, eq=False):
    """The groups of one call of a translation by tables."""

    keys: pa.Array
    """Of the groups, shape (n,): of the type of the column that routes, binary canonical keys where
    several columns or a function do."""
    flows: Mapping[str, pa.Table]
    """Rows by flow, the state's too, sorted by group and order, with a column ``_group``."""
    everywhere: Mapping[str, pa.Table]
    """By flow, rows that are of all groups, without that column."""
    whole: frozenset[str] = frozenset()
    """Input flows of which everything came: what the state has of others is gone. All groups of
    the state are there then."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.keys)


TranslateTables = Callable[[Groups], Mapping[str, pa.Table]]
"""All groups at once; returns tables by output flow, and under ``state`` what is to stay, with the
column ``_group`` unless the state has a ``route_by``."""

TranslateStream: TypeAlias = Callable[
    [Key, Mapping[str, FlowStream]], Iterable[tuple[str, "pa.RecordBatch | pa.Table | Adu"]]
]
"""By group, of any size: its key and a stream of rows by flow; yields rows with the names of their
flows, one or a batch at a time, and those of ``state`` in their order."""

Types: TypeAlias = "pa.Schema | Mapping[str, str | pa.DataType]"


class InputFlow(Struct, frozen=True, eq=False):
    """An input flow of a stage."""

    route_by: RouteBy = Route.EACH
    """Columns or a function of a unit."""
    order_by: OrderBy = None
    """Of the units of a group; None: any order (``OrderByAny``)."""

    def __post_init__(self) -> None:
        check_columns("`route_by` of an `InputFlow`", self.route_by, (Route, Computed))
        check_columns("`order_by` of an `InputFlow`", self.order_by, (NoneType,))


class Outer(StrEnum):
    """Of which groups the translation is called."""

    RIGHT = "right"
    """Those that came; the state of all others stays as it is."""
    FULL = "full"
    """Those that the state has as well."""


class StateFlow(Struct, frozen=True, eq=False):
    """The loopback flow of a stage."""

    columns: pa.Schema
    route_by: Columns | Callable[[Adu], Key] | None = None
    """Of a row that is written; None: it stays in the group that wrote it."""
    order_by: OrderBy = None
    """None as the order of a row makes it one of the group itself: it is there whatever came."""
    outer: Outer = Outer.RIGHT
    match: Match = Match.GROUP
    """Whether a group is there whole, or of it only rows of orders that came."""
    whole_order: Key = None
    """Order of a unit that asks for all rows of its group, where only matching rows are read. None:
    no unit can ask for them."""

    def __post_init__(self) -> None:
        schema = "give an Arrow schema: `StateFlow(pa.schema({'n': pa.int64()}))`"
        check_kind("`columns` of a `StateFlow`", self.columns, pa.Schema, schema)
        check_kind("`outer` of a `StateFlow`", self.outer, Outer, "write `Outer.RIGHT` or `.FULL`")
        check_kind("`match` of a `StateFlow`", self.match, Match, "write `Match.GROUP` or `.ROW`")
        for said, by in (("route_by", self.route_by), ("order_by", self.order_by)):
            check_columns(f"`{said}` of a `StateFlow`", by, (NoneType,))
            names = (by,) if isinstance(by, str) else by
            for name in names if isinstance(names, tuple) else ():
                if name not in self.columns.names:
                    known = ", ".join(self.columns.names)
                    message = f"`{said}` of a `StateFlow` names column {name}; it has {known}"
                    raise StageError(message)


class Fused(Struct, frozen=True, eq=False):
    """One output flow of a stage by unit, as a part of another stage (paper: section 4.4.1).

    Raises:
        StageError: the stage is not by unit, has several input flows, or no such output flow; or
            the flow is framed, which it cannot be as it is no flow of its own any more.
    """

    stage: StageSpec
    flow: str

    def __post_init__(self) -> None:
        stage = self.stage
        if not stage.is_by_unit:
            message = (
                f"stage `{stage.name}` cannot be fused with another: it has a state or groups of "
                "several units; only stages by unit, whose input flow has no `route_by`, can"
            )
            raise StageError(message)
        if len(stage.inputs) > 1:
            message = (
                f"stage `{stage.name}` cannot be fused with another: it has input flows "
                f"{', '.join(stage.inputs)}, where one is wanted"
            )
            raise StageError(message)
        if self.flow not in stage.outputs:
            message = (
                f"stage `{stage.name}` has no output flow `{self.flow}`, but "
                f"{', '.join(stage.outputs) or 'none'}"
            )
            raise StageError(message)
        if self.flow in stage.framing:
            message = (
                f"stage `{stage.name}` frames `{self.flow}`, which has no increments of its own "
                "where the stage is fused with another; give the framing to that"
            )
            raise StageError(message)

    @property
    def columns(self) -> pa.Schema:
        """Of what it makes."""
        return self.stage.emitted[self.flow]


class StageSpec(Struct, frozen=True, eq=False):
    """What is known of a stage.

    Raises:
        StageError: it is given no flow or no translation, several translations, rows that cannot be
            matched, or stages fused with flows that it does not have, or whose columns are not
            those by which it routes.
    """

    name: str
    inputs: Mapping[str, InputFlow]
    outputs: Mapping[str, pa.Schema]
    """Columns by output flow, of what is translated."""
    translate: Translate | None
    translate_tables: TranslateTables | None
    """Instead of ``translate``."""
    translate_stream: TranslateStream | None
    """Instead of both."""
    state: StateFlow | None
    version: str | None
    """Version of the stage's code, as far as it matters to the state; None if every change of it
    does."""
    framing: Mapping[str, Framing] = {}
    """Of output flows whose rows are several increments, by what they have in common."""
    before: Mapping[str, tuple[Fused, ...]] = {}
    """By input flow, through what its units go, in this order, before they are routed."""
    after: Mapping[str, tuple[Fused, ...]] = {}
    """By output flow, through what its rows go before they are written."""
    over_open: StageSpec | None = None
    """The stage instead of this one where an input flow is a container whose columns are not all
    declared."""

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.inputs:
            message = f"stage `{self.name}` has no input flow; give one at least in `inputs`"
            raise StageError(message)
        forms = (self.translate, self.translate_tables, self.translate_stream)
        if sum(form is not None for form in forms) != 1:
            message = (
                f"stage `{self.name}` needs one translation: `translate`, for one group, "
                "`translate_tables`, for many at once, or `translate_stream`, for one of any size"
            )
            raise StageError(message)
        self._check_names()
        self._check_routes()
        self._check_fused()
        for flow, framing in self.framing.items():
            if flow not in self.outputs:
                message = (
                    f"stage `{self.name}` has a framing of `{flow}`, which is none of its output "
                    f"flows {', '.join(self.outputs)}"
                )
                raise StageError(message)
            check_framing(self.name, flow, self.emitted[flow], framing)

    def _check_kinds(self) -> None:
        check_kind("the name of a stage", self.name, str, "write a text")
        place = f"of stage `{self.name}`"
        wanted = "write `{'pages': InputFlow('row')}`"
        check_each(f"`inputs` {place}", self.inputs, InputFlow, wanted)
        for said, function in (
            ("translate", self.translate),
            ("translate_tables", self.translate_tables),
            ("translate_stream", self.translate_stream),
        ):
            check_function(f"`{said}` {place}", function)
        state = "write `StateFlow(pa.schema({'n': pa.int64()}))`"
        check_kind(f"`state` {place}", self.state, (StateFlow, NoneType), state)
        check_kind(f"`version` {place}", self.version, (str, NoneType), "write a text")
        if not isinstance(self.framing, Mapping):
            raise misused(f"`framing` {place}", self.framing, "write `{'changes': 'day'}`")
        for flow, framing in self.framing.items():
            if not (isinstance(framing, str) or callable(framing)):
                named = f"the framing of `{flow}` {place}"
                raise misused(named, framing, "write a column, or a function of a row")

    def _check_names(self) -> None:
        if STATE in self.inputs or STATE in self.outputs:
            message = (
                f"stage `{self.name}`: `{STATE}` is the flow that leads back to it; name the flow "
                "otherwise, and say what the state is by `state`"
            )
            raise StageError(message)
        schemas = {**self.outputs, **({} if self.state is None else {STATE: self.state.columns})}
        for flow, schema in schemas.items():
            for field in schema:
                if not _can_be_stored(field.type):
                    message = (
                        f"stage `{self.name}`: column {field.name} of `{flow}` is of "
                        f"{field.type}, which cannot be stored; declare the type of its values"
                    )
                    raise StageError(message)
            hidden = [name for name in schema.names if name.startswith("_")]
            if hidden:
                message = (
                    f"stage `{self.name}`: columns that begin with _ are headgate's own; rename "
                    f"{', '.join(hidden)}"
                )
                raise StageError(message)

    def _check_routes(self) -> None:
        each = [name for name, flow in self.inputs.items() if flow.route_by is Route.EACH]
        if each and not self.is_by_unit:
            message = (
                f"stage `{self.name}`: each unit of {', '.join(f'`{name}`' for name in each)} is a "
                "group by itself, which has neither a state nor units of another flow; give it a "
                "`route_by`"
            )
            raise StageError(message)
        if each and self.translate_stream is not None:
            message = (
                f"stage `{self.name}`: each unit of {', '.join(f'`{name}`' for name in each)} is a "
                "group by itself, of which there is nothing to stream; give it `translate` or "
                "`translate_tables`, or the flow a `route_by`"
            )
            raise StageError(message)
        state = self.state
        if state is not None and state.match is Match.ROW and state.order_by is None:
            message = (
                f"stage `{self.name}`: rows of its state are told apart by their order; give the "
                "state an `order_by`, or match by group"
            )
            raise StageError(message)

    def _check_fused(self) -> None:
        for kind, fused, flows in (
            ("input", self.before, self.inputs),
            ("output", self.after, self.outputs),
        ):
            for flow in fused:
                if flow not in flows:
                    message = (
                        f"stage `{self.name}` has no {kind} flow `{flow}` with which stages could "
                        f"be fused, but {', '.join(flows) or 'none'}"
                    )
                    raise StageError(message)
        for flow, through in self.before.items():
            if through:
                self._check_columns(flow, self.inputs[flow], through[-1])

    def _check_columns(self, flow: str, spec: InputFlow, last: Fused) -> None:
        for by in (spec.route_by, spec.order_by):
            names = (by,) if isinstance(by, str) else by
            for name in names if isinstance(names, tuple) else ():
                if name not in last.columns.names:
                    message = (
                        f"stage `{self.name}`, input flow `{flow}`: there is no column {name} in "
                        f"`{last.flow}` of stage `{last.stage.name}`, through which it comes; it "
                        f"has {', '.join(last.columns.names)}"
                    )
                    raise StageError(message)

    @property
    def emitted(self) -> Mapping[str, pa.Schema]:
        """Columns by output flow, of what others read."""
        return {
            flow: self.after[flow][-1].columns if self.after.get(flow) else columns
            for flow, columns in self.outputs.items()
        }

    @property
    def code(self) -> str:
        """Its version, and those of the stages that are fused with it."""
        fused = [
            f"`{flow}` {through} `{each.stage.name}`.{each.flow} ({each.stage.code})"
            for through, flows in (("from", self.before), ("through", self.after))
            for flow, stages in sorted(flows.items())
            for each in stages
        ]
        return ", ".join([self.version or _UNVERSIONED, *fused])

    @property
    def goes_by_code(self) -> bool:
        """True if every change of code counts: the stage, or one fused with it, has no version."""
        fused = (
            each.stage
            for some in (self.before, self.after)
            for one in some.values()
            for each in one
        )
        return self.version is None or any(stage.goes_by_code for stage in fused)

    @property
    def is_by_unit(self) -> bool:
        """Whether each unit is translated by itself, without a state: nothing is shuffled."""
        each = all(flow.route_by is Route.EACH for flow in self.inputs.values())
        return each and self.state is None


def schema_of(types: Types) -> pa.Schema:
    """Return the schema of columns whose types may be given by name, such as ``int64``.

    Raises:
        StageError: there is no type of that name.
    """
    if isinstance(types, pa.Schema):
        return types
    wanted = "write names and types, such as `{'row': 'string', 'n': 'int64'}`, or Arrow's schema"
    check_each("what is given as columns", types, (str, pa.DataType), wanted)
    try:
        return pa.schema(
            [
                (name, _type_of(kind) if isinstance(kind, str) else kind)
                for name, kind in types.items()
            ]
        )
    except ValueError as error:
        message = (
            f"{error}; types are Arrow's, such as string, int64, double, bool, binary, "
            "timestamp[us, tz=UTC], decimal(20, 2)"
        )
        raise StageError(message) from error


def times_as_text(schema: pa.Schema) -> pa.Schema:
    """Return a schema as JSON is read for it, with times as text that is cast afterwards.

    Arrow would have days as numbers, drop the zone of a time, and take one without for UTC.
    """
    return pa.schema(
        [
            field.with_type(pa.string())
            if types.is_date(field.type) or types.is_timestamp(field.type)
            else field
            for field in schema
        ]
    )


def _type_of(name: str) -> pa.DataType:
    if zoned := _ZONED.fullmatch(name):
        return pa.timestamp(zoned[1], zoned[2])
    if digits := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(digits[1]), int(digits[2]))
    return pa.type_for_alias(name)


_ZONED: Final = re.compile(r"timestamp\[(\w+), ?tz=(.+)\]")
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")


def _can_be_stored(kind: pa.DataType) -> bool:
    """Return whether rows of a type are files of their own, without anything beside them."""
    if isinstance(kind, pa.BaseExtensionType) or types.is_union(kind):
        return False
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return not types.is_dictionary(kind) and all(map(_can_be_stored, inner))
