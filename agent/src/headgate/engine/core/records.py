"""What Kafka and tables say: records of updates, scans and reads."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from headgate.engine.actions.action import Action
from headgate.engine.cells.arrivals import arrivals_of
from headgate.engine.cells.cells import Cells
from headgate.engine.cells.known import Detail
from headgate.engine.core.evaluation import AT_WRITE, Evaluation
from headgate.engine.intake.isolation import counted_part, own_cells, parts_by_owner, still_there
from headgate.engine.intake.rivals import Rivals, doubted
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ContainerScanned,
    ObserverLost,
    PartitionReset,
    ReconciliationDue,
    RecordArrived,
    ScanBegun,
)
from headgate.events import (
    GONE,
    NOTIFY_FAMILY,
    ContainerId,
    Cut,
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    updates_topic,
)

_DESTROYING = frozenset(
    {TableChangeKind.DROPPED, TableChangeKind.TRUNCATED, TableChangeKind.FAMILY_DROPPED}
)


class Records(Evaluation):
    """Has containers take what was written, and evaluates who watches them."""

    _spread = 1
    """How many parts of containers the last batch touched."""

    def _record(self, record: RecordArrived) -> None:
        if not self.deliveries.first(record):
            return
        missed = self.deliveries.missed(record)
        if missed:
            self._lost(
                self.graph.tables_of(record.topic),
                f"{missed} messages of observer {record.message.observer!r} are missing in "
                f"{record.topic}, partition {record.partition}",
            )
        match self.deliveries.unseen(record):
            case UpdateBatch() as batch:
                self._updates(batch)
            case TableChange() as change:
                self._table_changed(change, record.partition, record.partitions)
            case Gap() as gap:
                self._lost(
                    (gap.table,),
                    f"observer {gap.observer!r} let writes to table {gap.table!r} pass for "
                    f"{gap.until - gap.since:.3g} s: {gap.reason}",
                )

    def _reset(self, stimulus: PartitionReset) -> None:
        topic, partition = stimulus.topic, stimulus.partition
        self.deliveries.reset(topic, partition)
        self._untold(topic, partition, anew=True)
        self._lost(
            self.graph.tables_of(topic),
            f"Kafka has deleted records of {topic}, partition {partition}, before they were read",
        )

    def _untold(self, topic: str, partition: int = 0, *, anew: bool = False) -> None:
        """Have whoever reads changes from the last cut on learn that some are missing.

        With ``anew`` offsets may have begun anew, so that those of before tell nothing.
        """

        def lose(cut: Cut) -> Cut:
            return cut.moved(topic, partition, GONE) if anew else cut.lost(topic, partition)

        for action in self.actions.values():
            action.seen = lose(action.seen)
            if action.run is not None:
                action.run.since, action.run.cut = lose(action.run.since), lose(action.run.cut)

    def _rivals(self, table: str) -> Rivals:
        """Return who tells of a table."""
        rivals = self.rivals.get(table)
        if rivals is None:
            rivals = self.rivals[table] = Rivals()
        return rivals

    def _doubtful(self, batch: UpdateBatch) -> list[int]:
        """Return the positions of cells of which it is not known whether they were written last."""
        if batch.table not in self.graph.routers:
            return []
        rivals = self._rivals(batch.table)
        if batch.table in self.graph.valued:
            return rivals.doubtful(batch)
        rivals.note(batch)
        return []

    def _doubt(self, batch: UpdateBatch, positions: list[int]) -> None:
        """Have cells at these positions, if they count, read before a value of theirs decides."""
        counted = counted_part(doubted(batch, positions), self.spec)
        for arrivals in () if counted is None else arrivals_of(counted, self.spec.name):
            for cells, places in self.graph.routers[batch.table].route(arrivals):
                if cells.detail is Detail.VALUES:
                    keys = zip(*arrivals.cells_at(places), strict=True)
                    ambiguous = (place in arrivals.uncertain for place in places)
                    cells.unsettled.update(compress(keys, ambiguous))

    def _updates(self, message: UpdateBatch) -> None:
        doubtful = self._doubtful(message)
        if doubtful:
            message = doubted(message, doubtful)
        router = self.graph.routers.get(message.table)
        batch = counted_part(message, self.spec)
        self._note_writers(message)
        if router is None or batch is None:
            return
        touched: dict[ContainerId, None] = {}
        self._spread = 0
        for arrivals in arrivals_of(batch, self.spec.name):
            for cells, positions in router.route(arrivals):
                cells.take(arrivals, positions)
                touched[cells.watched.id] = None
                self._spread += 1
        self._touched(touched)

    def _note_writers(self, message: UpdateBatch) -> None:
        """Remember, where only own updates count, which cells strangers wrote last."""
        router = self.graph.routers.get(message.table)
        if router is None:
            return
        for own, part in parts_by_owner(message, self.spec):
            if own and not any(cells.told for cells in self.graph.tables[message.table]):
                continue
            for arrivals in arrivals_of(part, self.spec.name):
                for cells, positions in router.route(arrivals):
                    if own:
                        cells.note_own(arrivals, positions)
                    elif cells.detail is not Detail.COUNTS:
                        cells.note_strangers(arrivals, positions)

    def _touched(self, containers: Iterable[ContainerId]) -> None:
        watchers: dict[str, Action] = {}
        for container in containers:
            for feeder in self.graph.feeders.get(container, ()):
                if not feeder.has_run:
                    self._has_run(feeder)
                    self._take_up(self._followers(feeder))
            for action in self.graph.watchers.get(container, ()):
                watchers[action.name] = action
        if watchers:
            for action in self.graph.in_order(watchers):
                self._consider(action, AT_WRITE)

    def _table_changed(self, change: TableChange, partition: int, partitions: int) -> None:
        if change.family == NOTIFY_FAMILY.decode():
            return  # notify cells are nobody's data
        first = partition == 0 or not partitions
        rivals = self._rivals(change.table)
        rivalled = rivals.changed(change.observer, change.received)
        if change.kind in _DESTROYING:
            touched: dict[ContainerId, None] = {}
            removed = 0
            for cells in self.graph.tables.get(change.table, ()):
                if change.family and not cells.matcher.has_family(change.family.encode()):
                    continue
                removed += cells.change_table(change.family.encode(), partition, partitions)
                touched[cells.watched.id] = None
                if change.outcome is not Outcome.APPLIED or (first and rivalled):
                    self._look_again(cells)
            if first or removed:
                words = f"table {change.table!r} {change.kind}: {removed} elements removed"
                self._decide(DecisionKind.TABLE_CHANGED, words)
            self._touched(touched)
        elif first:
            self._decide(DecisionKind.TABLE_CHANGED, f"table {change.table!r} {change.kind}")
            if change.kind is TableChangeKind.MODIFIED:
                # A family may be gone; the message does not say.
                for cells in self.graph.tables.get(change.table, ()):
                    self._look_for_gone(cells)

    def _lost(self, tables: Iterable[str], words: str) -> None:
        self._decide(DecisionKind.GAP, words)
        missed: dict[ContainerId, None] = {}
        for table in tables:
            if table in self.graph.tables:
                self._untold(updates_topic(table))
            for cells in self.graph.tables.get(table, ()):
                self._look_again(cells)
                # A scan finds what is different, not how often it was written.
                cells.miss()
                missed[cells.watched.id] = None
        self._touched(missed)

    def _reconcile(self, stimulus: ReconciliationDue) -> None:
        """Look for what no update told, such as deletes that went round the observers."""
        for cells in self.cells.values():
            if stimulus.tables is None or cells.table in stimulus.tables:
                self._look_again(cells)

    def _observer_lost(self, stimulus: ObserverLost) -> None:
        self._lost(
            tuple(self.graph.tables),
            f"observer {stimulus.observer!r} is lost, and with it what it had not published",
        )

    def _look_again(self, cells: Cells) -> None:
        """Have cells scanned from here on: a scan under way may have read what is older."""
        if cells.scanning is None:
            self._ask_for_scan(cells)
        else:
            cells.scanning.again = cells.scanning.lossy = True
            cells.scanning.lossless = False

    def _look_for_gone(self, cells: Cells) -> None:
        """Have cells scanned though every update of them was told."""
        if cells.scanning is not None:
            cells.scanning.again = True
            cells.scanning.lossy |= cells.scanned and not cells.scanning.lossless
            return
        self._ask_for_scan(cells)
        if cells.scanning is not None:
            cells.scanning.lossless = cells.scanned

    def _scan_begun(self, stimulus: ScanBegun) -> None:
        cells = self.cells.get((stimulus.container, stimulus.table))
        scanning = None if cells is None else cells.scanning
        if cells is not None and scanning is not None and scanning.at == stimulus.start:
            cells.begin_reading()

    def _scanned(self, stimulus: ContainerScanned) -> None:
        cells = self.cells.get((stimulus.container, stimulus.table))
        if cells is None or cells.scanning is None or cells.scanning.at != stimulus.start:
            return
        if cells.scanning.emptied:
            # These rows may have been read before they were lost; those before them were not.
            cells.scanning.emptied = False
            self._ask_for_rows(cells)
            return
        again, lossy = cells.scanning.again, cells.scanning.lossy
        if self.spec.feeders is not None:
            if cells.scanning.lossless:
                stimulus = still_there(stimulus, cells)
            else:
                stimulus = own_cells(stimulus, cells)
        first = not cells.scanned
        rows = (stimulus.rows, stimulus.columns, stimulus.values)
        found = cells.scan(*rows, stimulus.recent, stop=stimulus.stop)
        if cells.scanning is not None:
            self._ask_for_rows(cells)
            return
        if found:
            if not first:
                self._untold(updates_topic(cells.table))
            self._touched((cells.watched.id,))
        if again and lossy:
            self._look_again(cells)
        elif again:
            self._look_for_gone(cells)
        self._take_up(self.graph.watching(cells))

    def _read(self, stimulus: CellsRead) -> None:
        cells = self.cells.get((stimulus.container, stimulus.table))
        if cells is None or not cells.read_awaited:
            return
        before = cells.elements
        cells.settle(stimulus.rows, stimulus.columns, stimulus.values, stimulus.now)
        for action in self.graph.watching(cells):
            if action.reading and not any(c.read_awaited for c, _ in action.all_parts()):
                action.reading = False
                self._take_up((action,), read=True)
        if cells.elements < before:
            # Of fewer elements, updates are a greater share for whoever did not ask for the read.
            self._touched((cells.watched.id,))
