"""The stage that people write, which runs as any step does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from headgate.incremental.stages.declared import check_each, check_kind, misused
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.framing import Framing
from headgate.incremental.stages.specification import (
    Fused,
    InputFlow,
    StageSpec,
    StateFlow,
    Translate,
    TranslateStream,
    TranslateTables,
    Types,
    schema_of,
)

if TYPE_CHECKING:
    from headgate.spark import Run


class Stage:
    """A stage of an incremental dataflow: what one of its runs costs is what has changed.

    Args:
        name: of the stage; the files of its state bear it.
        inputs: its input flows.
        outputs: by output flow the columns of its rows, with the names of Arrow's types.
        translate: called once for each group; or else one of the two that follow.
        translate_tables: called with many groups at once, for speed.
        translate_stream: called once for each group, with streams of its rows; a generator of what
            becomes of them. For groups that are larger than memory.
        state: what comes back in the next epoch; nothing where not given.
        over_open: the stage that runs instead of this one where an input flow is a container whose
            columns are not all declared, so that whole rows may go.
        version: of the code, as far as it matters to the state: after another one it is asked what
            is to become of a state. Left out, any change of the code is another version.
        framing: by output flow, a column or a function of a row whose values (whole numbers, text,
            days) are framing keys: rows that have one in common are one increment, which is read
            once one of another key is there. Left out, what an epoch makes is one increment.

    Raises:
        StageError: it is given no flow or no translation, several translations, a framing of what
            is no key, or rows that cannot be matched.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: Mapping[str, InputFlow],
        outputs: Mapping[str, Types],
        translate: Translate | None = None,
        translate_tables: TranslateTables | None = None,
        translate_stream: TranslateStream | None = None,
        state: StateFlow | None = None,
        version: str | None = None,
        framing: Mapping[str, Framing] | None = None,
        over_open: Stage | None = None,
    ) -> None:
        place = f"of stage `{name}`"
        check_each(f"`outputs` {place}", outputs, (pa.Schema, Mapping), _COLUMNS)
        check_kind(f"`over_open` {place}", over_open, (Stage, NoneType), "give another `Stage`")
        columns = {flow: schema_of(types) for flow, types in outputs.items()}
        self.spec: StageSpec = StageSpec(
            name,
            dict(inputs) if isinstance(inputs, Mapping) else inputs,
            columns,
            translate,
            translate_tables,
            translate_stream,
            state,
            version,
            dict(framing or {}) if isinstance(framing, Mapping | NoneType) else framing,
            over_open=None if over_open is None else over_open.spec,
        )

    def flow(self, name: str) -> Fused:
        """Return one output flow of this stage, which is by unit, for another to be fused with.

        Raises:
            StageError: the stage is not by unit, has several input flows, or no such output flow.
        """
        return Fused(self.spec, name)

    def fused(
        self,
        *,
        before: Mapping[str, Fusible | Sequence[Fusible]] | None = None,
        after: Mapping[str, Fusible | Sequence[Fusible]] | None = None,
    ) -> Stage:
        """Return this stage with stages by unit as parts of it (paper: sections 2.2 and 4.4.1).

        They are translated in the pass that translates this one: what they make is neither written
        nor read, and what they drop before an input flow is not shuffled. The flows keep the names
        that they have here. A changed version of one of them is a change of this stage.

        Args:
            before: by input flow, through what its units go before they are routed: a stage with
                one output flow, a flow of one with several, or some of them in a row.
            after: by output flow, through what its rows go before anybody reads them.

        Raises:
            StageError: a flow is not there, a stage is not by unit, has several input flows, or
                several output flows of which none is named; or there is no column by which this
                one routes.
        """
        for said, parts in (("before", before), ("after", after)):
            if not isinstance(parts, Mapping | NoneType):
                raise misused(f"`{said}` of `fused`", parts, _FUSED)
        fronts, backs = dict(self.spec.before), dict(self.spec.after)
        for flow, some in (before or {}).items():
            fronts[flow] = (*_in_a_row(some), *fronts.get(flow, ()))
        for flow, some in (after or {}).items():
            backs[flow] = (*backs.get(flow, ()), *_in_a_row(some))
        found = copy(self)
        over_open = self.spec.over_open
        if over_open is not None:
            over_open = replace(over_open, before=fronts, after=backs)
        found.spec = replace(self.spec, before=fronts, after=backs, over_open=over_open)
        return found

    def __call__(self, run: Run) -> None:
        """Translate what has come, and have the run's commit make it the state."""
        from headgate.incremental.running import run_stage

        run_stage(self.spec, run)


Fusible: TypeAlias = Stage | Fused
"""A stage by unit with one output flow, or an output flow of one."""


_COLUMNS: Final = "write `{'counts': {'row': 'string', 'n': 'int64'}}`"
_FUSED: Final = "write `{'links': extract}`, with a stage by unit, a flow of one, or a list of such"


def _in_a_row(some: Fusible | Sequence[Fusible]) -> tuple[Fused, ...]:
    parts = (some,) if isinstance(some, Stage | Fused) else some
    if not isinstance(parts, Sequence):
        raise misused("what is fused", parts, _FUSED)
    for part in parts:
        check_kind("what is fused", part, (Stage, Fused), _FUSED)
    return tuple(map(_fused, parts))


def _fused(one: Fusible) -> Fused:
    if isinstance(one, Fused):
        return one
    flows = tuple(one.spec.outputs)
    if len(flows) != 1:
        message = (
            f"stage `{one.spec.name}` has output flows {', '.join(flows) or 'none'}, of which one "
            "goes on where it is fused with another; name it, as in `extract.flow('links')`"
        )
        raise StageError(message)
    return one.flow(flows[0])
