"""An account of the cells that a stage has written to containers, so that a rebuild removes some.

A state that is made anew says nothing of what the one before it has put out. So each epoch notes,
by row and column, a digest of what it has written; a rebuild removes from the tables what was noted
and is not written any more. It is noted in the manifest: what counts is decided with the state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from headgate.incremental.epochs.epoch import compacted, last_of_each
from headgate.incremental.epochs.shuffling import gathered
from headgate.incremental.state.buckets import Bucket
from headgate.incremental.state.errors import StateError
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.manifest import BucketState, Manifest, WrittenCells, read_manifest
from headgate.incremental.state.names import Writer
from headgate.incremental.state.readers import BucketReader
from headgate.incremental.state.rows import (
    KEY,
    ORDER,
    Match,
    hash_array,
    sort_rows,
    state_rows,
    state_schema,
)
from headgate.incremental.state.runs import Run as SortedRun
from headgate.incremental.state.runs import write_run
from headgate.spark import Removal, WrittenCell, value_digest

if TYPE_CHECKING:
    from headgate.spark import Run

_DIGEST: Final = "digest"
_SCHEMA: Final = state_schema(pa.schema([(_DIGEST, pa.uint64())]))
_AT_ONCE: Final = 1 << 18
"""Rows of an output flow whose cells are sorted together: some tens of megabytes."""

Account = Mapping[str, WrittenCells]
"""Cells by output flow, which has the name of the container."""


class CellAccount:
    """Notes what one attempt writes to containers, and removes what is not written any more.

    Args:
        run: the attempt.
        store: where the files of the stage are.
        writer: the attempt, by which new files are named.
    """

    def __init__(self, run: Run, store: FileStore, writer: Writer) -> None:
        self._run = run
        self._store = store
        self._writer = writer

    def noted(
        self, flow: str, rows: Iterable[pa.RecordBatch], before: WrittenCells
    ) -> WrittenCells:
        """Return the account of a flow after its rows were written.

        Args:
            flow: that is written to the container of its name.
            rows: that were written.
            before: the account before.

        Raises:
            UnwrittenFile: a file could not be written.
            DamagedState: a file of the account is not what it was.
        """
        refs = [
            self._written(self._run.cells(part, flow))
            for part in gathered(rows, _AT_ONCE, sys.maxsize)
        ]
        known = before.cells
        state = BucketState(known.bucket, known.base, (*known.runs, *filter(None, refs)))
        state, _ = compacted(Match.ROW, self._writer.stage, self._store, self._writer, state)
        return WrittenCells(before.table, state, before.since)

    def _written(self, cells: pa.Table) -> FileRef | None:
        if not len(cells):
            return None
        name, stage = self._writer.rows_name(), self._writer.stage
        return write_run(self._store, name, _sorted(cells), stage, match=Match.ROW)

    def remove(
        self, old: Account, new: Account, others: Mapping[str, str]
    ) -> dict[str, WrittenCells]:
        """Remove cells of an account that a newer one does not have, and say what stays.

        A cell stays if it has another value than the one that was noted, since somebody else has
        written it, or if another stage has it in its account.

        Args:
            old: of the state that does not count any more.
            new: of the state that counts instead.
            others: manifests of other stages that write to containers, by stage.

        Returns:
            The new account, which says from when on all cells are known.

        Raises:
            RequestRefused: the observer or the server refused.
        """
        after = dict(new)
        for flow, cells in old.items():
            table = cells.table
            if flow not in self._run.containers or self._run.table_of(flow) != table:
                print(
                    f"what was written to table {table} as `{flow}` stays: no container of that "
                    "name is in this table any more; remove it if nobody is to read it"
                )
                continue
            try:
                kept = [(self._writer.stage, one) for one in new.values()]
                kept += self._of_others(others)
                done = self._removed(flow, cells, [each for each in kept if each[1].table == table])
            except StateError as error:
                print(
                    f"cells that were written to `{flow}` before cannot be told from those of "
                    f"others, so they stay where nothing is written now: {error}"
                )
                if flow in after:
                    after[flow] = replace(after[flow], since=time.time())
                continue
            if words := _removal_words(flow, done):
                print(words)
        return after

    def _of_others(self, others: Mapping[str, str]) -> list[tuple[str, WrittenCells]]:
        manifests = (read_manifest(self._store, name) for name in others.values())
        return [
            (manifest.stage, cells)
            for manifest in manifests
            if manifest.stage != self._writer.stage
            for cells in manifest.written.values()
        ]

    def _removed(
        self, flow: str, old: WrittenCells, kept: Sequence[tuple[str, WrittenCells]]
    ) -> Removal:
        reader = self._reader(self._writer.stage, old)
        readers = [self._reader(stage, cells) for stage, cells in kept]
        return self._run.remove(_missing(reader, readers), flow)

    def _reader(self, stage: str, cells: WrittenCells) -> BucketReader:
        runs = [SortedRun(self._store, ref, stage) for ref in cells.cells.files]
        return BucketReader(runs, Match.ROW, schema=_SCHEMA)


def account_before(flow: str, table: str, manifest: Manifest | None) -> WrittenCells:
    """Return the account of a flow with which an epoch goes on.

    Args:
        flow: that is written to the container of its name.
        table: of the container.
        manifest: the state with which the epoch goes on; None where it begins anew.
    """
    if manifest is None:
        return _nothing(table)
    known = manifest.written.get(flow)
    if known is not None:
        return known if known.table == table else _nothing(table)
    # An earlier version kept no account.
    return _nothing(table, time.time() if flow in manifest.schemas else 0.0)


def account_anew(
    accounts: Account, old: Manifest | None, *, is_known: bool
) -> dict[str, WrittenCells]:
    """Return the accounts of a stage that has begun anew, with what is not known of before.

    Args:
        accounts: of what it has written since.
        old: the state that does not count any more; None where there is none to be read.
        is_known: whether there was none, or it could be read.
    """
    found = {}
    for flow, cells in accounts.items():
        since = 0.0 if is_known else time.time()
        if old is not None:
            since = account_before(flow, cells.table, old).since
        found[flow] = replace(cells, since=since)
    return found


def unknown_words(flow: str, since: float) -> str:
    """Return for people what a stage cannot remove, as it does not know of it."""
    told = datetime.fromtimestamp(since, UTC).isoformat(sep=" ", timespec="seconds")
    return (
        f"what it wrote to `{flow}` before {told} is not all known: cells of then that it does not "
        "write any more stay; remove them if nobody is to read them"
    )


def _nothing(table: str, since: float = 0.0) -> WrittenCells:
    return WrittenCells(table, BucketState(Bucket()), since)


def _removal_words(flow: str, done: Removal) -> str:
    words = []
    if done.removed:
        words.append(f"{done.removed} cells of `{flow}` were removed that are not written any more")
    if done.changed:
        words.append(f"{done.changed} of `{flow}` stay, since somebody else has written them since")
    if done.outside:
        words.append(f"{done.outside} stay, since they are not in container `{flow}` any more")
    shown = f" (such as {', '.join(done.examples)})" if done.examples else ""
    return "; ".join(words) + shown


def _sorted(cells: pa.Table) -> pa.Table:
    """Return cells as rows of an account, each once."""
    keys, orders, values = (column.combine_chunks() for column in cells.columns)
    deleted = values.is_null().to_numpy(zero_copy_only=False)
    digests = [0 if value is None else value_digest(value) for value in values.to_pylist()]
    columns = pa.table({_DIGEST: pa.array(digests, pa.uint64())})
    rows = state_rows(hashes(keys), keys, columns, orders, deleted)
    # The last one of a cell counts; one that may be there counts more than one that is deleted.
    deleted_first = np.argsort(~deleted, kind="stable")
    return last_of_each(sort_rows(rows.take(pa.array(deleted_first))))


def _missing(old: BucketReader, kept: Sequence[BucketReader]) -> Iterator[WrittenCell]:
    """Yield the cells of an account that no other has, those of a row together."""
    for batch in old.everything():
        cells = list(zip(*(batch.column(name).to_pylist() for name in (KEY, ORDER)), strict=True))
        there: set[tuple[bytes, bytes]] = set()
        for reader in kept:
            found = reader.find(hash_array(batch), batch.column(KEY), batch.column(ORDER)).rows
            names = (found.column(name).to_pylist() for name in (KEY, ORDER))
            there.update(zip(*names, strict=True))
        digests = batch.column(_DIGEST).to_pylist()
        for (row, column), digest in zip(cells, digests, strict=True):
            if (row, column) not in there:
                yield WrittenCell(row, column, digest)
