"""Records that came together are taken in one pass, as far as no decision can fall between them.

What the passes leave is what the records leave one by one: the updates of a pass are all puts that
certainly happened, of which each table has one writer, and whatever they touch was found at rest
beforehand, with all that they may add.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from headgate.engine.actions.action import Action, ActionInputs
from headgate.engine.actions.state import EngineState
from headgate.engine.cells.arrivals import Arrivals, certain, joined, writers_of
from headgate.engine.cells.cells import ContainerCells, LookedUp
from headgate.engine.cells.pending import Pending, PossibleIncrease, Steps
from headgate.engine.cells.routing import Router
from headgate.engine.cells.storage import Array
from headgate.engine.core.evaluation import AT_WRITE, Evaluator
from headgate.engine.core.intake import Intake
from headgate.engine.intake.isolation import counted_part
from headgate.engine.intake.rivals import doubted
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import RecordArrived
from headgate.engine.triggers.policy import PossibleIncreases
from headgate.events import BarrierMark, UpdateBatch, UpdateKind, UpdateMessage

_MOST_UPDATES = 1 << 17  # in a pass: what more would save is less than what it keeps others waiting
_MOST_RECORDS = 1 << 10
_SOME = 16  # records of an engine's first pass, and after one that would have saved nothing
_MOST_SINGLE = 512
"""Records taken singly, at most, before a pass is tried again."""
_WORTH = 0.75
"""Containers touched by a pass per those that its records touch singly, above which it is none."""


class ContainerUpdates:
    """The updates of a pass that lie in one container's part of a table."""

    def __init__(
        self, cells: ContainerCells, table: TableUpdates, positions: Sequence[int]
    ) -> None:
        self.cells = cells
        self.writer = table.arrivals.writer
        self._table = table
        self._positions = positions
        self._looked_up: LookedUp | None = None
        self._steps: dict[Pending, Steps] = {}

    @property
    def first(self) -> int:
        """The first record with updates in the container."""
        return self._table.record_of(self._positions[0])

    @property
    def hidden(self) -> bool:
        """Whether some of the updates may be hidden by versions with timestamps of their own."""
        return self.cells.meets_stamps(self._table.arrivals, self._positions)

    def records(self) -> frozenset[int]:
        """Return the places of the records with updates in the container."""
        return self._table.records_of(self._positions)

    def increase(self, pending: Pending, records: int) -> PossibleIncrease:
        """Return how far the updates in the pass's first so many records may raise bounds."""
        updates = bisect_left(self._positions, self._table.updates_before(records))
        distinct = self._distinct(pending, updates)
        if not pending.keeps_values:
            return PossibleIncrease(updates, distinct)
        steps = self._steps.get(pending)
        if steps is None:
            steps = self._steps[pending] = pending.steps(*self._change())
        return PossibleIncrease(updates, distinct, *steps.increase(updates))

    def reach(self, pending: Pending) -> PossibleIncrease:
        """Return how far all updates may raise bounds: at least ``increase``, sooner."""
        updates = len(self._positions)
        distinct = self._distinct(pending, updates)
        if not pending.keeps_values:
            return PossibleIncrease(updates, distinct)
        return PossibleIncrease(updates, distinct, updates, *pending.reach(*self._change()))

    def _distinct(self, pending: Pending, updates: int) -> int:
        if not pending.keeps_distinct:
            return 0
        elements = self.cells.elements_of(self._table.arrivals, self._positions[:updates])
        return len([element for element in set(elements) if element not in pending.distinct])

    def _change(self) -> tuple[Array, Array, Array]:
        """Return slots, what is in them, and what the updates put into them."""
        found = self._looked_up
        if found is None:
            found = self._looked_up = self.cells.look_up(self._table.arrivals, self._positions)
        return found.slots, self.cells.values_at(found.slots), found.values

    def take(self) -> None:
        """Have the container take the updates."""
        self.cells.take(self._table.arrivals, self._positions, self._looked_up)


class TableUpdates:
    """The updates of one table in a pass; ``records`` are the places of those that they are in."""

    def __init__(self, writer: str | None) -> None:
        self.writer = writer
        self.batches: list[UpdateBatch] = []
        self._records: list[int] = []
        self._starts: list[int] = []
        self._updates = 0
        self._arrivals: Arrivals | None = None

    def add(self, record: int, batch: UpdateBatch) -> None:
        """Add what a record has."""
        self.batches.append(batch)
        self._records.append(record)
        self._starts.append(self._updates)
        self._updates += len(batch.rows)

    @property
    def arrivals(self) -> Arrivals:
        """All updates, as if they had come in one record."""
        if self._arrivals is None:
            self._arrivals = joined(self.writer, self.batches)
        return self._arrivals

    def record_of(self, position: int) -> int:
        """Return the place of the record in which an update is."""
        return self._records[bisect_left(self._starts, position + 1) - 1]

    def records_of(self, positions: Sequence[int]) -> frozenset[int]:
        """Return the places of the records in which updates are."""
        if len(positions) == self._updates:
            return frozenset(self._records)
        within = np.searchsorted(self._starts, np.asarray(positions), side="right") - 1
        return frozenset(self._records[at] for at in np.unique(within))

    def updates_before(self, record: int) -> int:
        """Return how many updates are in records at earlier places."""
        earlier = bisect_left(self._records, record)
        return self._starts[earlier] if earlier < len(self._starts) else self._updates


