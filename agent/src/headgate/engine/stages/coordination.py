"""The stages of a dataflow: who is held, whose turn it is, and what runs take, make and give back.

The engine calls ``Stages`` at fixed points of an action's life, by the action's name. For an
action without flows nothing waits, nothing is taken, and nothing is put back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from headgate.engine.protocol.increments import FlowTaken, Produced
from headgate.engine.protocol.runnables import RunnableQuestion
from headgate.engine.protocol.work import Maintain, Ordinary, RunPurpose, Work
from headgate.engine.spec.dataflow import ActionSpec
from headgate.engine.spec.stages import FlowId
from headgate.engine.stages.connector import Take
from headgate.engine.stages.garbage import needed
from headgate.engine.stages.policy import TakesIncrements
from headgate.engine.stages.rebuilding import Unrebuildable, rebuilt_together
from headgate.engine.stages.runnables.runnable import listed
from headgate.engine.stages.stage import Stage, StageState
from headgate.engine.stages.turns import (
    Hold,
    OutputFlow,
    Reader,
    Turn,
    first_of_circle,
    hold_of,
)
from headgate.engine.triggers.policy import TriggerPolicy

ASKING = "its trigger waits for an answer"
"""What keeps an action from being evaluated until something outside the engine answers."""


class Dataflow(Protocol):
    """What stages have to know of the actions of their dataflow."""

    now: float
    """The time of the last stimulus, in Unix seconds."""

    @property
    def has_place(self) -> bool:
        """Whether a stage can run beside those runs that are under way."""

    def launches(self, action: str) -> int:
        """Return how many runs of an action were launched."""

    def is_due(self, action: str) -> bool:
        """Return whether an action would run if no reader of its flows held it."""


class Delivery(Struct, frozen=True):
    """Where the increments of a run went."""

    readers: tuple[tuple[str, str], ...] = ()
    """Each output flow with an action that reads it."""
    unknown: tuple[str, ...] = ()
    """Flows that the action does not have: their increments were left out."""
    more_waits: bool = False
    """Whether increments wait on the action's own input flows."""


class FlowExplanation(Struct, frozen=True):
    """What waits on an input flow of a stage, whose producer is held from ``backlog`` unread on.

    Increments with one framing key count as one in ``waiting`` and ``unread``; ``rows`` are those
    of all that have come, which may be more: the newest of a framing of one's own is not complete.
    """

    flow: str
    source: str
    waiting: int
    unread: int
    rows: int
    backlog: int


class StageFlows(Struct, frozen=True):
    """What waits for a stage, and which have something unread of it, for which it is held.

    Nothing of both for an action that is none.
    """

    flows: tuple[FlowExplanation, ...] = ()
    held_by: tuple[str, ...] = ()


