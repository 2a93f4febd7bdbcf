"""Streams of one group that are sorted alike, side by side: a merge join of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.stages.streams import FlowStream
from headgate.incremental.state.keys import key_column


def aligned(
    flows: Mapping[str, FlowStream], by: str | tuple[str, ...]
) -> Iterator[dict[str, pa.Table]]:
    """Yield parts of streams, rising: all rows that any of them has of the values of a part.

    So a translation by streams joins its state with what has come, or merges both, some batches at
    a time. The rows of one value have to fit into memory.

    Args:
        flows: of one group, each ordered by the columns, as by ``order_by`` of its flow.
        by: the columns.

    Raises:
        UnusableKey: values of a column can be no keys.
    """
    columns = (by,) if isinstance(by, str) else by
    heads = {flow: _Head(stream, columns) for flow, stream in flows.items()}
    while True:
        ends = {flow: head.last for flow, head in heads.items() if not head.ended}
        cut = min(ends.values(), default=None)
        part = {flow: head.below(cut) for flow, head in heads.items()}
        if any(map(len, part.values())):
            yield part
        if cut is None:
            return
        for flow, last in ends.items():
            if last == cut:
                heads[flow].more()


class _Head:
    """The rows of a stream that have been read and not passed on.

    Args:
        stream: of the rows.
        columns: by which they are sorted.
    """

    def __init__(self, stream: FlowStream, columns: tuple[str, ...]) -> None:
        self._stream = stream
        self._columns = columns
        self._rows = stream.schema.empty_table()
        self._places = pa.array([], pa.large_binary())
        self.ended = False
        """Whether there are no more of them."""
        self.more()

    @property
    def last(self) -> bytes:
        """The highest value that was read, of which there may be more."""
        return bytes(self._places[-1].as_py())

    def more(self) -> None:
        """Read some of the next rows."""
        batch = next((batch for batch in self._stream if batch.num_rows), None)
        if batch is None:
            self.ended = True
            return
        places = key_column([batch.column(name) for name in self._columns])
        self._rows = pa.concat_tables([self._rows, pa.Table.from_batches([batch])])
        self._places = pa.concat_arrays([self._places, places.cast(pa.large_binary())])

    def below(self, cut: bytes | None) -> pa.Table:
        """Return and forget the rows below a value; all where it is None."""
        count = len(self._rows)
        if cut is not None:
            lower = pc.less(self._places, pa.scalar(cut, self._places.type))
            count = lower.true_count
        found, self._rows = self._rows.slice(0, count), self._rows.slice(count)
        self._places = self._places.slice(count)
        return found