class RecordGroup:
    """Records of which no decision is expected; ``records`` counts those that it has."""

    def __init__(self) -> None:
        self.records = 0
        self.tables: dict[str, TableUpdates] = {}
        self.found: dict[str, str | None] = {}
        """What evaluating each action that watches it leaves as missed, once it was found quiet."""
        self.touching: dict[str, list[ContainerUpdates]] = {}
        """What of the updates each of these actions watches, once it was found quiet."""
        self._updates = 0
        self._touches: list[ContainerUpdates] | None = None

    def add(self, batch: UpdateBatch | None, dataflow: str) -> bool:
        """Add a record's updates, if it has any; False if they cannot be taken with the others."""
        if batch is not None:
            if self._updates and self._updates + len(batch.rows) > _MOST_UPDATES:
                return False
            writers = writers_of(batch, dataflow)
            stretch = self.tables.get(batch.table)
            if len(writers) > 1 or (stretch is not None and stretch.writer not in writers):
                return False
            if stretch is None:
                stretch = self.tables[batch.table] = TableUpdates(*writers)
            stretch.add(self.records, batch)
            self._updates += len(batch.rows)
        self.records += 1
        return True

    def touches(self, routers: dict[str, Router]) -> list[ContainerUpdates]:
        """Return what of each container is touched."""
        if self._touches is None:
            self._touches = [
                ContainerUpdates(cells, stretch, positions)
                for table, stretch in self.tables.items()
                for cells, positions in routers[table].route(stretch.arrivals)
            ]
        return self._touches


