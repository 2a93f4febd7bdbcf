"""Records of Kafka: containers take what was written, and who watches them is evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

from headgate.engine.cells.arrivals import SERVER_TIME, arrivals_of
from headgate.engine.cells.columns import Detail
from headgate.engine.core.core import Core
from headgate.engine.core.evaluation import Evaluator
from headgate.engine.core.table_reads import TableReads
from headgate.engine.intake.isolation import counted_part, parts_by_owner
from headgate.engine.intake.rivals import doubted
from headgate.engine.protocol.instructions import DecisionKind
from headgate.engine.protocol.stimuli import ObserverLost, PartitionReset, RecordArrived
from headgate.events import (
    NOTIFY_FAMILY,
    ContainerId,
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    key_bytes,
    updates_topic,
)

_DESTROYING = frozenset(
    {TableChangeKind.DROPPED, TableChangeKind.TRUNCATED, TableChangeKind.FAMILY_DROPPED}
)


class Intake:
    """Takes records one by one, and what is known of records that are missing."""

    def __init__(self, core: Core, evaluator: Evaluator, reads: TableReads) -> None:
        self._state = core.state
        self._output = core.output
        self._evaluator = evaluator
        self._reads = reads
        self.spread = 1
        """How many parts of containers the last batch touched."""

    def record(self, record: RecordArrived) -> None:
        """Take a record, unless it was taken before."""
        deliveries = self._state.deliveries
        if not deliveries.first(record):
            return
        missed = deliveries.missed(record)
        if missed:
            self._lose(
                self._state.graph.tables_of(record.topic),
                f"{missed} messages of observer {record.message.observer!r} are missing in "
                f"{record.topic}, partition {record.partition}",
            )
        match deliveries.unseen(record):
            case UpdateBatch() as batch:
                self._updates(batch)
            case TableChange() as change:
                self._table_changed(change, record.partition, record.partitions)
            case Gap() as gap:
                self._lose(
                    (gap.table,),
                    f"observer {gap.observer!r} let writes to table {gap.table!r} pass for "
                    f"{gap.until - gap.since:.3g} s: {gap.reason}",
                )

    def partition_reset(self, stimulus: PartitionReset) -> None:
        """Look for what Kafka has deleted before it was read."""
        topic, partition = stimulus.topic, stimulus.partition
        self._state.deliveries.reset(topic, partition)
        self._state.lose_updates(topic, partition, anew=True)
        self._lose(
            self._state.graph.tables_of(topic),
            f"Kafka has deleted records of {topic}, partition {partition}, before they were read",
        )

    def observer_lost(self, stimulus: ObserverLost) -> None:
        """Look for what an observer had not published when it was lost."""
        self._lose(
            tuple(self._state.graph.tables),
            f"observer {stimulus.observer!r} is lost, and with it what it had not published",
        )

    def _lose(self, tables: Iterable[str], words: str) -> None:
        self._output.decide(DecisionKind.GAP, words)
        graph = self._state.graph
        missed: dict[ContainerId, None] = {}
        for table in tables:
            if table in graph.tables:
                self._state.lose_updates(updates_topic(table))
            for cells in graph.tables.get(table, ()):
                self._reads.scan_again(cells)
                # A scan finds what is different, not how often it was written.
                cells.watchers.miss()
                missed[cells.watched.id] = None
        self._evaluator.written(missed)

    def _updates(self, message: UpdateBatch) -> None:
        doubtful = self.doubtful(message)
        if doubtful:
            message = doubted(message, doubtful)
        router = self._state.graph.routers.get(message.table)
        batch = counted_part(message, self._state.spec)
        self.note_writers(message)
        if router is None or batch is None:
            return
        touched: dict[ContainerId, None] = {}
        self.spread = 0
        for arrivals in arrivals_of(batch, self._state.spec.name):
            for cells, positions in router.route(arrivals):
                cells.take(arrivals, positions)
                if arrivals.plain or not arrivals.idle.issuperset(positions):
                    touched[cells.watched.id] = None
                self.spread += 1
        self._evaluator.written(touched)

    def doubtful(self, batch: UpdateBatch) -> list[int]:
        """Return the positions of cells of which a read alone shows what they hold.

        It is not known whether they were written last, or something dated ahead may hide that.
        """
        hidden: list[int] = []
        timestamps = batch.timestamps
        if batch.table in self._state.dated or timestamps.count(SERVER_TIME) < len(timestamps):
            hidden = self._state.dated_of(batch.table).doubtful(batch)
        graph = self._state.graph
        if batch.table not in graph.routers:
            return []
        rivals = self._state.rivals_of(batch.table)
        if batch.table in graph.kept:
            disordered = rivals.doubtful(batch)
            return sorted({*hidden, *disordered}) if hidden else disordered
        rivals.note(batch)
        return []

    def doubt(self, batch: UpdateBatch, positions: list[int]) -> None:
        """Have cells at these positions, if they count, read before a value of theirs decides."""
        spec = self._state.spec
        counted = counted_part(doubted(batch, positions), spec)
        for arrivals in () if counted is None else arrivals_of(counted, spec.name):
            for cells, places in self._state.graph.routers[batch.table].route(arrivals):
                if cells.detail is not Detail.COUNTS:
                    keys = zip(*arrivals.cells_at(places), strict=True)
                    ambiguous = (place in arrivals.uncertain for place in places)
                    cells.reads.unsettled.update(compress(keys, ambiguous))

    def note_writers(self, message: UpdateBatch) -> None:
        """Remember, where only own updates count, which cells strangers wrote last."""
        graph, spec = self._state.graph, self._state.spec
        if spec.feeders is None:
            return
        router = graph.routers.get(message.table)
        if router is None:
            return
        for own, part in parts_by_owner(message, spec):
            if own and not any(cells.strangers.writes for cells in graph.tables[message.table]):
                continue
            for arrivals in arrivals_of(part, spec.name):
                for cells, positions in router.route(arrivals):
                    if own:
                        cells.strangers.note_own(arrivals, positions)
                    elif cells.detail is not Detail.COUNTS:
                        cells.strangers.note(arrivals, positions)

    def _table_changed(self, change: TableChange, partition: int, partitions: int) -> None:
        if change.family == NOTIFY_FAMILY.decode():
            return  # notify cells are nobody's data
        tables = self._state.graph.tables
        first = partition == 0 or not partitions
        rivals = self._state.rivals_of(change.table)
        rivalled = rivals.changed(change.observer, change.received)
        if change.kind in _DESTROYING:
            touched: dict[ContainerId, None] = {}
            removed = 0
            for cells in tables.get(change.table, ()):
                if change.family and not cells.matcher.has_family(key_bytes(change.family)):
                    continue
                removed += cells.change_table(key_bytes(change.family), partition, partitions)
                touched[cells.watched.id] = None
                if change.outcome is not Outcome.APPLIED or (first and rivalled):
                    self._reads.scan_again(cells)
            if first or removed:
                words = f"table {change.table!r} {change.kind}: {removed} elements removed"
                self._output.decide(DecisionKind.TABLE_CHANGED, words)
            self._evaluator.written(touched)
        elif first:
            words = f"table {change.table!r} {change.kind}"
            self._output.decide(DecisionKind.TABLE_CHANGED, words)
            if change.kind is TableChangeKind.MODIFIED:
                # A family may be gone; the message does not say.
                for cells in tables.get(change.table, ()):
                    self._reads.scan_for_gone(cells)
