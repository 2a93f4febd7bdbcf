"""The changes of containers as frames: updates from Kafka, and from HBase what these leave open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from headgate.client import RequestRefused, read_rows
from headgate.engine import OnUndecodable
from headgate.events import NOTHING_DATED, Cut, DatedState, printable_key, updates_topic
from headgate.spark.changes import ChangedCells, LatestCells, cell_by_cell
from headgate.spark.containers import StepContainers
from headgate.spark.kafka.updates import UpdateReader, is_broken, ranges_between
from headgate.spark.reading import ROW_TYPES, SQL_TYPES, ContainerReader, wanted_columns
from headgate.spark.source.keys import key_array, name_array
from headgate.spark.source.tables import PAGE, ROW, ColumnMapping
from headgate.spark.source.undecodable import Decoding, UndecodedValues
from headgate.spark.source.values import ValueType
from headgate.spark.views import ContainerView


class Increment(Struct, frozen=True, eq=False):
    """What came of a container between two cuts."""

    rows: pa.Table | DataFrame
    """As ``Run.changes`` has them; a frame where they are too many for the driver."""
    whole: bool
    """Whether all cells that there are count as changed, as updates do not say which did."""


class ChangesReader:
    """Reads what was written to containers between two cuts.

    Args:
        spark: the session.
        containers: those of the step.
        whole: reads containers of which everything counts as changed.
        readers: lends a consumer for the time of a read.
        since: which updates the action's last committed run had consumed.
        cut: which updates this run consumes.
        undecoded: takes note of values that the driver read and that their codec could not.
        dated: what was dated ahead by the cut, by table.

    Attributes:
        rows_read: cells that the driver handed to the step.
    """

    def __init__(
        self,
        spark: SparkSession,
        containers: StepContainers,
        whole: ContainerReader,
        readers: Callable[[], AbstractContextManager[UpdateReader]],
        since: Cut,
        cut: Cut,
        undecoded: UndecodedValues,
        dated: Mapping[str, DatedState],
    ) -> None:
        self.rows_read = 0
        self._spark = spark
        self._containers = containers
        self._whole = whole
        self._readers = readers
        self._since = since
        self._cut = cut
        self._undecoded = undecoded
        self._dated = dated
        self._ttls: dict[str, dict[bytes, int]] = {}
        self._told: set[str] = set()

    def frame(self, view: ContainerView, decoding: Decoding, most: int) -> DataFrame:
        """Return a container's changed cells as a frame.

        Where all of them count as changed, tasks read a container of more than ``most`` rows.

        Raises:
            RecordsUnavailable: Kafka does not answer.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        rows = self.increment(view, decoding, most).rows
        return self._spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows

    def increment(
        self,
        view: ContainerView,
        decoding: Decoding,
        most: int,
        *,
        since: Cut | None = None,
        whole: bool = False,
    ) -> Increment:
        """Return a container's changed cells where they are: with the driver, or with tasks.

        Args:
            view: of the container.
            decoding: of its values.
            most: rows of a container that the driver reads, where all cells count as changed.
            since: what was consumed before, where it is not the last committed run's cut.
            whole: whether all cells count as changed anyway.

        Raises:
            RecordsUnavailable: Kafka does not answer.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        changed = self._changed(view, since)
        changed.everything = changed.everything or whole
        if not changed.everything:
            cells = self._newest(view, changed)
            return Increment(self.arrow(view, cells, decoding), whole=False)
        wanted = wanted_columns(view, None)
        found = self._everything(view, None if wanted is None else most)
        if found is None:
            return Increment(self._everything_large(view, decoding, changed), whole=True)
        cells = changed.with_deleted(found)
        return Increment(self.arrow(view, cells, decoding), whole=True)

    def cells(self, view: ContainerView) -> LatestCells:
        """Return a container's changed cells, however many.

        Raises:
            RecordsUnavailable: Kafka does not answer.
        """
        changed = self._changed(view)
        if changed.everything:
            found = self._everything(view, None)
            assert found is not None  # noqa: S101 - without a limit it is always read
            return changed.with_deleted(found)
        return self._newest(view, changed)

    def arrow(self, view: ContainerView, cells: LatestCells, decoding: Decoding) -> pa.Table:
        """Return changed cells as an Arrow table.

        Raises:
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        names = self._containers.column_names(view)
        called = {column: names.name(column) for column in {column for _, column in cells}}
        values = list(cells.values())
        self.rows_read += len(cells)
        places = list(cells)
        value, without = decoding.decode(values, self._undecoded, places.__getitem__)
        changed = pa.table(
            {
                ROW: key_array([row for row, _ in cells], ROW_TYPES[view.keys]),
                "column": name_array([called[column] for _, column in cells], view.keys),
                "value": value,
                "deleted": pa.array([value is None for value in values], pa.bool_()),
            }
        )
        if without:
            changed = changed.take([at for at in range(len(values)) if at not in without])
        return changed

    def _everything(self, view: ContainerView, most: int | None) -> LatestCells | None:
        """Return all cells of a container; None where it has more rows than that."""
        cells: LatestCells = {}
        rows = 0
        with self._containers.connect() as connection:
            for row, columns in connection.scan(view.table, view.extent, PAGE):
                rows += 1
                if most is not None and rows > most:
                    return None
                cells |= {(row, name): v for name, v in columns.items() if view.has(row, name)}
        return cells

    def _everything_large(
        self, view: ContainerView, decoding: Decoding, changed: ChangedCells
    ) -> DataFrame:
        columns = self._containers.column_names(view).names(wanted_columns(view, None) or ())
        mappings = [
            ColumnMapping(name, column, view.codec, ValueType.BINARY)
            for name, column in columns.items()
        ]
        frame = self._whole.numbered(view, mappings, OnUndecodable.NULL)
        key, value = SQL_TYPES[ROW_TYPES[view.keys]], SQL_TYPES[decoding.kind]
        schema = f"{ROW} {key}, column {key}, value {value}, deleted boolean"
        each = partial(cell_by_cell, columns=columns, decoding=decoding, keys=view.keys)
        cells = frame.mapInArrow(each, schema)
        deleted = changed.with_deleted({})
        if not deleted:
            return cells
        gone = self._spark.createDataFrame(self.arrow(view, deleted, decoding))
        place = [ROW, "column"]
        left = gone.join(cells.select(*place), place, "left_anti").select(*cells.columns)
        return cells.unionByName(left)

    def _changed(self, view: ContainerView, since: Cut | None = None) -> ChangedCells:
        """Return what was written between the two cuts, as far as records have it."""
        dated = self._dated.get(view.table, NOTHING_DATED)
        ttls = self._times_to_live(view)
        changed = ChangedCells(view, dated, ttls=ttls, now=time.time() * 1000)
        topic = updates_topic(view.table)
        ranges = ranges_between(topic, since or self._since, self._cut)
        changed.everything = is_broken(topic, self._since, self._cut)
        if ranges:
            with self._readers() as reader:
                there = reader.there(ranges)
                changed.everything = changed.everything or there != ranges
                for record in reader.read(there):
                    changed.add(record.message, record.partition)
        self._tell_of_expiry(view, changed, ttls)
        return changed

    def _times_to_live(self, view: ContainerView) -> dict[bytes, int]:
        """Return milliseconds by family of the container, where cells of a family expire."""
        if view.table not in self._ttls:
            with self._containers.connect() as connection:
                try:
                    found = connection.times_to_live(view.table)
                except RequestRefused:
                    if connection.table_exists(view.table):
                        raise
                    found = {}
            self._ttls[view.table] = {family: 1000 * seconds for family, seconds in found.items()}
        return {f: ttl for f, ttl in self._ttls[view.table].items() if view.has_family(f)}

    def _tell_of_expiry(
        self, view: ContainerView, changed: ChangedCells, ttls: Mapping[bytes, int]
    ) -> None:
        """Log once that nothing says which cells have expired since the last run."""
        if view.name in self._told or not (ttls or changed.mortal):
            return
        self._told.add(view.name)
        why = [f"family {printable_key(f)} after {ttl / 1000:g} s" for f, ttl in ttls.items()]
        if changed.mortal:
            row, column = min(changed.mortal)
            example = f"{printable_key(column)} of row {printable_key(row)}"
            why.append(f"cells with a time to live of their own, such as {example}")
        print(
            f"container {view.name}: cells expire ({'; '.join(why)}). Changes do not name a cell "
            "as deleted because it expires: a step that needs to know reads the container, and a "
            "stage keeps such cells until it is rebuilt"
        )

    def _newest(self, view: ContainerView, changed: ChangedCells) -> LatestCells:
        """Return the newest values of cells that changed."""
        unread = changed.unread()
        if unread:
            changed.settle(unread, self._cells_of(view, unread))
        return {cell: v for cell, v in changed.cells.items() if v is None or isinstance(v, bytes)}

    def _cells_of(
        self, view: ContainerView, rows: Sequence[bytes]
    ) -> dict[bytes, dict[bytes, bytes]]:
        with self._containers.connect() as connection:
            return read_rows(connection, view.table, rows, view.extent.columns)