class BatchIntake:
    """Takes records together where that makes no difference."""

    def __init__(self, state: EngineState, intake: Intake, evaluator: Evaluator) -> None:
        self._state = state
        self._intake = intake
        self._evaluator = evaluator
        self._width = _SOME
        """Records tried next: more where they were taken, fewer where decisions fell."""
        self._single = 0
        """Records to take singly before a pass is tried again."""
        self._backoff = 1

    def take(self, records: Sequence[RecordArrived], start: int) -> int:
        """Take records from a place on in one pass; return how many, 0 where singly is right."""
        if self._single:
            self._single -= 1
            return 0
        records = records[start : start + self._width]
        tried = self._pass_of(records)
        worth = self._is_worth(tried)
        quiet = self._quiet(tried) if worth else 0
        if quiet <= 1:
            self._width = 2 if worth else _SOME
            self._single = self._backoff
            self._backoff = min(2 * self._backoff, _MOST_SINGLE)
            return 0
        self._backoff = 1
        if quiet == tried.records:
            self._width = min(2 * self._width, _MOST_RECORDS)
            return self._take_pass(records[:quiet], tried)
        self._width = max(2, 2 * quiet)
        self._single = 1  # the one that may decide something
        shorter = self._pass_of(records[:quiet])
        self._quiet(shorter)  # all of it, and what evaluating each action leaves
        return self._take_pass(records[:quiet], shorter)

    def _is_worth(self, tried: RecordGroup) -> bool:
        """Return whether containers are touched much less often than by the records singly."""
        if tried.records <= 1:
            return False
        touched = len(tried.touches(self._state.graph.routers))
        return touched <= _WORTH * self._intake.spread * tried.records

    def _pass_of(self, records: Iterable[RecordArrived]) -> RecordGroup:
        made = RecordGroup()
        for record in records:
            message = record.message
            if record.now != self._state.now or not isinstance(message, UpdateBatch | BarrierMark):
                break
            batch = self._counted(message) if isinstance(message, UpdateBatch) else None
            if batch is not None and not _are_puts(batch):
                break
            if self._may_hide(message) or not made.add(batch, self._state.spec.name):
                break
        return made

    def _group_of(self, messages: Iterable[UpdateMessage | None]) -> RecordGroup:
        made = RecordGroup()
        for message in messages:
            batch = self._counted(message) if isinstance(message, UpdateBatch) else None
            made.add(batch, self._state.spec.name)
        return made

    def _counted(self, batch: UpdateBatch) -> UpdateBatch | None:
        if batch.table not in self._state.graph.routers or not batch.requests:
            return None
        return counted_part(batch, self._state.spec)

    def _may_hide(self, message: UpdateMessage) -> bool:
        """Return whether strangers delete cells that the pass may bring."""
        if self._state.spec.feeders is None or not isinstance(message, UpdateBatch):
            return False
        return message.kinds.count(UpdateKind.PUT) != len(message.kinds)

    def _quiet(self, tried: RecordGroup) -> int:
        """Return how many records of the pass come before the first that may decide something."""
        quiet = tried.records
        watched: dict[str, list[ContainerUpdates]] = {}
        for touch in tried.touches(self._state.graph.routers):
            container = touch.cells.watched.id
            if touch.hidden:
                quiet = min(quiet, touch.first)
            for feeder in self._state.graph.feeders.get(container, ()):
                if not feeder.has_run:
                    quiet = min(quiet, touch.first)
            for action in self._state.graph.watchers.get(container, ()):
                watched.setdefault(action.name, []).append(touch)
        for name, touches in watched.items():
            action = self._state.actions[name]
            if action.is_input:
                continue
            held = self._state.obstacle(action) is not None
            tried.found[name] = AT_WRITE if held else None
            tried.touching[name] = touches
            if not held:
                quiet = self._quiet_for(action, touches, quiet)
            elif action.blocks is not None:
                # Whether it holds writers back is looked at by each write.
                quiet = min(quiet, *(touch.first for touch in touches))
        return quiet

    def _quiet_for(self, action: Action, touches: Sequence[ContainerUpdates], records: int) -> int:
        """Return how many of so many records come before the first at which the action may act."""
        recorded = action.shown == DecisionKind.SKIPPED and not action.requested
        own = any(touch.writer == action.name for touch in touches)
        parts = list(_parts(action, touches))
        reached = {part: touch.reach(part) for touch, part in parts}
        if recorded and not own and self._stays_idle(action, reached):
            return records
        first = min(touch.first for touch in touches)
        if records <= first or not recorded or own:
            return min(records, first)
        stays = partial(self._stays_idle_during, action, parts)
        if stays(records):
            return records
        low, high = first, records  # it stays at rest during the former, not during the latter
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if stays(middle) else (low, middle)
        return low

    def _stays_idle_during(
        self, action: Action, parts: Iterable[tuple[ContainerUpdates, Pending]], records: int
    ) -> bool:
        return self._stays_idle(action, {p: touch.increase(p, records) for touch, p in parts})

    def _stays_idle(self, action: Action, increases: PossibleIncreases) -> bool:
        if action.foresees is None:
            return False
        inputs = ActionInputs(action, self._state.now, increases=increases)
        return action.foresees.stays_idle(inputs, self._state.now, action.wait_until)

    def _take_pass(self, records: Sequence[RecordArrived], whole: RecordGroup) -> int:
        """Take these records, which are those of the pass; return how many were: all but a gap."""
        seen: list[UpdateMessage | None] = []
        taken = 0
        doubtful: list[tuple[UpdateBatch, list[int]]] = []
        for record in records:
            if not self._state.deliveries.follows(record):
                break
            taken += 1
            unseen = None
            if self._state.deliveries.first(record):
                self._state.deliveries.missed(record)
                unseen = self._state.deliveries.unseen(record)
            seen.append(unseen)
            if isinstance(unseen, UpdateBatch):
                places = self._intake.doubtful(unseen)
                if places:
                    doubtful.append((unseen, places))
                self._intake.note_writers(doubted(unseen, places) if places else unseen)
        # What was delivered before adds nothing: without it there is even less to decide.
        same = taken == len(records) and all(
            message is record.message for message, record in zip(seen, records, strict=True)
        )
        group = whole if same else self._group_of(seen)
        touches = group.touches(self._state.graph.routers)
        for touch in touches:
            touch.take()
        for one, places in doubtful:
            self._intake.doubt(one, places)
            same = False
        if same:
            for name, missed in whole.found.items():
                self._state.actions[name].missed = missed
                if missed is None:
                    self._evaluator.note_idle(
                        self._state.actions[name], _records(whole.touching[name])
                    )
        else:
            self._evaluator.written(dict.fromkeys(touch.cells.watched.id for touch in touches))
        return taken


def _are_puts(batch: UpdateBatch) -> bool:
    puts = batch.kinds.count(UpdateKind.PUT) == len(batch.kinds)
    return puts and certain(batch.requests, batch.timestamps, batch.values)


def _records(touches: Iterable[ContainerUpdates]) -> int:
    """Return how many records have updates in these: that often the action would be evaluated."""
    return len(frozenset[int]().union(*(touch.records() for touch in touches)))


def _parts(
    action: Action, touches: Iterable[ContainerUpdates]
) -> Iterator[tuple[ContainerUpdates, Pending]]:
    pendings = dict(action.all_parts())
    for touch in touches:
        yield touch, pendings[touch.cells]
