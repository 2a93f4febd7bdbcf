"""What a step sees when it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.events import Cut, UnreadableKey, decode_dated, key_bytes
from headgate.spark.changes_reading import ChangesReader, Increment
from headgate.spark.column_names import NamedColumns
from headgate.spark.containers import Servers, StepContainers
from headgate.spark.ledger import checked_result
from headgate.spark.messages import KafkaAddress, StageRequest, StepRequest
from headgate.spark.reading import ContainerReader
from headgate.spark.removing import Removal, WrittenCell
from headgate.spark.source.undecodable import Decoding, UndecodedValues
from headgate.spark.source.values import ValueType, natural_type
from headgate.spark.views import ContainerView, ViewError
from headgate.spark.writing import ContainerWriter, DriverLimits

if TYPE_CHECKING:
    import pandas as pd

DRIVER_ROWS: Final = 50_000
"""Rows of a container up to which the driver reads it: about a second, less than starting tasks."""

DRIVER_BYTES: Final = 64 * 1024 * 1024
"""Input of a frame up to which the driver collects and writes it."""

DRIVER_ROWS_KEY: Final = "spark.headgate.driverRows"
DRIVER_BYTES_KEY: Final = "spark.headgate.driverBytes"


class RunCancelled(BaseException):
    """The run was cancelled: it may read on, but not write.

    It may be raised at any line of a step, so also inside the gateway to Spark's JVM. That repeats
    a command whose sending an ``Exception`` broke, over another connection, whose jobs bear no tag
    of the attempt any more and could not be cancelled.
    """


class Run:
    """One attempt of one run of a step.

    Small containers are read, and small frames written, by the driver itself: no Spark job, no
    Python worker. Larger ones go through the data source ``headgate`` in parallel. The limits are
    ``spark.headgate.driverRows`` and ``spark.headgate.driverBytes``.

    Args:
        spark: the session.
        request: what to run.
        servers: whom it asks for what is in tables and was written to them.
        cancelled: returns whether the run was cancelled.
        on_named: called with each result that the step names.
        code: by module that the step needs, the hash of its syntax tree; nothing where not known.
        files: SHA-256 of each file under ``depends``, by its path as written.

    Attributes:
        spark: the session.
        undecoded: values that the driver read for the step and that their codec could not.
        result: what the run's commit names, as the step has it by now.
        code: by module that the step needs, the hash of its syntax tree.
        files: SHA-256 of the files that it depends on, by path as written.
    """

    def __init__(
        self,
        spark: SparkSession,
        request: StepRequest,
        servers: Servers,
        cancelled: Callable[[], bool],
        on_named: Callable[[str], object] = lambda _: None,
        code: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.undecoded = UndecodedValues()
        self.result = ""
        self.code = dict(code or {})
        self.files = dict(files or {})
        self._on_named = on_named
        self._following: list[Callable[[], object]] = []
        self._request = request
        self._cancelled = cancelled
        self._containers = StepContainers(request, servers.connect)
        self._reader = ContainerReader(spark, self._containers, self.undecoded)
        self._changes = ChangesReader(
            spark,
            self._containers,
            self._reader,
            servers.lend_reader,
            request.since,
            request.cut,
            self.undecoded,
            decode_dated(request.dated),
        )
        self._writer = ContainerWriter(self._containers, request.origin)
        self._driver_rows = int(spark.conf.get(DRIVER_ROWS_KEY, str(DRIVER_ROWS)) or DRIVER_ROWS)
        self._driver_bytes = int(
            spark.conf.get(DRIVER_BYTES_KEY, str(DRIVER_BYTES)) or DRIVER_BYTES
        )

    @property
    def dataflow(self) -> str:
        """Name of the dataflow."""
        return self._request.dataflow

    @property
    def action(self) -> str:
        """Name of the action whose step this is."""
        return self._request.action

    @property
    def id(self) -> str:
        """The run's id, the same in all its attempts."""
        return self._request.run

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._request.attempt

    @property
    def token(self) -> int:
        """The fencing token: above that of every earlier attempt of any run of the action."""
        return self._request.token

    @property
    def cut(self) -> Cut:
        """Which updates this run consumes."""
        return self._request.cut

    @property
    def since(self) -> Cut:
        """Which updates the action's last committed run had consumed."""
        return self._request.since

    @property
    def previous(self) -> str:
        """The result of the action's last committed run that had one; empty where none had.

        It is the same in all attempts of the run.
        """
        return self._request.previous

    @property
    def stage(self) -> StageRequest | None:
        """The flows of a stage, and where it keeps its files; None where the action is none."""
        return self._request.stage

    @property
    def kafka(self) -> KafkaAddress:
        """The Kafka that updates come from, with what it takes to be let in."""
        return self._request.kafka_address

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The launcher's parameters in the dataflow file."""
        return self._request.parameters

    @property
    def driver_rows(self) -> int:
        """Rows up to which the driver does by itself what tasks do with more."""
        return self._driver_rows

    @property
    def rows_read(self) -> int:
        """Rows that the driver handed to the step."""
        return self._reader.rows_read + self._changes.rows_read

    @property
    def rows_written(self) -> int:
        """Rows that the step wrote."""
        return self._writer.rows_written

    def commit_as(self, result: str) -> None:
        """Have the run's commit name a result, which the action's next run finds as ``previous``.

        What is committed and what it names are decided in one: a run that fails, or whose claim
        another attempt takes, names nothing. A run that names nothing, or the empty text, leaves
        the result of the one before it standing.

        Args:
            result: at most 8,192 characters, such as the name of a file with the step's state. Of
                several calls the last one counts.

        Raises:
            ResultError: it is no text, or too long.
            ConnectionFailed: in a program of its own, the observer does not answer.
        """
        named = checked_result(result)
        self._on_named(named)
        self.result = named

    def when_committed(self, follow: Callable[[], object]) -> None:
        """Have something done right after the commit, by a worker that commits the run itself.

        It may be left out where the worker dies, and where somebody else commits the run: whatever
        must happen has to be made good by the next run.
        """
        self._following.append(follow)

    def follow_commit(self) -> None:
        """Do what was to be done once the run is committed, in the order in which it was asked for.

        Raises:
            Exception: whatever one of them raises; those after it are left out.
        """
        for follow in self._following:
            follow()

    # -- reading -----------------------------------------------------------------------------

    def read(
        self,
        container: str,
        *,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        on_undecodable: str | None = None,
    ) -> DataFrame:
        """Return a container as it is now, which includes all updates of the run's cut.

        Args:
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            columns: ``family:qualifier`` of the columns to read, where the container does not
                name them or not all are wanted; texts of keys (``headgate.events.key_text``).
            types: ``string``, ``binary``, ``double`` or ``long`` for columns of the frame that
                are to have another type than the codec's.
            on_undecodable: ``fail``, ``null`` or ``skip`` (leaves the row out): what becomes of a
                value that the codec cannot read; what the dataflow file says of the container
                where not given.

        Returns:
            One row per HBase row that has a cell in the container: ``row`` (text of the key, or
            bytes where the container has ``keys: binary``) and a column for each HBase column. Null
            where the row has no such cell or it cannot be decoded. Names are qualifiers where the
            container has one family or declares the column, and no other one with that qualifier;
            else ``family:qualifier``. Columns that the container, ``columns`` or ``types`` name are
            there even where no row has them.

        Raises:
            ViewError: no such container, or one that needs ``table`` or ``columns``.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        view = self._containers.view(container, table)
        policy = self._containers.policy(container, on_undecodable)
        return self._reader.frame(view, columns, types or {}, policy, self._driver_rows)

    def read_arrow(
        self,
        container: str,
        *,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        on_undecodable: str | None = None,
    ) -> pa.Table:
        """Return the same as ``read`` as an Arrow table in the driver, whatever its size."""
        view = self._containers.view(container, table)
        policy = self._containers.policy(container, on_undecodable)
        return self._reader.arrow(view, columns, types or {}, policy)

    def changes(
        self,
        container: str,
        *,
        table: str | None = None,
        kind: str | None = None,
        on_undecodable: str | None = None,
    ) -> DataFrame:
        """Return the cells of a container that were written between ``since`` and ``cut``.

        Updates are read from Kafka; a value that they do not settle is read from HBase.
        Where no run of the action has seen the table yet, updates were lost, or the table was
        emptied, all cells of the container are returned, and those that updates name and that are
        not there: never too few. A cell that was deleted is missing if its update was lost.

        Args:
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            kind: type of ``value``, as in ``read``; the codec's where not given.
            on_undecodable: as in ``read``; ``skip`` leaves the cell out.

        Returns:
            One row per cell: ``row`` (as in ``read``), ``column`` (the name that ``read`` gives
            it, as bytes where the container has ``keys: binary``), ``value`` (newest; null where
            deleted or not decodable) and ``deleted``. An empty ``column``, which is ``deleted``,
            stands for all cells of the row that come with no name of their own: a delete reached
            columns that the container does not declare.

        Raises:
            ViewError: no such container, or one that needs ``table``.
            RecordsUnavailable: Kafka does not answer.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        view = self._containers.view(container, table)
        decoding = self._decoding(view, kind, on_undecodable)
        return self._changes.frame(view, decoding, self._driver_rows)

    def changes_arrow(
        self,
        container: str,
        *,
        table: str | None = None,
        kind: str | None = None,
        on_undecodable: str | None = None,
    ) -> pa.Table:
        """Return the same as ``changes`` as an Arrow table."""
        view = self._containers.view(container, table)
        cells = self._changes.cells(view)
        return self._changes.arrow(view, cells, self._decoding(view, kind, on_undecodable))

    def increment(
        self,
        container: str,
        *,
        table: str | None = None,
        since: Cut | None = None,
        whole: bool = False,
    ) -> Increment:
        """Return the same as ``changes`` where it is, and whether it is all that there is.

        Args:
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            since: what was consumed before, by whoever keeps account of it; ``Run.since`` where
                not given.
            whole: whether all cells count as changed, whatever was consumed before.

        Raises:
            ViewError: no such container, or one that needs ``table``.
            RecordsUnavailable: Kafka does not answer.
            UndecodableValue: a value does not decode, and that is to fail the step.
        """
        view = self._containers.view(container, table)
        decoding = self._decoding(view, None, None)
        return self._changes.increment(view, decoding, self._driver_rows, since=since, whole=whole)

    def naming(self, container: str) -> NamedColumns:
        """Return how the rows and columns of a container are named.

        Raises:
            ViewError: no such container, or one in several tables.
        """
        return self._containers.column_names(self._containers.view(container, None)).naming

    @property
    def containers(self) -> Collection[str]:
        """Names of the containers that it may ask for."""
        return self._containers.names

    def _decoding(
        self, view: ContainerView, kind: str | None, on_undecodable: str | None
    ) -> Decoding:
        decoded = natural_type(view.codec) if kind is None else ValueType(kind)
        return Decoding(view.codec, decoded, self._containers.policy(view.name, on_undecodable))

    # -- writing -----------------------------------------------------------------------------

    def write(
        self,
        frame: DataFrame | pa.Table | pd.DataFrame,
        container: str,
        *,
        table: str | None = None,
        timestamp: int | None = None,
    ) -> int:
        """Put a frame's rows into a container and return how many that were.

        Writing the same frame again, as Spark does when it repeats a task and as the next attempt
        of a run does, leaves the table as it is: every cell has the value of the last put. Rows
        are atomic one by one, not together. A null deletes the cell, after the row's values are
        put: leave a column or a row out of the frame where what is stored is to stay. In a row in
        which the container does not have the column, a null says nothing.

        Args:
            frame: ``row`` (text of the key, binary or integer) and a column for each HBase column,
                named as ``read`` names them, or ``family:qualifier``. Text and binary are put as
                they are, numbers in the container's codec.
            container: its name in the dataflow.
            table: which of its tables, where it has several.
            timestamp: of all cells, in milliseconds; the server's clock by default. With one, a
                repetition does not even add versions, but a newer cell hides what is written, and
                what a null deleted stays so for this timestamp and all before.

        Raises:
            ViewError: a column has no place in the container, or a row, or a value in it, is
                outside. The driver writes nothing then; tasks, which check a batch at a time, may
                have written other rows.
            RunCancelled: the run was cancelled.
            RequestRefused: the observer found the run fenced off by a newer attempt, or the
                server refused.
        """
        if self._cancelled():
            message = f"run {self.id} was cancelled; nothing more is written"
            raise RunCancelled(message)
        view = self._containers.view(container, table)
        limits = DriverLimits(self._driver_rows, self._driver_bytes)
        return self._writer.write(frame, view, timestamp, limits)

    def cells(self, table: pa.Table, container: str) -> pa.Table:
        """Return the cells that ``write`` writes of a table's rows.

        Args:
            table: as for ``write``.
            container: its name in the dataflow.

        Returns:
            ``row``, ``column`` (``family:qualifier``) and ``value``, all as HBase has them; null
            where the cell is deleted.

        Raises:
            ViewError: a column has no place in the container.
            UnwritableValue: a codec has no bytes for a value, or a row has no key.
        """
        return self._writer.cells(table, self._containers.view(container, None))

    def table_of(self, container: str) -> str:
        """Return the table of a container.

        Raises:
            ViewError: no such container, or one in several tables.
        """
        return self._containers.view(container, None).table

    def remove(self, cells: Iterable[WrittenCell], container: str) -> Removal:
        """Delete cells that earlier runs have written, and that nobody has changed since.

        Args:
            cells: with what was written there; those of a row together.
            container: its name in the dataflow.

        Returns:
            How many were removed, and which stay, since they have another value or are not in the
            container any more.

        Raises:
            ViewError: no such container, or one in several tables.
            RunCancelled: the run was cancelled; some cells may be removed.
            RequestRefused: the observer found the run fenced off by a newer attempt, or the
                server refused.
        """
        view = self._containers.view(container, None)
        return self._writer.remove(cells, view, self._check_not_cancelled)

    def _check_not_cancelled(self) -> None:
        if self._cancelled():
            message = f"run {self.id} was cancelled; nothing more is deleted"
            raise RunCancelled(message)

    def delete(
        self, rows: Iterable[str | bytes], container: str, *, table: str | None = None
    ) -> int:
        """Delete the container's cells of the given rows and return how many rows were named.

        Of a row that is what the container has of it, and nothing else: whole rows only where the
        container has whole rows.

        Args:
            rows: texts of keys, or bytes.
            container: its name in the dataflow.
            table: which of its tables, where it has several.

        Raises:
            ViewError: no such container, or one that needs ``table``; or a row that is not in it,
                and then nothing is deleted.
            RunCancelled: the run was cancelled.
        """
        self._check_not_cancelled()
        view = self._containers.view(container, table)
        keys = [_deleted_key(number, row, container) for number, row in enumerate(rows, 1)]
        return self._writer.delete(keys, view)


def _deleted_key(number: int, row: object, container: str) -> bytes:
    """Return the key of a row that is to be deleted."""
    place = f"row {number} that is to be deleted of container {container!r}"
    if not isinstance(row, str | bytes) or not row:
        message = f"{place} is {row!r:.200}; give the text of a key, or its bytes"
        raise ViewError(message)
    try:
        return key_bytes(row) if isinstance(row, str) else row
    except UnreadableKey as error:
        message = f"{place}: {error}"
        raise ViewError(message) from error
