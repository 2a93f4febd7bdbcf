"""What must be true of an engine, computed again from all that was ever written and told."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from contradiction import require
from hostile_store import Cell, Key, Missing

from engine.edges import exact, is_held, read
from headgate.engine import (
    ActionRole,
    AllOf,
    AtLeast,
    Bound,
    BoundReached,
    CodecName,
    Condition,
    Count,
    Dimension,
    Launch,
    Metric,
    SequenceUnit,
    ValueBound,
    leaves,
)
from headgate.engine.actions.action import Action
from headgate.engine.actions.runs import RunState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.triggers.bounds.measures import current_limit
from headgate.engine.triggers.bounds.policy import Bounded
from headgate.events import (
    ContainerId,
    Cut,
    Item,
    Origin,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)

if TYPE_CHECKING:
    from engine.life import EngineLife

Place = tuple[ContainerId, str]
_SLACK = 1e-9  # share by which sums of doubles may miss exact ones
_LATE = 1e-3  # seconds by which a clock of doubles may miss


@dataclass(frozen=True)
class Told:
    """One request's cells in one partition, where they were told of first."""

    offset: int
    identity: tuple[object, ...]
    origin: Origin | None
    cells: tuple[Cell, ...]


@dataclass
class Base:
    """From where on a container counts for an action."""

    cut: Cut
    step: int
    known: dict[str, dict[Key, object]] | None = None
    """x′ by table; None where it is not known to the world."""


@dataclass
class Taken:
    """What an action's newest launch took."""

    bases: dict[ContainerId, Base]
    lived: tuple[float, float] | None = None
    """When it was: seconds of life that have certainly passed, and that may have passed at most."""


@dataclass
class History:
    """All that topics hold, each request where it came first."""

    told: dict[tuple[str, int], list[Told]] = field(default_factory=dict)
    _read: dict[tuple[str, int], int] = field(default_factory=dict)
    _seen: dict[tuple[str, int], set[tuple[object, ...]]] = field(default_factory=dict)

    def take(self, topics: dict[str, list[list[object]]]) -> None:
        """Read what is new."""
        for topic, partitions in topics.items():
            for partition, log in enumerate(partitions):
                place = (topic, partition)
                for offset in range(self._read.get(place, 0), len(log)):
                    message = log[offset]
                    if isinstance(message, UpdateBatch):
                        self._note(place, offset, message)
                self._read[place] = len(log)

    def _note(self, place: tuple[str, int], offset: int, batch: UpdateBatch) -> None:
        seen = self._seen.setdefault(place, set())
        start = 0
        for part in batch.requests:
            identity = (batch.observer, batch.epoch, part.intent, part.piece)
            cells = tuple(
                Cell(batch.rows[i], batch.columns[i], UpdateKind(batch.kinds[i]), batch.values[i])
                for i in range(start, start + part.cells)
            )
            start += part.cells
            if identity not in seen:
                seen.add(identity)
                self.told.setdefault(place, []).append(Told(offset, identity, part.origin, cells))


