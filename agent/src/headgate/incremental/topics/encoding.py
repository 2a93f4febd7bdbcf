"""Rows of an output flow as messages: each a JSON object, with the key that its column says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

_ROWS: Final = 10_000
"""Rows that are values of Python at a time: some ten megabytes."""
_encoder = msgspec.json.Encoder(enc_hook=str)


class OutgoingMessage(Struct, frozen=True):
    """A message to be sent."""

    key: bytes | None
    value: bytes

    @property
    def size(self) -> int:
        """Bytes of both."""
        return len(self.key or b"") + len(self.value)


def is_key(kind: pa.DataType) -> bool:
    """Return whether values of a type can be keys of messages."""
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_integer,
    )
    return any(test(kind) for test in tests)


def outgoing(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[OutgoingMessage]:
    """Yield rows as messages, in their order.

    Binary values are base64, NaN is null, and times are text as ISO 8601 has it.

    Args:
        batches: of rows.
        key: the column that is the messages' key: text, bytes, or numbers as decimal digits. No
            message has one where it is empty.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            rows = _readable(part).to_pylist()
            keys = part.column(key).to_pylist() if key else [None] * len(rows)
            for row, one in zip(rows, keys, strict=True):
                yield OutgoingMessage(_key(one), _encoder.encode(row))


def _readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with times as text, of which Python has no nanoseconds."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = pc.replace_substring(column.cast(pa.string()), " ", "T")
        elif pa.types.is_date(kind) or pa.types.is_time(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _key(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()
