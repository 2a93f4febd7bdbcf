"""What a dataflow is on its agent, and how far it has come: what all parts of a runtime look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Protocol

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import Continuation
from headgate.agent.dataflow.views import Phase
from headgate.agent.errors import Refused
from headgate.agent.parts import Part
from headgate.agent.state.log_segments import first_segment
from headgate.agent.state.saved_state import FlowProgress
from headgate.agent.state.store import Ownership
from headgate.engine import ActionRole, Engine, Launch, RecordArrived, SavedEngine, Stimulus
from headgate.events import ControlMessage, Cut, updates_topic
from headgate.flows import Dataflow

COUNTER_BITS = 32
"""Of fencing tokens and revisions of watches: the epoch above, a counter within it below."""


class RuntimePort(Protocol):
    """What parts of a runtime ask of it."""

    def handle(self, stimulus: Stimulus) -> None:
        """Have the engine take a stimulus, save, and carry its instructions out."""

    def arrive(
        self, arrived: list[RecordArrived], note: Callable[[RecordArrived], None], now: float
    ) -> None:
        """Have the engine take records; each is noted, and not in the list any more."""

    def ask(
        self,
        continuation: Continuation,
        tables: Iterable[str],
        now: float,
        prelude: ControlMessage | None = None,
    ) -> None:
        """Ask for a barrier; ``prelude`` is published first, so that who marks has obeyed it."""

    def save(self, now: float) -> None:
        """Save a checkpoint."""

    def settle(self) -> None:
        """Have waves settle that have come to rest."""


class FlowState(Part):
    """One dataflow, as its definition says and as its last checkpoint left it.

    Args:
        ownership: what the state row held when the dataflow was taken over.
        dataflow: the definition, read.
        context: the ports.
        progress: as it was saved.
    """

    def __init__(
        self,
        ownership: Ownership,
        dataflow: Dataflow,
        context: RuntimeContext,
        progress: FlowProgress,
    ) -> None:
        saved = ownership.state
        self.definition = ownership.definition
        self.dataflow = dataflow
        self.name = dataflow.name
        self.epoch = ownership.epoch
        self.phase = Phase.STARTING
        self.restored = saved is not None
        """Whether an agent before this one has left a checkpoint."""
        self.engine = Engine(
            dataflow.spec,
            None
            if saved is None
            else SavedEngine(
                saved.snapshot, saved.log.kept, context.store.segments(saved.log.kept)
            ),
            incarnation=f"{int(ownership.definition.submitted * 1000):x}",
            storage=context.storage,
            log_number=first_segment(ownership.epoch),
            policies=context.policies,
        )
        self.paused = progress.paused
        self.watching = progress.watching
        """Whether its watches have been in effect."""
        self.start = progress.start
        """Where reading began."""
        self.quarantined = dict(progress.quarantined)
        """Why, by action."""
        self.topics: dict[str, int] = {}
        """Numbers of partitions of the topics that are read."""
        self.draining = False
        """Whether no further attempt is started."""
        self.withdrawn = False
        """Whether the dataflow is being removed."""
        self.dirty = False
        """Whether something is to be saved."""

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {
            "paused": self.paused,
            "watching": self.watching,
            "start": self.start,
            "quarantined": dict(self.quarantined),
        }

    @property
    def working(self) -> Phase:
        """The phase of a dataflow whose watches are in effect."""
        return Phase.PAUSED if self.paused else Phase.RUNNING

    @property
    def position(self) -> Cut:
        """Up to where everything was consumed."""
        return self.from_start(self.engine.cut)

    def from_start(self, position: Cut) -> Cut:
        """Raise a cut to where reading began: the engine counts partitions it has not seen as 0."""
        raised = dict(position.offsets)
        for topic, first in self.start.offsets.items():
            known = raised.get(topic, first)
            raised[topic] = tuple(
                at if at < 0 else max(begun, at)  # what is lost stays so
                for begun, at in zip_longest(first, known, fillvalue=0)
            )
        return Cut(raised)

    def since(self, launch: Launch) -> Cut:
        """Return from where on the step has seen nothing; what no run has met begins as we did."""
        return Cut({**self.start.offsets, **launch.since.offsets})

    def partitions(self, tables: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each table's topic."""
        return {table: self.topics[updates_topic(table)] for table in tables}

    def require_step(self, action: str) -> None:
        """Raise unless an action is one that is launched.

        Raises:
            Refused: there is no such action, or it is fed from outside.
        """
        for spec in self.dataflow.spec.actions:
            if spec.name == action:
                if spec.role is ActionRole.INPUT:
                    raise Refused(f"{action!r} of {self.name} is fed from outside; it never runs")
                return
        known = ", ".join(a.name for a in self.dataflow.spec.actions if a.role is ActionRole.STEP)
        raise Refused(f"{self.name} has no action {action!r}; it has: {known}")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The actions that are fed from outside."""
        return tuple(a.name for a in self.dataflow.spec.actions if a.role is ActionRole.INPUT)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of all containers."""
        return tuple(
            dict.fromkeys(
                table
                for watched in self.dataflow.spec.containers
                for table in watched.container.tables
            )
        )

    def tables_written(self, actions: Iterable[str]) -> tuple[str, ...]:
        """Tables the actions say they write; all of the dataflow's, if one of them says nothing."""
        spec = self.dataflow.spec
        writes = [action.writes for action in spec.actions if action.name in set(actions)]
        if not all(writes):
            return self.tables
        named = {container for containers in writes for container in containers}
        return tuple(
            dict.fromkeys(
                table
                for watched in spec.containers
                if watched.id in named
                for table in watched.container.tables
            )
        )
