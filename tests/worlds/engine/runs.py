"""The runs that an engine launches, what they consumed, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contradiction import require
from hostile_store import Cell

from engine import dataflows as flows
from engine.oracle import Base, Taken, pairs
from headgate.engine import FirstChanges, Launch, RunFailed, RunFinished, RunStarted
from headgate.engine.actions.runs import RunState
from headgate.events import GONE, ContainerId, Cut, Origin, UpdateKind, updates_topic

if TYPE_CHECKING:
    from engine.life import EngineLife


MOST_ATTEMPTS = 16
"""Attempts after which a run that never ends well must have been given up, however it fails."""


class Runs:
    """Runs under way, and from where on containers count for the next ones."""

    def __init__(self, life: EngineLife) -> None:
        self._life = life
        self._chance = chance = life.chance
        self._store = life.store
        self._poisoned = chance.choice((0.0, 0.0, 0.5))
        self._failing = chance.choice((0.35, 0.35, 0.9))
        self._deadly = {a.name for a in life.spec.actions if chance.random() < 0.05}
        """Actions whose every run ends its agent."""
        self._runs: dict[str, Launch] = {}
        self._shown: dict[str, set[str]] = {}
        """Topics that an action has read without a break since its newest launch."""
        self.taken = {a.name: [Taken({})] for a in life.spec.actions}
        self.committed: dict[str, Cut] = {}

    def begin(self, launch: Launch) -> None:
        """Take a launch, and look whether it has its reasons."""
        self._runs[launch.action] = launch
        words = f"{launch.run} is at its attempt {launch.attempt}"
        require(holds=launch.attempt <= MOST_ATTEMPTS, words=words)
        action = self._life.engine.actions[launch.action]
        if launch.attempt > 1:
            return
        self._life.oracle.history.take(self._store.topics)
        self._life.oracle.check_launch(action, launch)
        self._shown[launch.action] = {updates_topic(t) for t in self._life.spec.tables(action.spec)}
        taken = Taken({}, (self._life.lived, self._life.lived_at_most))
        for container in dict.fromkeys(bound.container for bound in action.spec.bounds):
            taken.bases[container] = self._base_now(container)
        self.taken[launch.action].append(taken)

    def _base_now(self, container: ContainerId) -> Base:
        known: dict | None = {}
        for cells in self._life.oracle.parts(container):
            if (
                known is None
                or not cells.scans.complete
                or cells.reads.unsettled
                or cells.columns.values is None
            ):
                known = None
            else:
                known[cells.table] = cells.columns.contents()
        return Base(self.position(), self._life.step, known)

    def position(self) -> Cut:
        """Return the engine's cut; of what Kafka has deleted nothing will come."""
        cut = self._life.engine.cut
        for topic, logs in self._store.topics.items():
            for partition in range(len(logs)):
                cut = cut.advanced(topic, partition, self._store.kept_from(topic, partition))
        return cut

    def base(self, action: str, container: ContainerId) -> Base | None:
        """Return from where on a container counts for an action; None where nobody can say."""
        return self.taken[action][-1].bases.get(container)

    def shows_everything(self, action: str) -> bool:
        """Return whether an action's first run is to be shown all that stands."""
        everything = self._life.engine.actions[action].spec.first_changes is FirstChanges.SNAPSHOT
        return everything and self._life.edits == 0

    def run_on(self) -> None:
        """Something comes of a run: it begins, ends well or badly, or ends its agent."""
        if not self._runs:
            return
        name = self._chance.choice(list(self._runs))
        launch = self._runs[name]
        if self._chance.random() < 0.5:
            self._life.handle(RunStarted(self._store.now, name, launch.run, launch.attempt))
            if self._chance.random() < self._poisoned:
                self._life.restart()
                return
            for _ in range(self._chance.randint(0, 2)):
                self._write_output(launch)
        if self._chance.random() < self._failing:
            del self._runs[name]
            self._life.handle(
                RunFailed(self._store.now, name, launch.run, launch.attempt, "by chance")
            )
        elif self._chance.random() < 0.7:
            self.finish(name)

    def _write_output(self, launch: Launch) -> None:
        written = next(a for a in self._life.spec.actions if a.name == launch.action).writes
        table = flows.OUTPUT if written == ("output",) else "t"
        cells = {}
        for _ in range(self._chance.randint(1, 6)):
            row, column = self._chance.choice(flows.ROWS), self._chance.choice(flows.COLUMNS[:2])
            cells[row, column] = Cell(row, column, UpdateKind.PUT, self._life.writing.value())
        origin = Origin(flows.NAME, launch.action, launch.run, launch.attempt)
        self._life.writing.write_cells(table, list(cells.values()), origin)
        for container, base in self.taken[launch.action][-1].bases.items():
            if table in {c.table for c in self._life.oracle.parts(container)}:
                base.known = None  # x′ follows what the action itself writes

    def finish(self, name: str) -> None:
        """Have a run end well, unless it ends its agent or waits for its next attempt."""
        launch = self._runs.pop(name, None)
        action = self._life.engine.actions[name]
        if launch is None:
            if action.state is RunState.BACKOFF:
                self._life.pass_time(60.0)
            return
        if name in self._deadly:
            self._life.handle(RunStarted(self._store.now, name, launch.run, launch.attempt))
            self._runs[name] = launch
            self._life.restart()
            return
        self._store.mark(flows.TABLES)
        self._life.delivery.deliver_all()
        if self._life.engine.actions[name].run is None:
            return
        stack = self.taken[name]
        self.taken[name] = stack[-1:]
        shown = launch.cut.only(self._shown[name])
        known = self.committed.get(name, Cut())
        self.committed[name] = Cut({**known.offsets, **shown.offsets})
        self._life.handle(RunFinished(self._store.now, name, launch.run, launch.attempt))

    def end(self, names: list[str]) -> None:
        """Have runs of these actions come to their end."""
        self._poisoned = 0.0
        for name in names:
            self.finish(name)

    def quarantined(self, name: str) -> None:
        """Take back what a run had consumed that was given up."""
        self._runs.pop(name, None)
        self.taken[name].pop()

    def forget(self) -> None:
        """Have whoever launched be gone."""
        self._runs.clear()

    def mend(self) -> None:
        """Have all runs end well from here on."""
        self._deadly.clear()
        self._failing = self._poisoned = 0.0

    def show_anew(self, action: str, topics: set[str]) -> None:
        """Have the next run of an action be shown everything of these topics, for an edit to come.

        A run that was launched before shows what the action read then, so its end changes nothing.
        """
        self._shown[action] = self._shown.get(action, set()) - topics
        known = self.committed.get(action)
        if known is not None:
            partitions = {topic: len(self._store.topic(topic)) for topic in topics}
            nothing = {topic: (GONE,) * number for topic, number in partitions.items()}
            self.committed[action] = Cut({**known.offsets, **nothing})

    def follow(self, watched: set[tuple[str, ContainerId]], step: int) -> None:
        """Have what is new in an edited dataflow begin at an engine's step.

        Args:
            watched: actions and containers that go on as they were.
            step: of the engine, at which it heard of the edit.
        """
        for action in self._life.spec.actions:
            read = {updates_topic(table) for table in self._life.spec.tables(action)}
            self._shown[action.name] = self._shown.get(action.name, read) & read
            known = self.committed.get(action.name)
            if known is not None:
                self.committed[action.name] = known.without(set(known.offsets) - read)
        watching = set(pairs(self._life))
        for name, stack in self.taken.items():
            for taken in stack:
                kept = {c: base for c, base in taken.bases.items() if (name, c) in watching}
                taken.bases = kept
        for action, container in watching:
            for taken in self.taken[action]:
                if (action, container) not in watched:
                    taken.bases[container] = Base(self.position(), step)
                elif container in taken.bases:
                    taken.bases[container].known = None
