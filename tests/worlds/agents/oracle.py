"""What must be true of an agent's runtime, computed again from all that happened."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contradiction import require
from engine.oracle import Base, Oracle, bounded
from msgspec.structs import asdict
from simulation.worker import result_of

from agents.kafka import Damaged
from agents.world import HostileWorld
from headgate.agent.dataflow.views import WaveStatus
from headgate.engine import (
    ActionRole,
    ActionSpec,
    Dimension,
    FirstChanges,
    WatchedContainer,
    check_invariants,
)
from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunState
from headgate.engine.triggers.bounds.measures import current_limit
from headgate.events import (
    NOTHING_DATED,
    Cut,
    Gate,
    UpdateBatch,
    UpdateMessage,
    decode_dated,
    decode_update,
    updates_topic,
)
from headgate.spark import StepRequest
from headgate.spark.changes import ChangedCells
from headgate.spark.kafka.updates import is_broken, ranges_between
from headgate.spark.views import ContainerView

if TYPE_CHECKING:
    from agents.life import AgentLife

Rows = dict[bytes, dict[bytes, bytes]]
_LATE = 40.0
"""Seconds that what is due may take: barriers, scans, a checkpoint, observers that stop."""
_NEEDS = 150.0
"""Seconds by which what is said to be needed of Kafka may be behind: it is looked at each 30 s."""


@dataclass
class Copy:
    """A container as a step knows it that copies the rows which ``run.changes`` shows it."""

    rows: Rows = field(default_factory=dict)
    shown: set[bytes] = field(default_factory=set)
    whole: bool = False
    """Whether everything was shown once."""


class Commits(list[StepRequest]):
    """The attempts that committed, in their order, and what each was shown."""

    def __init__(self, world: HostileWorld) -> None:
        super().__init__()
        self._world = world
        self._runs: set[str] = set()
        self._results = {""}
        self.cuts: dict[str, Cut] = {}
        """What was shown of each action's topics by its last committed run."""
        self.copies: dict[tuple[str, str, str], Copy] = {}
        """By action, container and table."""

    def append(self, request: StepRequest) -> None:
        """Take note of a commit."""
        super().append(request)
        words = f"run {request.run} was committed twice"
        require(holds=request.run not in self._runs, words=words)
        self._runs.add(request.run)
        words = f"{request.run} goes on from {request.previous!r}, which no commit has named"
        require(holds=request.previous in self._results, words=words)
        self._results.add(result_of(request))
        self._check_since(request)
        for watched in request.containers:
            for table in watched.container.tables:
                self._show(request, watched, table)

    def _check_since(self, request: StepRequest) -> None:
        """Nothing lies between what a run was shown and what the next one is shown."""
        known = self.cuts.get(request.action, Cut())
        for topic, positions in known.offsets.items():
            for partition, limit in enumerate(positions):
                since = request.since.position(topic, partition)
                words = f"{request.run} begins at {since} of {topic}, the last ended at {limit}"
                require(holds=since <= limit, words=words)
        # An attempt that was given up may commit when later runs have: they keep their say.
        later = {
            topic: tuple(max(at, known.position(topic, p)) for p, at in enumerate(positions))
            for topic, positions in request.cut.offsets.items()
        }
        self.cuts[request.action] = Cut(later)

    def forget(self, action: str, topics: set[str]) -> None:
        """An action has not read topics until now, or reads them no more: it begins anew there."""
        if action in self.cuts:
            self.cuts[action] = self.cuts[action].without(topics)
        for (name, _, table), copy in self.copies.items():
            if name == action and updates_topic(table) in topics:
                copy.whole = False

    def _show(self, request: StepRequest, watched: WatchedContainer, table: str) -> None:
        items = tuple(item for item in watched.container.items if item.table == table)
        view = ContainerView(watched.id, table, items, watched.codec)
        place = (request.action, watched.id, table)
        copy = self.copies.setdefault(place, Copy())
        changed = self._changed(view, request)
        truth = rows_of(self._world, view)
        if changed is None:
            copy.rows, copy.whole = truth, True
            return
        for row in changed:
            copy.shown.add(row)
            copy.rows.pop(row, None)
            if row in truth:
                copy.rows[row] = truth[row]

    def _changed(self, view: ContainerView, request: StepRequest) -> set[bytes] | None:
        """Return the rows that a run is shown; None where it is shown everything."""
        topic = updates_topic(view.table)
        if is_broken(topic, request.since, request.cut):
            return None
        changed = ChangedCells(view, decode_dated(request.dated).get(view.table, NOTHING_DATED))
        for part in ranges_between(topic, request.since, request.cut):
            log = self._world.topic(topic)[part.partition]
            for message in log[part.start : part.stop]:
                readable = _readable(message)
                if readable is None:
                    return None
                changed.add(readable, part.partition)
        return None if changed.everything else {row for row, _ in changed.cells}


def _readable(message: object) -> UpdateMessage | None:
    """Return a record's message; None where it is gone or nobody can read it."""
    if not isinstance(message, Damaged):
        return message  # type: ignore[return-value]
    try:
        return decode_update(message.value or b"")
    except ValueError:
        return None


