"""Why each action last ran, and what is missing for it to run again."""

from __future__ import annotations

from msgspec import Struct

from headgate.engine.actions.action import Action, ActionInputs
from headgate.engine.actions.runs import PastRun, RunState
from headgate.engine.actions.state import EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.pending import Pending
from headgate.engine.protocol.adjustments import Assessment, Vote
from headgate.engine.spec.conditions import (
    ConditionResult,
    Dimension,
    PredecessorsResult,
    missing,
)
from headgate.engine.spec.dataflow import ActionRole
from headgate.engine.stages.coordination import FlowExplanation
from headgate.engine.triggers.bounds.measures import seconds_words
from headgate.engine.triggers.facets import PolicyReport
from headgate.engine.tuning.adjustment import Adjuster, together
from headgate.temporal import Reflections


class ActiveExplanation(Struct, frozen=True):
    """The run under way. ``retry_at`` (Unix seconds) while it waits for its next attempt."""

    run: str
    attempt: int
    launched_at: float
    words: str
    retry_at: float | None = None
    failure: str = ""
    result: ConditionResult | None = None
    """Its condition as it stood at the launch; None for a run that somebody asked for."""


class UpdatesExplanation(Struct, frozen=True):
    """Where the updates are that an action counted of one container's part in one table.

    ``counted`` since it was submitted; of them committed runs have ``consumed`` some, the run under
    way has ``taken`` some, and the rest is ``pending``.
    """

    container: str
    table: str
    counted: int
    consumed: int
    taken: int
    pending: int


class AdjusterExplanation(Struct, frozen=True):
    """Where the limits of a bound are in their intervals, and what both factors said last.

    ``share`` is 0 at the minimum and 1 at the maximum; ``writes`` and ``resources`` are None before
    the first vote.
    """

    bound: str
    share: float
    limits: dict[Dimension, float]
    moved: Vote
    moved_at: float | None
    writes: Assessment | None
    resources: Assessment | None
    words: str


class ActionExplanation(Struct, frozen=True):
    """One action, in data and in words.

    ``result`` is its condition as it stands now, None for an input. ``missing`` says what is needed
    for the next run; ``words`` says it all in two sentences.
    """

    action: str
    role: ActionRole
    state: RunState
    has_run: bool
    active: ActiveExplanation | None
    last: PastRun | None
    result: ConditionResult | None
    missing: str
    words: str
    updates: tuple[UpdatesExplanation, ...] = ()
    adjusted: tuple[AdjusterExplanation, ...] = ()
    policy: PolicyReport | None = None
    """Where its trigger policy is, if there is more to say than the result."""
    requested: bool = False
    """Whether somebody asked for a run that has not been launched yet."""
    flows: tuple[FlowExplanation, ...] = ()
    held_by: tuple[str, ...] = ()
    """The stages that have something unread of it, for which it is held."""
    runnable_failure: str = ""
    """What is wrong with its runnable, which said nothing of use; with a traceback where its code
    raised."""
    trigger: str = ""
    """The kind of its trigger policy; empty for an input."""


class ContainerExplanation(Struct, frozen=True):
    """What is known of a container's part in one table."""

    container: str
    table: str
    scanned: bool
    elements: int
    cells: int
    unsettled: int
    dead_letters: int
    """Values that the declared codec could not read; each counted as a change."""


class Explanation(Struct, frozen=True):
    """A dataflow at one moment."""

    dataflow: str
    time: float
    paused: bool
    actions: tuple[ActionExplanation, ...]
    containers: tuple[ContainerExplanation, ...]
    reflects: Reflections = Reflections()
    """Runs that outputs reflect: by action the last committed one, and what that had read."""


def explain_dataflow(state: EngineState, now: float) -> Explanation:
    """Return the explanation of all actions, predecessors first."""
    return Explanation(
        dataflow=state.spec.name,
        time=now,
        paused=state.paused,
        actions=tuple(_explain(state, action, now) for action in state.actions.values()),
        containers=tuple(
            ContainerExplanation(
                container=cells.watched.id,
                table=cells.table,
                scanned=cells.scans.complete,
                elements=cells.elements,
                cells=cells.columns.size,
                unsettled=len(cells.reads.unsettled),
                dead_letters=cells.columns.dead_letters,
            )
            for cells in state.cells.values()
        ),
        reflects=state.reflected.value,
    )