class Oracle:
    """Compares an engine with its world."""

    def __init__(self, life: EngineLife) -> None:
        self._life = life
        self.history = History()

    # -- counts ----------------------------------------------------------------------------------

    def _items(self, container: ContainerId, table: str) -> tuple[Item, ...]:
        (watched,) = (w for w in self._life.spec.containers if w.id == container)
        return tuple(item for item in watched.container.items if item.table == table)

    def _counts_for(self, action: Action, origin: Origin | None) -> bool:
        spec = self._life.spec
        if origin is not None and origin.dataflow == spec.name:
            return action.spec.own or origin.action != action.name
        return spec.feeders is None or (origin is not None and origin.name in spec.feeders)

    def updates(
        self, action: Action, bound: Bound, base: Base, until: Cut | None = None
    ) -> tuple[set[object], set[object], bool]:
        """Return updates and distinct elements since ``base``, and whether that is all of them."""
        updates: set[object] = set()
        distinct: set[object] = set()
        whole = True
        for cells in self.parts(bound.container):
            topic, items = updates_topic(cells.table), self._items(bound.container, cells.table)
            for partition in range(len(self._life.store.topic(topic))):
                for told in self.history.told.get((topic, partition), ()):
                    inside = not base.cut.has(topic, partition, told.offset)
                    inside &= until is None or until.has(topic, partition, told.offset)
                    if not inside or not self._counts_for(action, told.origin):
                        continue
                    for cell in told.cells:
                        if _lies_in(items, cell):
                            wide = not _is_narrow(cell)
                            by_row = cells.columns.count is Count.ROWS
                            whole &= by_row or not wide
                            element = (cells.table, cell.row, b"" if by_row else cell.column)
                            if by_row or not wide:
                                distinct.add(
                                    element
                                )  # else it is of cells that stand for themselves
                            updates.add((cells.table, partition, told.identity, element))
        return updates, distinct, whole

    def misses(self, action: Action, bound: Bound, base: Base) -> bool:
        """Return whether updates are missing of which somebody has said so since ``base``."""
        return any(
            self._is_said(missing, base)
            and any(
                _lies_in(self._items(bound.container, missing.table), cell)
                for cell in missing.cells
            )
            for missing in self._life.store.missing
        )

    def _is_said(self, missing: Missing, base: Base) -> bool:
        if missing.said is not None:
            return missing.said > base.step
        return missing.shown is not None and not base.cut.has(*missing.shown)

    def parts(self, container: ContainerId) -> list[ContainerCells]:
        """Return what the engine keeps of a container, table by table."""
        return [c for (name, _), c in self._life.engine.cells.items() if name == container]

    # -- what stands -----------------------------------------------------------------------------

    def truth(self, container: ContainerId, table: str) -> dict[Key, bytes]:
        """Return the cells of a container in a table."""
        items = self._items(container, table)
        return {
            key: value
            for key, value in self._life.store.tables.get(table, {}).items()
            if any(item.has_row(key[0]) and item.has_column(key[1]) for item in items)
        }

    def check_contents(self) -> None:
        """The engine knows what stands in the tables."""
        if self._life.spec.feeders is not None:
            return
        for (container, table), cells in self._life.engine.cells.items():
            if (
                cells.detail is Detail.COUNTS
                or not cells.scans.complete
                or cells.scans.current is not None
            ):
                continue
            truth, known = self.truth(container, table), cells.columns.contents()
            doubted = self._life.store.uncertain.get(table, set())
            codec = cells.watched.codec.name
            for key in truth.keys() | known.keys():
                if key in cells.reads.unsettled or (cells.detail is Detail.KEYS and key in doubted):
                    continue
                place = f"{container} in {table}, cell {key!r}"
                require(
                    holds=(key in truth) == (key in known),
                    words=f"{place}: stands {key in truth}, known {key in known}",
                )
                if cells.detail is Detail.VALUES:
                    now = read(codec, truth[key])
                    same = _same(now, known[key])
                    words = f"{place}: holds {truth[key][:40]!r}, known as {known[key]!r:.60}"
                    require(holds=same, words=words)

    # -- bounds ----------------------------------------------------------------------------------

    def check_counts(self) -> None:
        """Nothing told is uncounted; where all is certain, nothing counts twice."""
        for action in self._life.engine.actions.values():
            for bound in action.spec.bounds:
                base = self._life.base(action.name, bound.container)
                if base is None:
                    continue
                updates, distinct, whole = self.updates(action, bound, base)
                parts = action.parts[bound.container]
                if any(pending.uncounted for _, pending in parts):
                    continue
                counted = sum(pending.updates for _, pending in parts)
                place = f"{action.name}, bound {bound.name} of {bound.container}"
                require(
                    holds=counted >= len(updates),
                    words=f"{place}: {len(updates)} updates were told, {counted} count",
                )
                if self._life.certain and whole:
                    require(
                        holds=counted == len(updates),
                        words=f"{place}: {len(updates)} updates were told, {counted} count",
                    )
                    if any(pending.keeps_distinct for _, pending in parts):
                        kept = sum(len(pending.distinct) for _, pending in parts)
                        words = f"{place}: {len(distinct)} elements were told of, {kept} count"
                        require(holds=kept == len(distinct), words=words)

    def check_launched(self) -> None:
        """No condition is certainly reached of an action that only waits for it."""
        engine = self._life.engine
        if engine.state.paused:
            return
        for action in engine.actions.values():
            waits = action.state is RunState.IDLE
            if (
                action.spec.role is ActionRole.INPUT
                or not waits
                or engine.state.graph.awaited(action)
            ):
                continue
            # Time is looked at whenever it comes, the rest at moments of the action's own.
            at_write = action.spec.effective_evaluation.write
            is_reached = self._is_reached if at_write else self._is_late
            reached = {b.name: is_reached(action, b) for b in action.spec.bounds}
            condition = action.spec.effective_condition
            words = f"{action.name} rests though {[n for n, why in reached.items() if why]}: "
            words += "; ".join(why for why in reached.values() if why)
            require(
                holds=condition is None or not _holds(condition, reached),
                words=words,
            )

    def _is_late(self, action: Action, bound: Bound) -> str:
        """Say so if a bound is certainly reached by time; empty where it is not."""
        taken = self._life.runs.taken[action.name][-1]
        if bound.time is not None and taken.lived is not None:
            limit = current_limit(bounded(action).limits, bound.name, Dimension.TIME, bound.time)
            passed = self._life.lived - taken.lived[0]
            if passed >= limit + _LATE:
                return f"θ of {bound.name} is {passed:.3f} of {limit}"
        return ""

    def _is_reached(self, action: Action, bound: Bound) -> str:
        """Say why a bound is certainly reached; empty where it is not."""
        late = self._is_late(action, bound)
        base = self._life.base(action.name, bound.container)
        if late or base is None:
            return late
        updates, distinct, _ = self.updates(action, bound, base)
        if bound.sequence is not None:
            sequence = bound.sequence
            limit = current_limit(
                bounded(action).limits, bound.name, Dimension.SEQUENCE, sequence.limit
            )
            if self.misses(action, bound, base):
                return f"updates of {bound.container} are missing"
            number = len(distinct if sequence.distinct else updates)
            if sequence.unit is SequenceUnit.PERCENT:
                elements = sum(cells.elements for cells in self.parts(bound.container))
                if number and Fraction(100 * number) >= Fraction(limit) * elements:
                    return f"σ is {number} of {elements}, the limit {limit} %"
            elif number >= limit:
                return f"σ is {number}, the limit {limit}"
        if bound.value is not None and updates:
            limit = current_limit(
                bounded(action).limits, bound.name, Dimension.VALUE, bound.value.limit
            )
            moved = self._divergence(bound, bound.value, base)
            if moved is not None and moved >= limit * (1 + _SLACK):
                return f"ν of {bound.name} is {moved}, the limit {limit}"
        return ""

    def _divergence(self, bound: Bound, value: ValueBound, base: Base) -> float | None:
        """Return how far a container has moved since ``base``; None where the world cannot say."""
        untold = any(o.late or o.unshown for o in self._life.store.observers)
        if base.known is None or self._life.spec.feeders is not None or untold:
            return None
        changed = cells_now = 0
        moved, before = Fraction(0), Fraction(0)
        largest = 0.0
        for cells in self.parts(bound.container):
            if (
                cells.detail is not Detail.VALUES
                or not cells.scans.complete
                or cells.reads.unsettled
            ):
                return None
            codec = cells.watched.codec.name
            truth = self.truth(bound.container, cells.table)
            now = {key: read(codec, held) for key, held in truth.items()}
            then = base.known.get(cells.table, {})
            cells_now += len(now)
            for key in now.keys() | then.keys():
                new, old = now.get(key), then.get(key)
                if codec is CodecName.OPAQUE:
                    changed += new != old
                    continue
                # What was no number and is none may not have been written since.
                nothing = new != new and old != old
                if nothing or _same(_number_of(new), _number_of(old)):
                    continue
                changed += 1
                distance = abs(_finite(new) - _finite(old))
                moved += distance
                largest = max(largest, _float(distance))
            before += sum((abs(_finite(old)) for old in then.values()), Fraction(0))
        match value.metric:
            case Metric.CHANGED:
                return _ratio(Fraction(changed), Fraction(cells_now))
            case Metric.ABSOLUTE:
                return largest
            case Metric.AGAINST:
                return _ratio(moved, Fraction(cells_now) * Fraction(value.constant or 1.0))
            case Metric.RELATIVE:
                return _ratio(moved, before)
            case _:
                return None

    # -- launches --------------------------------------------------------------------------------

    def check_launch(self, action: Action, launch: Launch) -> None:
        """A launch has its reasons, and shows all that no committed run was shown."""
        taken = self._life.runs.taken[launch.action][-1]
        for leaf in () if launch.cause.result is None else leaves(launch.cause.result):
            for vector in leaf.vectors:
                if vector.dimension is Dimension.TIME and vector.reached and taken.lived:
                    passed = self._life.lived_at_most - taken.lived[1]
                    words = f"{launch.run}: θ is said to be reached after {passed} s"
                    require(holds=passed >= vector.limit - _LATE, words=words)
                if vector.dimension is Dimension.SEQUENCE and vector.reached:
                    self._check_sequence(action, leaf.bound, launch)
        committed = self._life.runs.committed.get(launch.action)
        read_topics = {updates_topic(t) for t in self._life.spec.tables(action.spec)}
        for topic in read_topics & set(launch.cut.offsets):
            for partition in range(len(launch.cut.offsets[topic])):
                since = launch.since.position(topic, partition)
                if topic not in launch.since.offsets:
                    continue
                if committed is not None and topic in committed.offsets:
                    limit = committed.position(topic, partition)
                    words = f"{launch.run} begins at {since} of {topic}, the last ended at {limit}"
                    # From where records were lost everything is shown.
                    shown = launch.since.has_lost(topic)
                    require(holds=shown or since <= limit, words=words)
                elif committed is None and self._life.runs.shows_everything(launch.action):
                    words = f"the first run {launch.run} begins at {since} of {topic}"
                    require(holds=since < 0 or (partition >= 1 and since <= 0), words=words)

    def _check_sequence(self, action: Action, name: str, launch: Launch) -> None:
        bound = bounded(action).bounds[name]
        base = self._life.base(action.name, bound.container)
        if base is None or bound.sequence is None or not self._life.certain:
            return
        if bound.sequence.unit is SequenceUnit.PERCENT:
            return  # of how many there were then nobody knows
        limit = current_limit(
            bounded(action).limits, name, Dimension.SEQUENCE, bound.sequence.limit
        )
        updates, distinct, whole = self.updates(action, bound, base, launch.cut)
        number = len(distinct if bound.sequence.distinct else updates)
        words = f"{launch.run}: σ of {name} is said to be reached by {number} of {limit}"
        require(holds=number >= limit or not whole, words=words)

    # -- gates -----------------------------------------------------------------------------------

    def check_gates(self) -> None:
        """Writers wait where a bound that blocks is reached, and only for a run that will come."""
        engine = self._life.engine
        held = set(engine.holding())
        for name, bound in held:
            action = engine.actions[name]
            words = f"writers wait for {bound} of {name}, which is {action.state}"
            require(holds=action.state is not RunState.QUARANTINED, words=words)
            running = action.state in (RunState.LAUNCHED, RunState.RUNNING)
            words = f"writers wait for {bound} of {name} in a paused dataflow"
            require(holds=not engine.state.paused or running, words=words)
        for action in engine.actions.values():
            run = action.run
            if run is None or engine.state.paused:
                continue
            for bound in action.spec.bounds:
                if not bound.block or not action.spec.effective_evaluation.write:
                    continue
                if self._life.edits == 0 and self._is_reached(action, bound):
                    words = f"{bound.name} of {action.name} is reached and nobody waits"
                    require(holds=(action.name, bound.name) in held, words=words)


