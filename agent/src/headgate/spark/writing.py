"""Frames into containers: small ones are put by the driver, large ones by Spark's tasks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql

from headgate.events import Origin, encode_origin, is_unicode, key_text, printable_key
from headgate.spark.column_names import target_columns
from headgate.spark.containers import StepContainers
from headgate.spark.remote import is_remote
from headgate.spark.removing import Removal, WrittenCell, remove_cells
from headgate.spark.source.tables import (
    ROW,
    ColumnTarget,
    range_texts,
    write_batch,
    written_cells,
)
from headgate.spark.source.values import UnwritableValue
from headgate.spark.views import ContainerView, ViewError

if TYPE_CHECKING:
    import pandas as pd


class DriverLimits(Struct, frozen=True):
    """What the driver collects and writes by itself."""

    rows: int
    """Of a frame on a Connect server."""
    input_bytes: int
    """Of the inputs of any other frame."""


class ContainerWriter:
    """Writes frames to containers.

    Args:
        containers: those of the step.
        origin: what writes name as theirs.

    Attributes:
        rows_written: rows that the step wrote or deleted.
    """

    def __init__(self, containers: StepContainers, origin: Origin) -> None:
        self.rows_written = 0
        self._containers = containers
        self._origin = origin

    def write(
        self,
        frame: DataFrame | pa.Table | pd.DataFrame,
        view: ContainerView,
        timestamp: int | None,
        limits: DriverLimits,
    ) -> int:
        """Put a frame's rows into a container and return how many that were.

        Args:
            frame: ``row``, and a column for each HBase column.
            view: where to.
            timestamp: of all cells, in milliseconds; the server's clock if None.
            limits: what of a frame of Spark's the driver writes.

        Raises:
            ViewError: a column has no place in the container, or a row is not in it. The driver
                writes nothing then; tasks may have written other rows.
            RequestRefused: the observer or the server refused.
        """
        names = [name for name in _names(frame) if name != ROW]
        if len(names) == len(_names(frame)):
            message = f"the frame for container {view.name!r} has no column {ROW!r} with its keys"
            raise ViewError(message)
        targets = target_columns(view, self._containers.column_names(view), names)
        if isinstance(frame, DataFrame):
            collected = _collected(frame, limits)
            if collected is None:
                return self._write_large(frame, view, targets, timestamp)
            local = collected
        else:
            local = frame if isinstance(frame, pa.Table) else _of_pandas(frame, view)
        with self._containers.connect() as connection:
            written = write_batch(
                connection,
                view.table,
                local,
                _places(view, targets),
                self._origin,
                timestamp,
                view.name,
            )
        self.rows_written += written
        return written

    def cells(self, frame: pa.Table, view: ContainerView) -> pa.Table:
        """Return the cells that ``write`` writes of a frame; see ``written_cells``.

        Raises:
            ViewError: a column has no place in the container.
            UnwritableValue: a codec has no bytes for a value, or a row has no key.
        """
        names = [name for name in frame.column_names if name != ROW]
        targets = target_columns(view, self._containers.column_names(view), names)
        return written_cells(frame, _places(view, targets))

    def remove(
        self, cells: Iterable[WrittenCell], view: ContainerView, check: Callable[[], object]
    ) -> Removal:
        """Delete cells that still have the value that was written; see ``remove_cells``."""
        with self._containers.connect() as connection:
            done = remove_cells(connection, view, cells, self._origin, check)
        self.rows_written += done.removed
        return done

    def delete(self, keys: Sequence[bytes], view: ContainerView) -> int:
        """Delete a container's cells of the given rows and return how many rows were named.

        Raises:
            ViewError: a row is not in the container; nothing is deleted.
            RequestRefused: the observer or the server refused.
        """
        rows: dict[tuple[bytes, ...], list[bytes]] = {}
        for key in keys:
            columns = view.touched(key)
            if columns is None:
                message = (
                    f"row {printable_key(key)} is not in container {view.name!r}, so nothing of it "
                    "can be deleted there: leave it out"
                )
                raise ViewError(message)
            rows.setdefault(columns, []).append(key)
        deleted = 0
        with self._containers.connect() as connection:
            for columns, several in rows.items():
                deleted += connection.delete(view.table, several, columns, origin=self._origin)
        self.rows_written += deleted
        return deleted

    def _write_large(
        self,
        frame: DataFrame,
        view: ContainerView,
        targets: Mapping[str, bytes],
        timestamp: int | None,
    ) -> int:
        counted = Observation()
        # Names are any text: Spark is given numbers, by the places of the columns.
        places = [ROW if name == ROW else f"c{at}" for at, name in enumerate(frame.columns)]
        numbered = {
            place: targets[name]
            for place, name in zip(places, frame.columns, strict=True)
            if name != ROW
        }
        writer = (
            frame.toDF(*places)
            .observe(counted, sql.count(sql.lit(1)).alias("rows"))
            .write.format("headgate")
            .mode("append")
            .options(**self._containers.address(view.table, view.codec))
            .options(**task_options(view, numbered))
            .option("origin", base64.b64encode(encode_origin(self._origin)).decode())
        )
        if timestamp is not None:
            writer = writer.option("timestamp", timestamp)
        writer.save()
        rows = int(counted.get["rows"])
        self.rows_written += rows
        return rows


def task_options(view: ContainerView, targets: Mapping[str, bytes]) -> dict[str, str]:
    """Return the data source's options that say where in a container columns are written.

    Args:
        view: the container.
        targets: HBase's column for each column of the frame.
    """
    places = _places(view, targets)
    ranges = {n: range_texts(t.ranges) for n, t in places.items() if t.ranges is not None}
    columns = {name: key_text(target.column) for name, target in places.items()}
    return {
        "columns": json.dumps(columns),
        "ranges": json.dumps(ranges),
        "container": view.name,
    }


def _of_pandas(frame: pd.DataFrame, view: ContainerView) -> pa.Table:
    """Return a frame of pandas as a table.

    Raises:
        UnwritableValue: a text has half of a surrogate pair, which is not Unicode text.
    """
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except UnicodeEncodeError as error:
        names = [str(name) for name in frame.columns]
        rows = frame.itertuples(index=False, name=None)
        for number, row in enumerate(rows, 1):
            for name, value in zip(names, row, strict=True):
                if isinstance(value, str) and not is_unicode(value):
                    message = (
                        f"row {number} of the frame for container {view.name!r}, column {name!r}: "
                        f"{value!r:.200} is not Unicode text, as it has half of a surrogate pair: "
                        "write bytes, or correct it"
                    )
                    raise UnwritableValue(message, number - 1) from error
        raise


def _places(view: ContainerView, targets: Mapping[str, bytes]) -> dict[str, ColumnTarget]:
    """Return where in a container columns are written: each only in the rows that have it."""
    everywhere = (b"", None)
    places: dict[str, ColumnTarget] = {}
    for name, column in targets.items():
        ranges = view.ranges(column)
        places[name] = ColumnTarget(column, view.codec, None if everywhere in ranges else ranges)
    return places


def _collected(frame: DataFrame, limits: DriverLimits) -> pa.Table | None:
    """Return a small frame's rows; None where it is better written in parallel."""
    if not is_remote(frame):
        return None if _is_large(frame, limits.input_bytes) else frame.toArrow()
    # A server returns no sizes of a plan's inputs, so the rows are tried.
    rows = frame.limit(limits.rows + 1).toArrow()
    return rows if rows.num_rows <= limits.rows else None


def _is_large(frame: DataFrame, most: int) -> bool:
    # The sizes of a plan's inputs are known; Spark's guesses for joins are products of them.
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()  # noqa: SLF001
    sizes = (int(str(leaves.apply(at).stats().sizeInBytes())) for at in range(leaves.size()))
    return sum(sizes) > most


def _names(frame: Any) -> list[str]:
    if isinstance(frame, pa.Table):
        return list(frame.column_names)
    return [str(name) for name in frame.columns]