def rows_of(world: HostileWorld, view: ContainerView) -> Rows:
    """Return what stands in a container, by row."""
    found: Rows = {}
    for (row, column), value in world.tables.get(view.table, {}).items():
        if view.has(row, column):
            found.setdefault(row, {})[column] = value
    return found


class AgentOracle:
    """Compares a runtime with its world."""

    def __init__(self, life: AgentLife) -> None:
        self._life = life
        self._engines = Oracle(life)
        self._eligible: dict[str, float] = {}
        """Since when an action has waited for time alone."""

    # -- counts and contents ---------------------------------------------------------------------

    def look(self) -> None:
        """Look at an agent that has come to rest."""
        engine = self._life.engine
        self._engines.history.take(told_only(self._life.world))
        self._engines.check_contents()
        self._check_counts()
        self._check_gates()
        check_invariants(engine)
        engine.explain(self._life.world.now)

    def _check_counts(self) -> None:
        """Every update that was told since an action's last run counts."""
        for action in self._life.engine.actions.values():
            if action.run is not None:
                continue
            for bound in action.spec.bounds:
                base = self._life.base(action.name, bound.container)
                parts = action.parts[bound.container]
                if base is None or any(pending.uncounted for _, pending in parts):
                    continue
                updates, _, _ = self._engines.updates(action, bound, base)
                counted = sum(pending.updates for _, pending in parts)
                words = f"{action.name}, bound {bound.name}: {len(updates)} updates were told, "
                require(holds=counted >= len(updates), words=f"{words}{counted} count")

    def _check_gates(self) -> None:
        """Writers wait for a run that will come, and for no other."""
        engine, world = self._life.engine, self._life.world
        newest: dict[tuple[str, str], Gate] = {}
        for message in world.control:
            if isinstance(message, Gate):
                newest[message.action, message.bound] = message
        closed = {
            place
            for place, gate in newest.items()
            if not gate.released and gate.until > world.now + 1.0
        }
        blocking = {
            (a.name, b.name) for a in engine.actions.values() for b in a.spec.bounds if b.block
        }
        shadow = self._life.editing.shadow
        held = set() if shadow else set(engine.holding()) & blocking
        require(holds=held <= closed, words=f"nobody is held for {held - closed}")
        if not self._life.agents_ended:
            require(holds=closed <= held, words=f"writers are held for {closed - held}")
        for name, bound in held:
            action = engine.actions[name]
            words = f"writers wait for {bound} of {name}, which is {action.state}"
            require(holds=action.state is not RunState.QUARANTINED, words=words)
            running = action.state in (RunState.LAUNCHED, RunState.RUNNING)
            require(holds=not engine.state.paused or running, words=f"{words} in a paused dataflow")

    # -- time ------------------------------------------------------------------------------------

    def begin_anew(self) -> None:
        """Count no time from before: something has happened that may put runs off."""
        self._eligible.clear()

    def check_time(self) -> None:
        """No action waits for longer than its θ, whoever has it."""
        world, engine = self._life.world, self._life.engine
        for action in engine.actions.values():
            waits = (
                action.spec.role is ActionRole.STEP
                and action.state is RunState.IDLE
                and action.since is not None
                and not engine.state.graph.awaited(action)
                and not engine.state.paused
            )
            limit = _longest(action)
            if not waits or limit is None or action.spec.effective_evaluation.every is not None:
                self._eligible.pop(action.name, None)
                continue
            since = self._eligible.setdefault(action.name, world.lived)
            launched = [at for at, r in world.starts if r.action == action.name and at >= since]
            if launched:
                self._eligible[action.name] = world.lived
                continue
            passed = world.lived - since
            words = f"{action.name} rests for {passed:.0f} s, its θ is {limit:g} s"
            require(holds=passed <= limit + _LATE, words=words)

    def check_needs(self) -> None:
        """Kafka is asked to keep what next runs are to be shown."""
        world = self._life.world
        for action in self._life.engine.actions.values():
            cut = world.commits.cuts.get(action.name)
            # Of what was told again nobody knows when it was.
            unsure = self._life.leapt or self._life.writing.repeated
            if cut is None or action.run is not None or unsure:
                continue
            for topic in {updates_topic(t) for t in self._life.spec.tables(action.spec)}:
                if action.seen.has_lost(topic):
                    continue  # all that stands will be shown, for which Kafka keeps nothing
                age = self._oldest(topic, cut)
                said = world.needs.get(topic, 0.0)
                words = f"{action.name} needs what {topic} has of {age:.0f} s, {said:.0f} are said"
                require(holds=said >= age - _NEEDS, words=words)

    def _oldest(self, topic: str, cut: Cut) -> float:
        """Return the age of the oldest record of a topic behind a cut."""
        world = self._life.world
        ages = [0.0]
        for partition, log in enumerate(world.topic(topic)):
            at = cut.position(topic, partition)
            if topic not in cut.offsets or at < 0:
                continue
            for message in log[at:]:
                if isinstance(message, UpdateBatch):
                    ages.append(world.now - message.requests[-1].received)
                    break
        return max(ages)

    # -- answers ---------------------------------------------------------------------------------

    def check_settled(self, status: WaveStatus) -> None:
        """Whoever waited for a wave is told what kept steps from answering it."""
        engine = self._life.engine
        for name, action in engine.actions.items():
            if action.state is RunState.QUARANTINED:
                words = f"wave {status.wave} is settled, and nothing is said of `{name}`"
                told = any(f"`{name}` is in quarantine" in one for one in status.troubles)
                require(holds=told, words=words)
        if engine.state.paused:
            words = f"wave {status.wave} is settled, and not said that all is paused"
            require(holds=any("is paused" in one for one in status.troubles), words=words)

    # -- the end ---------------------------------------------------------------------------------

    def check_attempts(self) -> None:
        """Attempts are bounded, and no run has two that committed."""
        world = self._life.world
        tried: dict[str, set[int]] = {}
        for _, request in world.starts:
            tried.setdefault(request.run, set()).add(request.attempt)
        for run, attempts in tried.items():
            words = f"{run} was tried {len(attempts)} times"
            require(holds=len(attempts) <= self._life.most_attempts, words=words)

    def check_nothing_pending(self, names: Collection[str]) -> None:
        """All limits are one update, and all has come to rest: nothing is left over."""
        for action in self._life.engine.actions.values():
            if action.name not in names:
                continue
            words = f"{action.name} is {action.state} at the end: {self._life.said(action.name)}"
            require(holds=action.state is RunState.IDLE, words=words)
            for bound in action.spec.bounds:
                left = sum(p.updates for _, p in action.parts[bound.container])
                gaps = any(p.uncounted for _, p in action.parts[bound.container])
                words = f"{action.name}: {left} updates of {bound.container} are left at the end"
                words += f", gaps {gaps}: {self._life.said(action.name)}"
                require(holds=not left and not gaps, words=words)

    def check_shown(self) -> None:
        """Every row that has changed was shown to a run of each action that reads it."""
        for spec in self._life.spec.actions:
            if spec.role is ActionRole.INPUT or spec.name not in self._commits.cuts:
                continue
            for watched in self._life.spec.containers:
                if watched.id in spec.reads:
                    for table in watched.container.tables:
                        self._check_shown(spec, watched, table)

    @property
    def _commits(self) -> Commits:
        commits = self._life.world.commits
        assert isinstance(commits, Commits)
        return commits

    def _check_shown(self, spec: ActionSpec, watched: WatchedContainer, table: str) -> None:
        items = tuple(item for item in watched.container.items if item.table == table)
        view = ContainerView(watched.id, table, items, watched.codec)
        truth = rows_of(self._life.world, view)
        copy = self._commits.copies.get((spec.name, watched.id, table), Copy())
        place = f"`{watched.id}` in {table} as {spec.name} was shown it"
        if spec.first_changes is FirstChanges.SNAPSHOT or copy.whole:
            for row in sorted(truth.keys() | copy.rows.keys()):
                words = f"{place}: row {row!r} is {copy.rows.get(row)}, not {truth.get(row)}"
                require(holds=truth.get(row) == copy.rows.get(row), words=words)
            return
        for row in self._life.editing.told_rows(spec.name, table):
            if row in truth:
                require(holds=row in copy.shown, words=f"{place}: {row!r} was never shown")

    def check_decisions(self) -> None:
        """Kafka has each decision that a replay needs."""
        world = self._life.world
        found = [json.loads(value) for value in world.decisions]
        launched = {one["run"] for one in found if one["kind"] == "launched"}
        for run in {request.run for request in world.commits}:
            require(holds=run in launched, words=f"nobody was told that {run} was launched")
        ended = {one["wave"] for one in found if one["kind"] == "wave-ended"}
        missing = set(range(1, self._life.people.waves + 1)) - ended
        require(holds=not missing, words=f"nobody was told that waves {sorted(missing)} ended")


def _longest(action: Action) -> float | None:
    """Return after how many seconds time alone has an action run; None where it never does."""
    times = [
        current_limit(bounded(action).limits, bound.name, Dimension.TIME, bound.time)
        for bound in action.spec.bounds
        if bound.time is not None
    ]
    if not times or len(times) < len(action.spec.bounds):
        return None
    return max(times)


def told_only(world: HostileWorld) -> dict[str, list[list[object]]]:
    """Return topics as those read them who pass over what is damaged."""
    return {topic: [list(log) for log in logs] for topic, logs in world.telling.topics.items()}


def start_of(life: AgentLife) -> Iterator[tuple[str, str, Base]]:
    """Yield actions and containers, and from where on they count at first."""
    start = life.runtime.state.start
    for action in life.spec.actions:
        for bound in action.bounds:
            yield action.name, bound.container, Base(start, 0)


def differing(one: Iterable[WatchedContainer], other: Iterable[WatchedContainer]) -> set[str]:
    """Return the containers that are not the same in both."""
    before = {w.id: asdict(w) for w in one}
    return {w.id for w in other if before.get(w.id) != asdict(w)}
