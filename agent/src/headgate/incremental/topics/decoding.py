"""Messages of a topic as rows: each a JSON object with the declared columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.json as pajson
from msgspec import Struct

from headgate.engine import TOPIC_METADATA, OnUndecodable, TopicSpec
from headgate.incremental.stages.specification import schema_of, times_as_text

TOMBSTONE: Final = "_tombstone"
"""The column without which messages that are empty are left out."""
_ROWS: Final = 1 << 16
"""Of a batch."""
_BYTES: Final = 1 << 23
"""Of the messages of a batch."""
_SAID: Final = 20
"""Messages that are left out and said one by one."""
_objects: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw]
)


class UnusableMessage(Exception):
    """A message that is not what the dataflow file says; nothing of the run counts."""


class TopicMessage(Struct, frozen=True):
    """A message and where it stands."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds of Unix time."""
    key: bytes | None
    value: bytes | None
    """None of an empty one, which says that what its key is of is gone: a tombstone."""


def batches_of(
    spec: TopicSpec, messages: Iterable[TopicMessage], say: Callable[[str], object] = print
) -> Iterator[pa.RecordBatch]:
    """Yield messages as rows in the declared columns, in their order; other columns are left out.

    Args:
        spec: of the topic.
        messages: as they come.
        say: takes what is left out that has not the declared columns.

    Raises:
        UnusableMessage: one is no JSON object, or a value is not of its column's type.
    """
    decoder = _Decoder(spec, say)
    waiting: list[TopicMessage] = []
    size = 0
    for message in messages:
        if message.value is None and TOMBSTONE not in spec.columns:
            continue
        waiting.append(message)
        size += len(message.value or b"")
        if len(waiting) >= _ROWS or size >= _BYTES:
            yield decoder.batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield decoder.batch(waiting)


class _Decoder:
    """Makes rows of messages.

    Args:
        spec: of the topic.
        say: takes what is left out.
    """

    def __init__(self, spec: TopicSpec, say: Callable[[str], object]) -> None:
        self._spec = spec
        self._say = say
        self._left_out = 0
        self._schema = schema_of(spec.columns)
        self._key = self._schema.field(spec.key) if spec.key else None
        given = {*TOPIC_METADATA, spec.key}
        self._fields = pa.schema([field for field in self._schema if field.name not in given])

    def batch(self, messages: Sequence[TopicMessage]) -> pa.RecordBatch:
        """Return messages as rows."""
        try:
            return self._rows(messages)
        except (msgspec.MsgspecError, RecursionError, pa.ArrowException, ValueError) as error:
            if len(messages) > 1:
                middle = len(messages) // 2
                halves = (self.batch(messages[:middle]), self.batch(messages[middle:]))
                return _one_batch(pa.Table.from_batches(halves, self._schema))
            self._refuse(messages[0], error)
            return _one_batch(self._schema.empty_table())

    def _rows(self, messages: Sequence[TopicMessage]) -> pa.RecordBatch:
        values = [message.value for message in messages if message.value is not None]
        columns: dict[str, pa.Array] = {}
        if values:
            read = _objects_of(values, self._fields)
            columns = {field.name: read.column(field.name) for field in self._fields}
        if len(values) < len(messages):
            columns = self._with_tombstones(columns, messages)
        if self._key is not None:
            columns[self._key.name] = _keys([each.key for each in messages], self._key.type)
        found = {
            "_partition": [each.partition for each in messages],
            "_offset": [each.offset for each in messages],
            "_timestamp": [each.timestamp for each in messages],
            TOMBSTONE: [each.value is None for each in messages],
        }
        for name, given in found.items():
            if name in self._spec.columns:
                columns[name] = pa.array(given, self._schema.field(name).type)
        arrays = [columns[field.name] for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _with_tombstones(
        self, columns: dict[str, pa.Array], messages: Sequence[TopicMessage]
    ) -> dict[str, pa.Array]:
        """Return columns with a null where a message is empty."""
        places: list[int | None] = []
        known = 0
        for message in messages:
            places.append(None if message.value is None else known)
            known += message.value is not None
        at = pa.array(places, pa.int64())
        return {
            field.name: columns[field.name].take(at)
            if columns
            else pa.nulls(len(messages), field.type)
            for field in self._fields
        }

    def _refuse(self, message: TopicMessage, error: Exception) -> None:
        """Leave a message out or raise, with where it stands and which column is at fault."""
        named = ", ".join(f"`{name}`" for name in self._culprits(message))
        where = (
            f"topic {self._spec.topic}, partition {message.partition}, offset {message.offset}"
            + (f", column {named}" if named else "")
        )
        expected = ", ".join(f"{field.name} {field.type}" for field in self._schema)
        reason = "it is empty" if message.value == b"" else str(error)
        words = f"{where}: not a JSON object with columns {expected} ({reason})"
        if self._spec.on_undecodable is OnUndecodable.SKIP:
            self._left_out += 1
            if self._left_out <= _SAID:
                more = "; more are left out unsaid" if self._left_out == _SAID else ""
                self._say(f"{words}; left out, by `on_undecodable: skip`{more}")
            return
        advice = (
            f"{words}: declare what is there, or write `on_undecodable: skip` at the topic to have "
            "such messages left out"
        )
        raise UnusableMessage(advice) from error

    def _culprits(self, message: TopicMessage) -> list[str]:
        """Return which columns cannot be read; none where it is not the columns' fault."""
        found = []
        if self._key is not None and _fails(partial(_keys, [message.key], self._key.type)):
            found.append(self._key.name)
        value = message.value
        if value is None or _fails(partial(_objects.decode, value)):
            return found
        texts = [
            field.name
            for field in self._fields
            if _fails(partial(_objects_of, [value], pa.schema([field])))
        ]
        return found + texts


def _fails(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (msgspec.MsgspecError, RecursionError, pa.ArrowException, ValueError):
        return True
    return False


def _objects_of(values: Sequence[bytes], fields: pa.Schema) -> pa.RecordBatch:
    """Return JSON objects as rows: of each there is one, so that rows are those of messages.

    Raises:
        msgspec.MsgspecError: a value is not one JSON object.
        pa.ArrowException: a value is not of the type of its field.
    """
    for value in values:
        _objects.decode(value)
    if not fields.names:
        return pa.RecordBatch.from_arrays([], schema=fields)
    written = times_as_text(fields)
    text = b"\n".join(values)
    # As one block: what is parsed by itself must not be cut within an object.
    reading = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parsing = pajson.ParseOptions(
        explicit_schema=written, newlines_in_values=True, unexpected_field_behavior="ignore"
    )
    table = pajson.read_json(pa.BufferReader(text), reading, parsing)
    table.validate(full=True)  # texts may hold what is no UTF-8
    batch = _one_batch(table.cast(fields))
    if batch.num_rows != len(values):
        message = f"{len(values)} messages are {batch.num_rows} objects"
        raise ValueError(message)
    return batch


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _keys(keys: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return keys of messages in the type of a column: numbers are decimal digits.

    Raises:
        pa.ArrowException: a key is no text, or no number.
    """
    values = pa.array(keys, pa.binary())
    return values.cast(pa.string()).cast(kind) if pa.types.is_integer(kind) else values.cast(kind)
