"""What the decisions of one dataflow depend on: all that a checkpoint saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.engine.actions.action import Action, ActionInputs
from headgate.engine.actions.factory import policies_of
from headgate.engine.actions.graph import CellsPlace, Graph
from headgate.engine.actions.makers import sources_of, topics_read
from headgate.engine.actions.runs import RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.storage import MemoryStorage, Storage
from headgate.engine.intake.duplicates import Deliveries
from headgate.engine.intake.rivals import Rivals
from headgate.engine.spec.dataflow import DataflowSpec, check_specification
from headgate.engine.stages.coordination import ASKING, Stages
from headgate.engine.stages.turns import Turn
from headgate.engine.triggers.policy import PolicyFactory, TriggerPolicy
from headgate.engine.tuning.resources import Machines
from headgate.events import GONE, Cut, Dated
from headgate.temporal import Reflections, ReflectionTracker

READING = "its cells are being read again"
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
        self.stages = Stages([one.spec for one in self.actions.values()], policies, self)
        self.cells = self.graph.cells
        self.reflect(Reflections())

    def reflect(self, known: Reflections) -> None:
        """Go on with what outputs are known to reflect."""
        self.topics_read = topics_read(self.spec)
        self.reflected = ReflectionTracker(sources_of(self.spec.actions), known)

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
        if standing is not None or action.name not in self.stages.by_action:
            return standing
        return self.stages.held(action.name)

    def _standing(self, action: Action) -> str | None:
        """Return what keeps it, besides those that read its flows."""
        if action.state is RunState.QUARANTINED:
            return "it is in quarantine"
        if action.run is not None:
            return f"run {action.run.run} is active"
        awaited = self.graph.awaited(action)
        if awaited:
            return f"{', '.join(f'`{name}`' for name in awaited)} has not run yet"
        if self.paused:
            return self.stages.made_anew_after(action.name) or "the dataflow is paused"
        if action.name in self.stages.by_action:
            waits = self.stages.waits_for(action.name)
            if waits is not None:
                return waits
        if action.asking:
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

    def launches(self, action: str) -> int:
        """Return how many runs of an action were launched."""
        return self.actions[action].number

    def is_due(self, action: str) -> bool:
        """Return whether an action would run if no reader of its flows held it."""
        one = self.actions[action]
        if self._standing(one) is not None:
            return False
        return one.requested or one.policy.explain(ActionInputs(one, self.now), self.now).reached

    def turn(self, action: Action) -> Turn:
        """Return the place of an action among those that are due."""
        return self.stages.turn(action.name)

    def needed_increments(self, made_by: str | None = None) -> frozenset[str]:
        """Return the names of increments that a stage may still read, of all or of one action."""
        runs = (action.run for action in self.actions.values())
        under_way = [run.work for run in runs if run is not None]
        return self.stages.needed_increments(under_way, made_by)

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
