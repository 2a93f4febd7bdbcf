"""Output flows that go to files for everybody: written before the commit, visible after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from headgate.engine import FilesSpec
from headgate.incremental.published import (
    INCREMENT,
    entry_names,
    increment_name,
    read_entry,
    unnamed_folders,
)
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.batches import BATCH_BYTES, BATCH_ROWS
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import Publication, PublishedFile
from headgate.incremental.state.names import Writer

FILE_BYTES: Final = 1 << 28
"""Of rows in memory after which the next file begins: as readers of Parquet like them, or less."""


class FlowSink(Struct, frozen=True):
    """Where one attempt writes an output flow.

    Args:
        writer: the attempt.
        number: its fencing token: above that of every earlier attempt of the action.
        flow: that is written.
        spec: where it goes.
        store: there.
    """

    writer: Writer
    number: int
    flow: str
    spec: FilesSpec
    store: FileStore

    def check_place(self) -> None:
        """Check what is there before a stage that begins with nothing publishes all it has.

        Raises:
            StageError: somebody else publishes there, or what is there would come after it.
            DamagedIncrement: an entry is no entry.
        """
        names = entry_names(self.store)
        if not names:
            return
        last = read_entry(self.store, names[-1])
        whose = f"flow `{last.flow}` of `{last.stage}`"
        if (last.stage, last.flow) != (self.writer.stage, self.flow):
            wrong = f"holds increments of {whose}"
        elif last.increment >= self.number:
            wrong = f"holds increments of an earlier dataflow of this name, {whose}"
        else:
            return
        message = (
            f"{self.spec.location}, to which flow `{self.flow}` of `{self.writer.stage}` goes, "
            f"{wrong}: give it a place of its own, or move away what is there"
        )
        raise StageError(message)

    def write(
        self, batches: Iterable[pa.RecordBatch], columns: pa.Schema, *, whole: bool
    ) -> Publication | None:
        """Write the rows of an increment; return what its commit publishes, None where no rows are.

        Args:
            batches: of the flow.
            columns: of the flow.
            whole: whether they are all that there is: then even no rows are published.

        Raises:
            UnwrittenFile: a file could not be written.
        """
        tables = _gathered(batches, columns)
        left = next(tables, columns.empty_table() if whole else None)
        if left is None:
            return None
        name = increment_name(self.number, self.writer.holder)
        files: list[PublishedFile] = []
        while left is not None:
            file, left = self._file(f"{name}/{len(files):05d}.parquet", left, tables)
            files.append(file)
        return Publication(
            name,
            self.number,
            self.writer.stage,
            self.flow,
            self.writer.run,
            whole,
            {field.name: str(field.type) for field in columns},
            tuple(files),
        )

    def _file(
        self, path: str, first: pa.Table, tables: Iterator[pa.Table]
    ) -> tuple[PublishedFile, pa.Table | None]:
        """Write a file until it is full; return it with the portion that has no room any more."""
        schema = first.schema.insert(0, pa.field(INCREMENT, pa.int64()))
        rows = size = 0
        left: pa.Table | None = first
        with self.store.writing(path) as sink, pq.ParquetWriter(sink, schema) as parquet:
            while left is not None and (not rows or size + left.nbytes <= FILE_BYTES):
                numbers = pa.repeat(pa.scalar(self.number, pa.int64()), len(left))
                parquet.write_table(left.add_column(0, schema.field(0), numbers))
                rows, size = rows + len(left), size + left.nbytes
                left = next(tables, None)
        return PublishedFile(path, rows, sink.length), left

    def collect(self) -> None:
        """Remove what earlier attempts have written that no entry names: none can be committed.

        So removing an entry removes its files, too.
        """
        for name in unnamed_folders(self.store, self.number):
            self.store.remove_folder(name)


def _gathered(batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows in portions: each becomes a row group, and small ones are dear to read."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield pa.Table.from_batches(waiting, columns)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if rows:
        yield pa.Table.from_batches(waiting, columns)