def bounded(action: Action) -> Bounded:
    """Return an action's policy: all dataflows here run by bounds."""
    assert isinstance(action.policy, Bounded)
    return action.policy


def _is_narrow(cell: Cell) -> bool:
    return cell.kind in (UpdateKind.PUT, UpdateKind.DELETE_COLUMN)


def _lies_in(items: tuple[Item, ...], cell: Cell) -> bool:
    for item in items:
        if not item.has_row(cell.row):
            continue
        if _is_narrow(cell):
            if item.has_column(cell.column):
                return True
        elif not cell.column or item.family is None or cell.column == item.family + b":":
            return True
    return False


def _holds(condition: Condition, reached: dict[str, str]) -> bool:
    if isinstance(condition, BoundReached):
        return bool(reached[condition.bound])
    true = sum(_holds(part, reached) for part in condition.parts)
    if isinstance(condition, AllOf):
        return true == len(condition.parts)
    return true >= (condition.number if isinstance(condition, AtLeast) else 1)


def _same(now: object, known: object) -> bool:
    """Return whether what stands in a table is what an engine knows."""
    if isinstance(now, Fraction) and isinstance(known, float | complex):
        return known == known and is_held(now, complex(known))
    return now == known or (now != now and known != known)


def _finite(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    return exact(value) if isinstance(value, float | complex) and value == value else Fraction(0)


def _number_of(value: object) -> object:
    return Fraction(0) if value is None else value


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _ratio(part: Fraction, whole: Fraction) -> float:
    return _float(part / whole) if whole else (math.inf if part else 0.0)


def pairs(life: EngineLife) -> Iterator[tuple[str, ContainerId]]:
    """Yield each action with each container that its bounds watch."""
    for action in life.spec.actions:
        for container in dict.fromkeys(bound.container for bound in action.bounds):
            yield action.name, container
