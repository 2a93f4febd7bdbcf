"""A dataflow as a graph: actions, containers and what connects them, with how each stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from headgate.agent.dataflow.views import ActionStatus, FlowStatus, Phase
from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.engine import (
    ActionExplanation,
    ActionSpec,
    BoundResult,
    ContainerExplanation,
    Explanation,
    VectorResult,
    leaves,
    write_condition,
)
from headgate.flows import Dataflow


class EdgeKind(StrEnum):
    """Meanings of an edge; in brackets the kinds of its ends."""

    AFTER = "after"
    """The target waits for the source (action to action)."""
    WRITES = "writes"
    """The source writes the target, or feeds it (action to container)."""
    READS = "reads"
    """The target reads the source (container to action)."""
    WATCHES = "watches"
    """A bound of the target watches the source (container to action)."""
    FLOW = "flow"
    """Increments go from the source to the target (action to action)."""


class Edge(Struct, frozen=True):
    """An edge, in the direction in which data or control goes.

    ``name`` is that of the bound, or the source's name of the flow; else it is empty.
    """

    kind: EdgeKind
    source: str
    target: str
    name: str = ""


class VectorFill(Struct, frozen=True):
    """One vector of a bound against its limit; see ``VectorResult``."""

    dimension: str
    value: float | None
    limit: float
    unit: str
    fill: float | None
    """Part of the limit that is reached, above 1 beyond it; None while it is not known."""
    reached: bool
    words: str


class BoundFill(Struct, frozen=True):
    """A bound with its present fill: that of the fullest of its vectors."""

    bound: str
    container: str
    reached: bool
    fill: float | None
    vectors: tuple[VectorFill, ...]


class LastRun(Struct, frozen=True):
    """The newest attempt of an action, and why it was made. Times are Unix seconds."""

    run: str
    attempt: int
    outcome: RunOutcome
    cause: str
    moment: str
    launched: float
    ended: float | None
    reason: str
    """Why it failed; empty where it did not."""


class ActionNode(Struct, frozen=True):
    """An action, and how it stands."""

    action: str
    description: str
    role: str
    state: str
    trigger: str
    """The kind of its trigger policy; empty for an input."""
    condition: str
    """Its condition over its bounds; empty where it has none."""
    reached: bool
    """True if all that it waits for is there."""
    words: str
    """Why it last ran, and what is missing for the next run."""
    missing: str
    runs: int
    skipped: int
    bounds: tuple[BoundFill, ...]
    last: LastRun | None


class ContainerNode(Struct, frozen=True):
    """A container, or files or a topic that stages read or write; these have no tables.

    ``elements`` is None while the first scan has not ended.
    """

    container: str
    tables: tuple[str, ...]
    elements: int | None
    unsettled: int
    """Cells that are to be read before a bound on values decides."""
    undecodable: int
    """Values that the codec could not read."""


class FlowGraph(Struct, frozen=True):
    """A dataflow at one moment. ``time`` in Unix seconds; actions stand in launch order."""

    name: str
    description: str
    time: float
    phase: Phase
    words: str
    revision: int
    shadow: bool
    profile: str | None
    actions: tuple[ActionNode, ...]
    containers: tuple[ContainerNode, ...]
    edges: tuple[Edge, ...]


def graph_of(dataflow: Dataflow, status: FlowStatus, explained: Explanation) -> FlowGraph:
    """Return a dataflow as a graph.

    Args:
        dataflow: the definition.
        status: how its owner sees it.
        explained: what its engine says of it.
    """
    specs = {action.name: action for action in dataflow.spec.actions}
    statuses = {action.name: action for action in status.actions}
    return FlowGraph(
        status.name,
        dataflow.description,
        explained.time,
        status.phase,
        status.words,
        status.revision,
        status.shadow,
        status.profile,
        tuple(
            _action(
                specs[one.action],
                dataflow.actions[one.action].description,
                statuses[one.action],
                one,
            )
            for one in explained.actions
        ),
        tuple(_containers(dataflow, explained.containers)),
        tuple(_edges(dataflow.spec.actions)),
    )


def _action(
    spec: ActionSpec, description: str, status: ActionStatus, explained: ActionExplanation
) -> ActionNode:
    condition = spec.effective_condition
    result = explained.result
    return ActionNode(
        spec.name,
        description,
        status.role,
        status.state,
        explained.trigger,
        "" if condition is None else write_condition(condition),
        result is not None and result.reached,
        explained.words,
        explained.missing,
        status.runs,
        status.skipped,
        () if result is None else tuple(map(_bound, leaves(result))),
        None if status.last is None else _last(status.last),
    )


def _bound(result: BoundResult) -> BoundFill:
    vectors = tuple(map(_vector, result.vectors))
    fills = [vector.fill for vector in vectors if vector.fill is not None]
    fill = max(fills, default=None)
    return BoundFill(result.bound, result.container, result.reached, fill, vectors)


def _vector(result: VectorResult) -> VectorFill:
    return VectorFill(
        result.dimension.value,
        result.value,
        result.limit,
        result.unit,
        result.fill,
        result.reached,
        result.words,
    )


def _last(record: RunRecord) -> LastRun:
    return LastRun(
        record.run,
        record.attempt,
        record.outcome,
        record.cause,
        record.moment,
        record.launched,
        record.ended,
        record.reason,
    )


def _containers(
    dataflow: Dataflow, explained: Iterable[ContainerExplanation]
) -> Iterator[ContainerNode]:
    parts: dict[str, list[ContainerExplanation]] = {}
    for part in explained:
        parts.setdefault(part.container, []).append(part)
    for watched in dataflow.spec.containers:
        known = parts.get(watched.id, [])
        scanned = bool(known) and all(part.scanned for part in known)
        yield ContainerNode(
            watched.id,
            watched.container.tables,
            sum(part.elements for part in known) if scanned else None,
            sum(part.unsettled for part in known),
            sum(part.dead_letters for part in known),
        )


def _edges(actions: Iterable[ActionSpec]) -> Iterator[Edge]:
    for action in actions:
        for name in action.after:
            yield Edge(EdgeKind.AFTER, name, action.name)
        for container in action.reads:
            yield Edge(EdgeKind.READS, container, action.name)
        for bound in action.bounds:
            yield Edge(EdgeKind.WATCHES, bound.container, action.name, bound.name)
        for container in action.writes:
            yield Edge(EdgeKind.WRITES, action.name, container)
        for source in () if action.stage is None else action.stage.inputs.values():
            yield Edge(EdgeKind.FLOW, source.action, action.name, source.flow)