class Stages:
    """The stages among the actions of one dataflow.

    Args:
        actions: all actions of the dataflow, predecessors first; those with flows are stages.
        policies: their trigger policies, by action.
        dataflow: knows the runs of all actions.
    """

    def __init__(
        self,
        actions: Iterable[ActionSpec],
        policies: Mapping[str, TriggerPolicy],
        dataflow: Dataflow,
    ) -> None:
        self._dataflow = dataflow
        self._takers: dict[str, TakesIncrements] = {}
        """By action, the policy that decides what its runs take."""
        self.by_action: dict[str, Stage] = {}
        """The flows of each stage."""
        self._readers: dict[FlowId, list[tuple[str, str]]] = {}
        """Actions that read a flow, and their name for it."""
        for action in actions:
            if action.stage is None:
                continue
            policy = policies[action.name]
            if isinstance(policy, TakesIncrements):
                self._takers[action.name] = policy
                self.by_action[action.name] = policy.stage
            else:
                self.by_action[action.name] = Stage(action.stage)
            for name, source in action.stage.inputs.items():
                self._readers.setdefault(source, []).append((action.name, name))

    # -- whether an action may be evaluated

    def evaluated_in_turn(self, action: str) -> bool:
        """Return whether an action is evaluated after the stimulus, in turn with others."""
        return action in self.by_action

    def made_anew_after(self, action: str) -> str | None:
        """Return in words after which actions the state is made anew; None: nothing is awaited."""
        stage = self.by_action.get(action)
        if stage is None or not stage.awaited:
            return None
        makers = {stage.spec.inputs[flow].action for flow in stage.awaited}
        return f"its state is made anew after that of {listed(tuple(sorted(makers)))}"

    def waits_for(self, action: str) -> str | None:
        """Return what keeps an action from being evaluated, besides readers of its flows."""
        stage = self.by_action.get(action)
        if stage is None:
            return None
        awaited = self.made_anew_after(action)
        if awaited is not None:
            return awaited
        if not self._dataflow.has_place:
            return "others run, and no place is free"
        return None if stage.asked is None else ASKING

    def question(self, action: str) -> RunnableQuestion | None:
        """Return what an action's runnable was asked and has not answered yet."""
        stage = self.by_action.get(action)
        return None if stage is None else stage.asked

    def waits_for_place(self, action: str) -> bool:
        """Return whether an action cannot run because too many others do."""
        return action in self.by_action and not self._dataflow.has_place

    def held(self, action: str) -> str | None:
        """Return in words which readers of its flows hold an action; None where none do."""
        stage = self.by_action.get(action)
        if stage is None or stage.wanted.maintains:
            return None  # maintenance makes no increments
        hold = self.hold(action)
        return None if hold is None else f"it is held: {hold.words}"

    # -- who waits for whom

    def hold(self, action: str) -> Hold | None:
        """Return which readers of its flows hold an action; None where none do.

        Of stages that hold each other in a circle the one goes on whose turn it is.
        """
        hold = self._hold(action)
        if hold is None or self._first_of_circle(action) == action:
            return None
        return hold

    def turn(self, action: str) -> Turn:
        """Return the place of an action among those that are due."""
        stage = self.by_action.get(action)
        held_since = None if stage is None else stage.held_since
        launches = self._dataflow.launches(action)
        return Turn(launches, self._dataflow.now if held_since is None else held_since)

    def note_held(self, action: str) -> str | None:
        """Note since when an action is held, if it is; return the one that goes on in its circle.

        None where it is not held, or in no circle: then it waits for those that hold it.
        """
        if self.hold(action) is None:
            return None
        stage = self.by_action[action]
        if stage.held_since is None:
            stage.held_since = self._dataflow.now
        return self._first_of_circle(action)

    def producers(self, action: str) -> Collection[str]:
        """Return the actions that feed an action's input flows."""
        stage = self.by_action.get(action)
        if stage is None:
            return ()
        return dict.fromkeys(source.action for source in stage.spec.inputs.values())

    def _hold(self, action: str) -> Hold | None:
        stage = self.by_action.get(action)
        if stage is None:
            return None
        return hold_of(
            OutputFlow(flow, tuple(self._readers_of(FlowId(action, flow))))
            for flow in stage.spec.outputs
        )

    def _readers_of(self, flow: FlowId) -> Iterable[Reader]:
        for action, name in self._readers.get(flow, ()):
            stage, taker = self.by_action[action], self._takers.get(action)
            view = stage.connectors[name].view()
            more = taker is not None and bool(view.unread) and name in taker.needs_more()
            yield Reader(action, view, stage.spec.backlog, more)

    def _first_of_circle(self, action: str) -> str | None:
        """Return which stage goes on where a held one is in a circle of them; None: it waits."""
        return first_of_circle(action, self._holders, self.turn)

    def _holders(self, action: str) -> tuple[str, ...] | None:
        """Return who holds a stage that is due; None where it is not."""
        if not self._dataflow.is_due(action):
            return None
        hold = self._hold(action)
        return () if hold is None else hold.holders

    # -- what a run takes, makes and gives back

    def begin(self, action: str, *, requested: bool) -> Work | RunnableQuestion:
        """Have a run that is due take what it reads; return its work.

        Or return the question to the action's runnable that has to be answered first. It is not
        asked about a rebuild that somebody has requested: that run takes the oldest of each flow.
        """
        stage = self.by_action.get(action)
        if stage is None:
            return Ordinary()
        taker = self._takers.get(action)
        take = Take(state=stage.remembered) if taker is None else taker.take()
        if isinstance(take, RunnableQuestion):
            if stage.wanted is not RunPurpose.REBUILD or not requested:
                return stage.ask(take)
            take = stage.everything()
        return stage.begin(take)

    def commit(self, action: str, work: Work, produced: Iterable[Produced]) -> Delivery:
        """Hand what a run has made to those that read it; return where it went."""
        stage = self.by_action.get(action)
        if stage is None:
            return Delivery()
        produced = tuple(produced)
        # What is to be made anew once more is not what its readers wait for.
        again = stage.wanted is RunPurpose.REBUILD
        purpose = RunPurpose.ADVANCE if again else work.purpose
        numbered = stage.number(produced)
        # Of a flow of which a rebuilt stage has made nothing, too, nothing else is to come.
        flows = stage.spec.outputs if purpose is RunPurpose.REBUILD else numbered
        readers: list[tuple[str, str]] = []
        for flow in flows:
            for reader, name in self._readers.get(FlowId(action, flow), ()):
                self.by_action[reader].deliver(name, numbered.get(flow, []), purpose)
                readers.append((flow, reader))
        return Delivery(
            tuple(readers),
            tuple(dict.fromkeys(one.flow for one in produced if one.flow not in stage.made)),
            any(view.waiting for view in stage.flows.values()),
        )

    def give_back(self, action: str, work: Work) -> None:
        """Put back what a run took that comes to nothing."""
        stage = self.by_action.get(action)
        if stage is not None:
            stage.give_back(work)

    def needed_increments(self, under_way: Iterable[Work], made_by: str | None) -> frozenset[str]:
        """Return the names of increments that a run may still read, of all or of one action.

        Args:
            under_way: the work of all runs that have not committed.
            made_by: the action whose increments are meant; those of all where None.
        """
        stages = self.by_action.values()
        connectors = (one for stage in stages for one in stage.connectors.values())
        taken: Iterable[FlowTaken] = (part for work in under_way for part in work.taken.values())
        return needed(
            (one for one in connectors if made_by in {None, one.source.action}),
            (part for part in taken if made_by in {None, part.source.action}),
        )

    # -- rebuilds and maintenance

    def rebuild(self, action: str) -> None:
        """Have the next run begin with an empty state, once all that it reads has come anew."""
        stage = self.by_action.get(action)
        if stage is not None:
            stage.rebuild(stage.spec.inputs)

    def is_made_anew(self, action: str) -> bool:
        """Return whether the next run is to begin with an empty state."""
        stage = self.by_action.get(action)
        return stage is not None and stage.wanted is RunPurpose.REBUILD

    def rebuilt_together(self, action: str, *, with_sources: bool) -> tuple[str, ...]:
        """Return the stages that are rebuilt with one, itself included, makers first.

        Raises:
            Unrebuildable: it is no stage, or its inputs do not come anew.
        """
        flows = {name: stage.spec for name, stage in self.by_action.items()}
        if action not in flows:
            raise Unrebuildable(f"{action!r} is no stage and has no state")
        return rebuilt_together(action, flows, with_sources=with_sources)

    def ask_for_maintenance(self, action: str, *, wholly: bool) -> str:
        """Have the next run maintain the state of an action; return why it cannot, or nothing.

        Args:
            action: with a state that a run has committed.
            wholly: whether all files are merged; what was asked for before is done in any case.
        """
        stage = self.by_action[action]
        if stage.wanted is RunPurpose.REBUILD:
            return "its state is made anew anyway"
        # What people ask for does all that upkeep would.
        wholly = wholly or stage.wanted is RunPurpose.COMPACT
        stage.wanted = RunPurpose.COMPACT if wholly else RunPurpose.UPKEEP
        return ""

    def needs_maintenance(self, action: str) -> bool:
        """Return whether the next run is to maintain the state, whatever else is due."""
        stage = self.by_action.get(action)
        return stage is not None and stage.wanted.maintains

    def maintain(self, action: str) -> Maintain:
        """Return the work of the run of an action that maintains its state."""
        return self.by_action[action].maintain()

    # -- questions to runnables

    def answer(self, action: str, answer: bytes | None, reason: str) -> bool:
        """Take what a runnable has answered, or why it has not; return whether it was awaited."""
        stage = self.by_action.get(action)
        return stage is not None and stage.answer(answer, reason)

    def forget_question(self, action: str) -> bool:
        """Await no answer of a runnable any more; return whether one was awaited."""
        stage = self.by_action.get(action)
        if stage is None or stage.asked is None:
            return False
        stage.asked = None
        return True

    def forget_answer(self, action: str) -> bool:
        """Have a runnable asked again, for it may answer something else; return whether it had."""
        stage = self.by_action.get(action)
        if stage is None or stage.answered is None:
            return False
        stage.answered = None
        return True

    def failure(self, action: str) -> str:
        """Return why an action's runnable said nothing of use; nothing where it did not fail."""
        stage = self.by_action.get(action)
        return "" if stage is None else stage.failure

    # -- what people and checkpoints know of it

    def explain(self, action: str) -> StageFlows:
        """Return what waits for an action and who holds it."""
        stage = self.by_action.get(action)
        if stage is None:
            return StageFlows()
        hold = self.hold(action)
        flows = []
        for name, connector in stage.connectors.items():
            view = connector.view()
            rows = sum(increment.rows for increment in connector.waiting)
            source, backlog = str(connector.source), stage.spec.backlog
            flows.append(FlowExplanation(name, source, view.waiting, view.unread, rows, backlog))
        return StageFlows(tuple(flows), () if hold is None else hold.holders)

    def save(self, action: str) -> StageState | None:
        """Return what is saved of an action's flows; None where it has none."""
        stage = self.by_action.get(action)
        return None if stage is None else stage.save()

    def load(self, action: str, saved: StageState | None) -> None:
        """Go on from what was saved, as far as flows and runnable are still the same."""
        stage = self.by_action.get(action)
        if stage is not None and saved is not None:
            stage.load(saved)

    def move_times(self, by: float) -> None:
        """Have everything happen so many seconds later, what is past included."""
        for stage in self.by_action.values():
            if stage.held_since is not None:
                stage.held_since += by