def _explain(state: EngineState, action: Action, now: float) -> ActionExplanation:
    result = None if action.is_input else current_result(action, now)
    needed = "" if result is None else _needed(state, action, result)
    run = action.run
    active = None
    if run is not None:
        active = ActiveExplanation(
            run.run,
            run.attempt,
            run.launched_at,
            run.cause.words,
            run.retry_at,
            run.failure,
            run.cause.result,
        )
    sentences = [_last_words(action, now)]
    if run is not None:
        sentences.append(_active_words(action, now))
    elif needed:
        sentences.append(f"The next run {needed}.")
    stage = state.stages.explain(action.name)
    if stage.flows:
        sentences.append(f"{_flow_words(stage.flows)}.")
    return ActionExplanation(
        action=action.name,
        role=action.spec.role,
        state=action.state,
        has_run=action.has_run,
        active=active,
        last=action.last,
        result=result,
        missing=needed,
        words=" ".join(sentences),
        updates=tuple(_updates(action, cells, pending) for cells, pending in action.all_parts()),
        adjusted=tuple(_adjusted(adjuster, now) for adjuster in action.adjusters),
        policy=None if action.reports is None else action.reports.report(),
        requested=action.requested,
        flows=stage.flows,
        held_by=stage.held_by,
        runnable_failure=state.stages.failure(action.name),
        trigger="" if action.is_input else action.policy.kind,
    )


def _flow_words(flows: tuple[FlowExplanation, ...]) -> str:
    counts = ", ".join(f"{flow.unread} of `{flow.flow}` ({flow.source})" for flow in flows)
    return f"Unread increments: {counts}"


def _adjusted(adjuster: Adjuster, now: float) -> AdjusterExplanation:
    state = adjuster.state
    writes, resources = state.last or (None, None)
    words = f"Bound `{adjuster.bound.name}` is {state.share:.0%} of the way to its maximum"
    if state.moved_at is not None:
        ago = seconds_words(max(0.0, now - state.moved_at))
        words += f", {_MOVED[state.moved]} {ago} ago"
    if writes is not None and resources is not None:
        outcome = together(writes.vote, resources.vote)
        words += (
            f". Last outcome: {outcome} (writes say {writes.vote}: {writes.words}; "
            f"resources say {resources.vote}: {resources.words})"
        )
    return AdjusterExplanation(
        bound=adjuster.bound.name,
        share=state.share,
        limits=adjuster.limits,
        moved=state.moved,
        moved_at=state.moved_at,
        writes=writes,
        resources=resources,
        words=f"{words}.",
    )


_MOVED = {Vote.RELAX: "relaxed", Vote.RESTRICT: "restricted", Vote.NONE: "moved"}


def _updates(action: Action, cells: ContainerCells, pending: Pending) -> UpdatesExplanation:
    taken = cells.watchers.consumed.get(action.name)
    return UpdatesExplanation(
        container=cells.watched.id,
        table=cells.table,
        counted=pending.received,
        consumed=pending.committed,
        taken=0 if taken is None else taken.updates,
        pending=pending.updates,
    )


def current_result(action: Action, now: float) -> ConditionResult:
    """Return the action's condition as it stands now."""
    return action.policy.explain(ActionInputs(action, now, read=True), now)


_NOBODY_PRECEDES = PredecessorsResult(reached=False, ended=(), waiting=())


def _needed(state: EngineState, action: Action, result: ConditionResult) -> str:
    parked = state.parked(action)
    if parked is not None:
        return f"was asked for and waits: {parked}"
    if action.state is RunState.QUARANTINED:
        return f"needs a release from quarantine ({action.failure})"
    awaited = state.graph.awaited(action)
    if awaited:
        return f"needs the first run of {' and '.join(f'`{name}`' for name in awaited)}"
    if result == _NOBODY_PRECEDES:
        return "has to be asked for"
    if state.paused:
        return "waits until the dataflow is resumed"
    question = state.stages.question(action.name)
    if question is not None:
        return f"waits for what `{question.entry}` says is to be read"
    if action.asking:
        return "waits for what its trigger has asked"
    if action.reading:
        return "waits for cells that are being read again"
    hold = state.stages.hold(action.name)
    if hold is not None:
        return f"is held: {hold.words}"
    if result.reached and state.stages.waits_for_place(action.name):
        return "waits for its turn: others run, and no place is free"
    if result.reached:
        return f"comes {_moments(state, action)}"
    return f"needs {missing(result)}"


def _moments(state: EngineState, action: Action) -> str:
    moments = []
    if action.moments.write:
        moments.append("at the next write")
    if action.moments.action_end:
        moments.append("when a predecessor ends")
    if action.moments.every is not None:
        moments.append(f"within {seconds_words(action.moments.every)}")
    if state.stages.producers(action.name):
        moments.append("when an increment comes")
    return " or ".join(moments)


def _last_words(action: Action, now: float) -> str:
    if action.is_input:
        return "Fed from outside." if action.has_run else "Fed from outside, nothing has come yet."
    if action.last is None:
        return "It has not run yet."
    ago = seconds_words(max(0.0, now - action.last.launched_at))
    return f"Run {action.last.run} started {ago} ago: {action.last.cause.words}."


def _active_words(action: Action, now: float) -> str:
    run = action.run
    if run is None:
        return ""
    if run.retry_at is not None:
        wait = seconds_words(max(0.0, run.retry_at - now))
        return f"Run {run.run} failed ({run.failure}) and is tried again in {wait}."
    ago = seconds_words(max(0.0, now - run.launched_at))
    return f"Run {run.run}, attempt {run.attempt}, began {ago} ago: {run.cause.words}."
