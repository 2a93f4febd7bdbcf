"""Description of a stage for those who do not run it: its flows, and the columns it names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec import Struct

from headgate.incremental.stages.specification import InputFlow, Outer, Route, StageSpec


class DescribedInput(Struct, frozen=True):
    """An input flow of a stage."""

    columns: tuple[str, ...] = ()
    """Columns by which its units are routed and ordered; none where other stages come before."""
    goes_to_all: bool = False
    """True if each of its units goes to all groups of the run."""


class DescribedStage(Struct, frozen=True):
    """The flows of a stage."""

    name: str
    inputs: dict[str, DescribedInput]
    outputs: dict[str, bytes]
    """Columns by output flow: Arrow's schema, serialised."""
    reads_all_groups: bool
    """True if each run is of all groups that the state has."""

    def columns(self, flow: str) -> pa.Schema:
        """Return the columns of an output flow."""
        return pa.ipc.read_schema(pa.py_buffer(self.outputs[flow]))


def described(stage: StageSpec) -> DescribedStage:
    """Return what can be said of a stage without running it."""
    return DescribedStage(
        stage.name,
        {
            name: DescribedInput(
                () if stage.before.get(name) else tuple(_named(flow)),
                flow.route_by is Route.ALL,
            )
            for name, flow in stage.inputs.items()
        },
        {flow: columns.serialize().to_pybytes() for flow, columns in stage.emitted.items()},
        stage.state is not None and stage.state.outer is Outer.FULL,
    )


def _named(flow: InputFlow) -> Iterator[str]:
    for by in (flow.route_by, flow.order_by):
        if isinstance(by, str):
            yield by
        elif isinstance(by, tuple):
            yield from by
