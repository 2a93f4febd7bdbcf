"""What the decisions of one dataflow depend on: all that a checkpoint saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.engine.actions.action import Action, ActionInputs
from headgate.engine.actions.factory import policies_of
from headgate.engine.actions.graph import CellsPlace, Graph
from headgate.engine.actions.runs import RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.storage import MemoryStorage, Storage
from headgate.engine.intake.duplicates import Deliveries
from headgate.engine.intake.rivals import Rivals
from headgate.engine.protocol.increments import FlowTaken
from headgate.engine.spec.dataflow import DataflowSpec, check_specification
from headgate.engine.spec.stages import FlowId
from headgate.engine.stages.connector import Connector
from headgate.engine.stages.garbage import needed
from headgate.engine.stages.rebuilding import Unrebuildable, rebuilt_together
from headgate.engine.stages.runnables.runnable import listed
from headgate.engine.stages.turns import (
    Hold,
    OutputFlow,
    Reader,
    Turn,
    first_of_circle,
    hold_of,
)
from headgate.engine.triggers.policy import PolicyFactory, TriggerPolicy
from headgate.engine.tuning.resources import Machines
from headgate.events import GONE, Cut, Dated

READING = "its cells are being read again"
ASKING = "its trigger waits for an answer"
ANSWERED = (READING, ASKING)
"""What keeps an action from being evaluated, and goes by itself."""


class EngineState:
    """The state of one dataflow's decisions; see ``Engine`` for the arguments."""

    def __init__(
        self,
        spec: DataflowSpec,
        *,
        incarnation: str = "",
        storage: Storage | None = None,
        policies: PolicyFactory = policies_of,
    ) -> None:
        check_specification(spec)
        self.policies_of = policies
        self.spec = spec
        self.incarnation = incarnation
        self.paused = False
        self.now = 0.0
        """The time of the last stimulus, in Unix seconds."""
        self.saved_at = 0.0
        """When the state was saved from which this one was restored."""
        self.deliveries = Deliveries()
        self.rivals: dict[str, Rivals] = {}
        """By table."""
        self.dated: dict[str, Dated] = {}
        """Versions and delete markers dated ahead, by table."""
        self.retired: dict[str, int] = {}
        """Runs of actions that the specification had before, by name: ids of runs never repeat."""
        self.machines = Machines()
        self._storage: Storage = storage or MemoryStorage()
        self.build(policies(spec), {})

    def build(
        self,
        policies: Mapping[str, TriggerPolicy],
        known: Mapping[CellsPlace, ContainerCells],
    ) -> None:
        """Make actions and cells of the specification; those that are ``known`` go on as they are.

        What else the former ones knew has to be restored.
        """
        self.graph = Graph(self.spec, policies, self._storage, known)
        self.actions = self.graph.actions
        self.cells = self.graph.cells

    @property
    def cut(self) -> Cut:
        """Where each topic is to be read on: everything before was taken in."""
        return self.deliveries.cut

    @property
    def begun(self) -> frozenset[str]:
        """The actions that have run, or are running, since they are in the dataflow."""
        return frozenset(
            name
            for name, action in self.actions.items()
            if action.last is not None or action.run is not None
        )

    def rivals_of(self, table: str) -> Rivals:
        """Return the observers that publish updates of a table."""
        rivals = self.rivals.get(table)
        if rivals is None:
            rivals = self.rivals[table] = Rivals()
        return rivals

    def dated_of(self, table: str) -> Dated:
        """Return what is dated ahead in a table."""
        dated = self.dated.get(table)
        if dated is None:
            dated = self.dated[table] = Dated()
        return dated

    def obstacle(self, action: Action) -> str | None:
        """Return what keeps an action from being evaluated now; None where nothing does."""
        standing = self._standing(action)
        if standing is not None:
            return standing
        if action.stage is not None and action.stage.wanted.maintains:
            return None  # it makes no increments
        hold = self.hold(action)
        return None if hold is None else f"it is held: {hold.words}"

    def _standing(self, action: Action) -> str | None:
        """Return what keeps it, besides those that read its flows."""
        if action.state is RunState.QUARANTINED:
            return "it is in quarantine"
        if action.run is not None:
            return f"run {action.run.run} is active"
        awaited = self.graph.awaited(action)
        if awaited:
            return f"{', '.join(f'`{name}`' for name in awaited)} has not run yet"
        if action.stage is not None and action.stage.awaited:
            makers = {action.stage.spec.inputs[flow].action for flow in action.stage.awaited}
            return f"its state is made anew after that of {listed(tuple(sorted(makers)))}"
        if self.paused:
            return "the dataflow is paused"
        if action.stage is not None and not self.has_place:
            return "others run, and no place is free"
        if action.asking or (action.stage is not None and action.stage.asked is not None):
            return ASKING
        return READING if action.reading else None

    @property
    def has_place(self) -> bool:
        """Whether a stage can run beside those runs that are under way."""
        places = self.spec.places
        if places is None:
            return True
        runs = (action.run for action in self.actions.values())
        return sum(run is not None and run.retry_at is None for run in runs) < places

    def hold(self, action: Action) -> Hold | None:
        """Return which readers of its flows hold a stage; None where none do.

        Of stages that hold each other in a circle the one goes on whose turn it is.
        """
        hold = self._hold(action)
        if hold is None or self.first_of_circle(action) is action:
            return None
        return hold

    def first_of_circle(self, action: Action) -> Action | None:
        """Return which stage goes on where a held one is in a circle of them; None: it waits."""
        first = first_of_circle(
            action.name, self._holders, lambda name: self.turn(self.actions[name])
        )
        return None if first is None else self.actions[first]

    def turn(self, action: Action) -> Turn:
        """Return the place of a stage among those that are due."""
        held_since = None if action.stage is None else action.stage.held_since
        return Turn(action.number, self.now if held_since is None else held_since)

    def _hold(self, action: Action) -> Hold | None:
        if action.stage is None:
            return None
        return hold_of(
            OutputFlow(flow, tuple(self._readers(FlowId(action.name, flow))))
            for flow in action.stage.spec.outputs
        )

    def _readers(self, flow: FlowId) -> Iterable[Reader]:
        for action, name in self.graph.readers.get(flow, ()):
            if action.stage is not None:
                view = action.stage.connectors[name].view()
                more = bool(view.unread) and name in action.policy.needs_more(self._inputs(action))
                yield Reader(action.name, view, action.stage.spec.backlog, more)

    def _holders(self, name: str) -> tuple[str, ...] | None:
        """Return who holds a stage that is due; None where it is not."""
        action = self.actions[name]
        if self._standing(action) is not None:
            return None
        if (
            not action.requested
            and not action.policy.explain(self._inputs(action), self.now).reached
        ):
            return None
        hold = self._hold(action)
        return () if hold is None else hold.holders

    def _inputs(self, action: Action) -> ActionInputs:
        return ActionInputs(action, self.now)

    def needed_increments(self, made_by: str | None = None) -> frozenset[str]:
        """Return the names of increments that a stage may still read, of all or of one action."""
        return needed(
            (c for c in self._connectors() if made_by in {None, c.source.action}),
            (part for part in self._taken() if made_by in {None, part.source.action}),
        )

    def _connectors(self) -> Iterable[Connector]:
        for action in self.actions.values():
            if action.stage is not None:
                yield from action.stage.connectors.values()

    def _taken(self) -> Iterable[FlowTaken]:
        for action in self.actions.values():
            if action.run is not None:
                yield from action.run.taken.values()

    def rebuilt_together(self, action: str, *, with_sources: bool) -> tuple[str, ...]:
        """Return the stages that are rebuilt with one, itself included, makers first.

        Raises:
            Unrebuildable: it is no stage, or its inputs do not come anew.
        """
        flows = {name: a.stage.spec for name, a in self.actions.items() if a.stage is not None}
        if action not in flows:
            raise Unrebuildable(f"{action!r} is no stage and has no state")
        return rebuilt_together(action, flows, with_sources=with_sources)

    def parked(self, action: Action) -> str | None:
        """Return what a run waits for that somebody asked for; None where no such run waits."""
        return self.obstacle(action) if action.requested else None

    def ready_followers(self, action: Action) -> list[Action]:
        """Return the successors that nothing keeps from being evaluated any more."""
        return [a for a in self.graph.successors[action.name] if self.obstacle(a) is None]

    def lose_updates(self, topic: str, partition: int = 0, *, anew: bool = False) -> None:
        """Have whoever reads changes from the last cut on learn that some are missing.

        With ``anew`` offsets may have begun anew, so that those of before say nothing.
        """

        def lose(cut: Cut) -> Cut:
            return cut.moved(topic, partition, GONE) if anew else cut.lost(topic, partition)

        for action in self.actions.values():
            action.seen = lose(action.seen)
            if action.run is not None:
                action.run.since, action.run.cut = lose(action.run.since), lose(action.run.cut)

    def actions_after(self, inputs: Iterable[str]) -> frozenset[str]:
        """Return the actions that follow inputs from which something has come, however far."""
        found: set[str] = set()
        waiting = [name for name in inputs if self.actions[name].has_run]
        while waiting:
            for action in self.graph.successors[waiting.pop()]:
                if action.name not in found:
                    found.add(action.name)
                    waiting.append(action.name)
        return frozenset(found)
