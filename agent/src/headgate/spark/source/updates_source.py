"""PySpark's data source ``headgate_updates``: what observers published of a table.

Options: ``kafka`` (bootstrap servers), ``table``, ``cut`` (first offset after the range, as JSON
``{"topic": [offset, ...]}``), ``since`` (the same for its start; by default the topic's) and
``kafka.NAME`` for librdkafka's own settings. One task for each Kafka partition; an update that was
delivered twice appears once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headgate.events import (
    Cut,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    canonical_table,
    key_text,
    updates_topic,
)
from headgate.spark.kafka.ranges import OffsetRange, RecordsUnavailable
from headgate.spark.kafka.updates import UpdateReader, is_broken, ranges_between
from headgate.spark.source.datasource import OptionError

SCHEMA: Final = pa.schema(
    [
        ("table", pa.string()),
        ("row", pa.binary()),
        ("column", pa.string()),
        ("kind", pa.string()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("method", pa.string()),
        ("outcome", pa.string()),
        ("received", pa.float64()),
        ("observer", pa.string()),
        ("epoch", pa.int64()),
        ("intent", pa.int64()),
        ("dataflow", pa.string()),
        ("action", pa.string()),
        ("run", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""One row per cell. ``column`` is the text of a key; ``timestamp`` is in milliseconds, -1 where the
server chose; ``received`` in seconds; ``kind`` is a name of ``UpdateKind`` in lower case; dataflow,
action and run say who wrote, null where that is not known."""

_DDL: Final = (
    "table string, row binary, column string, kind string, value binary, timestamp bigint, "
    "method string, outcome string, received double, observer string, epoch bigint, intent bigint, "
    "dataflow string, action string, run string, partition int, offset bigint"
)

_KINDS: Final = [kind.name.lower() for kind in UpdateKind]


@dataclass
class OffsetPartition(InputPartition):  # type: ignore[misc]
    """The records that one task reads."""

    extent: OffsetRange


def _cut(options: Mapping[str, str], name: str) -> Cut:
    try:
        return Cut(msgspec.json.decode(options[name], type=dict[str, tuple[int, ...]]))
    except msgspec.MsgspecError as error:
        message = f'option {name!r} must be {{"topic": [offset, ...]}}: {error}'
        raise OptionError(message) from error


class UpdatesSource(DataSource):  # type: ignore[misc]
    """``spark.read.format("headgate_updates")``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "headgate_updates"

    def schema(self) -> str:
        """Return the fixed schema."""
        return _DDL

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - PySpark's
        """Return a reader between the two cuts."""
        for name in ("kafka", "table", "cut"):
            if name not in self.options:
                message = f"data source headgate_updates needs option {name!r}"
                raise OptionError(message)
        since = _cut(self.options, "since") if "since" in self.options else Cut()
        topic = updates_topic(canonical_table(self.options["table"]))
        until = _cut(self.options, "cut")
        if is_broken(topic, since, until):
            message = (
                f"some updates of topic {topic} between the two cuts are not to be had: no run has "
                "seen the table yet, or they were lost; read the table instead"
            )
            raise RecordsUnavailable(message)
        properties = {
            name.removeprefix("kafka."): value
            for name, value in self.options.items()
            if name.startswith("kafka.")
        }
        return UpdatesReader(
            self.options["kafka"],
            properties,
            ranges_between(topic, since, until),
        )


class UpdatesReader(DataSourceReader):  # type: ignore[misc]
    """Reads ranges of offsets, one partition each."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str], ranges: Sequence[OffsetRange]
    ) -> None:
        self._bootstrap = bootstrap
        self._properties = dict(properties)
        self._ranges = ranges

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each of Kafka's."""
        return [OffsetPartition(extent) for extent in self._ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a batch for each record; what comes a second time is left out."""
        if not isinstance(partition, OffsetPartition):
            return  # Spark asks with an empty partition where there is none
        seen: set[tuple[str, int, int, int]] = set()
        reader = UpdateReader(self._bootstrap, self._properties)
        try:
            for record in reader.read([partition.extent]):
                if isinstance(record.message, UpdateBatch):
                    yield _batch(record.message, record.partition, record.offset, seen)
        finally:
            reader.close()


def _batch(
    batch: UpdateBatch, partition: int, offset: int, seen: set[tuple[str, int, int, int]]
) -> pa.RecordBatch:
    rows = []
    first = 0
    for part in batch.requests:
        identity = batch.observer, batch.epoch, part.intent, part.piece
        if identity not in seen:
            seen.add(identity)
            rows += [
                (batch.table, *_cell(batch, at), *_request(batch, part), partition, offset)
                for at in range(first, first + part.cells)
            ]
        first += part.cells
    columns = zip(*rows, strict=True) if rows else [[] for _ in SCHEMA]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _cell(batch: UpdateBatch, at: int) -> tuple[bytes, str, str, bytes | None, int]:
    column = key_text(batch.columns[at])
    kind = _KINDS[batch.kinds[at]]
    return batch.rows[at], column, kind, batch.values[at], batch.timestamps[at]


def _request(
    batch: UpdateBatch, part: RequestPart
) -> tuple[str, str, float, str, int, int, str | None, str | None, str | None]:
    origin = part.origin
    who = (None, None, None) if origin is None else (origin.dataflow, origin.action, origin.run)
    return (
        part.method,
        part.outcome.value,
        part.received,
        batch.observer,
        batch.epoch,
        part.intent,
        *who,
    )
