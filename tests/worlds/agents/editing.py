"""The file of a dataflow, which is edited while its agents live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.oracle import Base
from msgspec.structs import replace

from agents.dataflows import DataflowFile
from agents.oracle import Commits, differing, start_of
from agents.world import LEASE
from headgate.engine import DataflowSpec
from headgate.events import ContainerId, UpdateBatch, updates_topic
from headgate.flows import parse_dataflow

if TYPE_CHECKING:
    from agents.life import AgentLife


class Editing:
    """What is submitted, and from where on its containers count.

    Args:
        life: of the agents.
        file: the dataflow as its file says it.
    """

    def __init__(self, life: AgentLife, file: DataflowFile) -> None:
        self._life = life
        self._chance = life.chance
        self._world = life.world
        self._file = file
        self._bases: dict[tuple[str, str], Base | None] = {}
        self._read_late: set[tuple[str, str]] = set()
        """Actions, and tables that they have not read from the submit on."""
        self.shadow = False
        """Whether it was submitted to decide and launch nothing."""

    def begin(self) -> None:
        """Have containers count from the first submit on."""
        for action, container, base in start_of(self._life):
            self._bases[action, container] = base

    def make_eager(self) -> None:
        """Submit the file with each limit so low that it is reached at once, launching."""
        self._file.eager = self._file.has_aside = True
        self.submit(shadow=False)

    def base(self, action: str, container: ContainerId) -> Base | None:
        """Return from where on a container counts for an action; None where nobody can say."""
        known = None if self._life.rehearsed else self._bases.get((action, container))
        cut = self._commits.cuts.get(action)
        if known is None or cut is None:
            return known
        topics = {
            updates_topic(table)
            for watched in self._life.spec.containers
            if watched.id == container
            for table in watched.container.tables
        }
        if any(topic not in cut.offsets or cut.has_lost(topic) for topic in topics):
            return None
        later = {
            topic: tuple(
                max(at, known.cut.position(topic, p)) for p, at in enumerate(cut.offsets[topic])
            )
            for topic in topics
        }
        return Base(type(cut)(later), 0)

    @property
    def _commits(self) -> Commits:
        assert isinstance(self._world.commits, Commits)
        return self._world.commits

    def told_rows(self, action: str, table: str) -> set[bytes]:
        """Return the rows of which somebody told since the submit; none of what is read later."""
        if (action, table) in self._read_late:
            return set()
        topic = updates_topic(table)
        start = self._life.runtime.state.start
        return {
            row
            for partition, log in enumerate(self._world.topic(topic))
            for message in log[max(0, start.position(topic, partition)) :]
            if isinstance(message, UpdateBatch)
            for row, column in zip(message.rows, message.columns, strict=True)
            if column == b"c:v"
        }

    def edit(self) -> None:
        """Somebody edits limits, tables or waves, or begins or ends a rehearsal."""
        kind = self._chance.choice(("limits", "limits", "code", "tables", "waves", "shadow"))
        match kind:
            case "limits":
                self._file.limits()
            case "tables":
                self._file.has_aside = not self._file.has_aside
            case "waves":
                self._file.waves()
            case _:
                pass
        self.submit(shadow=self.shadow != (kind == "shadow"))

    def submit(self, *, shadow: bool) -> None:
        """Submit the file as it is now."""
        life, world = self._life, self._world
        if not life.works:
            return
        before = life.spec
        watched = {(a.name, b.container) for a, b in _bounds(before)}
        read = {action.name: before.tables(action) for action in before.actions}
        dataflow = parse_dataflow(self._file.text(), "file")
        former = life.runtime.state.definition
        folder = self._chance.choice((".", "other"))
        definition = world.store.define(
            replace(former, source=dataflow.source, directory=folder, shadow=shadow)
        )
        world.dataflow, self.shadow = dataflow, shadow
        life.people.ask_of(lambda runtime, now: runtime.commands.change(definition, dataflow, now))
        gone = before.tables() - life.spec.tables()
        for action in life.spec.actions:
            other = life.spec.tables(action) - read[action.name]
            self._commits.forget(action.name, {updates_topic(table) for table in gone | other})
            self._read_late |= {(action.name, table) for table in gone | other}
        others = differing(before.containers, life.spec.containers)
        for action, bound in _bounds(life.spec):
            place = (action.name, bound.container)
            if place not in watched or bound.container in others or gone:
                here = life.works and life.runtime.state.definition.revision == definition.revision
                self._bases[place] = Base(life.runtime.state.position, 0) if here else None
        life.disturbed()
        if not life.works:
            world.live_on(LEASE + 5.0)


def _bounds(spec: DataflowSpec) -> list[tuple[Any, Any]]:
    return [(action, bound) for action in spec.actions for bound in action.bounds]
