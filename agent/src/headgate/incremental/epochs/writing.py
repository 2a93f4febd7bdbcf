"""What an epoch writes of a bucket: a run of its state, and its part of the output flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from headgate.incremental.epochs.bucket import Piece, stored_schema
from headgate.incremental.epochs.outcome import BucketOutcome
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.framing import frames_of
from headgate.incremental.stages.fusing import leaving
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.batches import BatchWriter, write_batches
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer
from headgate.incremental.state.open_runs import OpenRuns
from headgate.incremental.state.readers import BucketReader
from headgate.spark import FramePart

_OPEN: Final = OpenRuns()
"""Of this process: a session's worker lives for many epochs, and so do Spark's own."""
_MOST_FRAMES: Final = 300
"""Of a flow that one bucket may make: each is a file that is open, and named by the commit."""


def reader_of(stage: StageSpec, store: FileStore, state: BucketState) -> BucketReader | None:
    """Return what reads a bucket; None where a stage has no state.

    Raises:
        DamagedState: a file of it is missing, cut short, or of something else.
    """
    if stage.state is None:
        return None
    match = stage.state.match
    found = _OPEN.of(store, stage.name, state.bucket, state.files, match)
    return BucketReader(found.runs, match, state.bucket, stored_schema(stage), found.index)


class _File:
    """A file that is begun with the first rows that it is given.

    Args:
        stack: ends the writing.
        store: where it is.
        writer: the attempt, by which it is named.
        schema: of its rows.
    """

    def __init__(
        self, stack: ExitStack, store: FileStore, writer: Writer, schema: pa.Schema
    ) -> None:
        self._stack = stack
        self._store = store
        self._writer = writer
        self._schema = schema
        self._batches: BatchWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Add rows; there may be none."""
        if not len(rows):
            return
        if self._batches is None:
            name, stage = self._writer.rows_name(), self._writer.stage
            begun = BatchWriter(self._store, name, stage, self._schema)
            self._batches = self._stack.enter_context(begun)
        for batch in rows.select(self._schema.names).cast(self._schema).to_batches():
            self._batches.write(batch)

    @property
    def refs(self) -> tuple[FileRef, ...]:
        """The file, once its writing has ended; none where no rows came."""
        return () if self._batches is None else (self._batches.ref,)


def write_outcome(
    stage: StageSpec, store: FileStore, writer: Writer, bucket: int, pieces: Iterable[Piece]
) -> BucketOutcome:
    """Write what has become of a bucket, piece by piece, and return which files have it.

    Raises:
        UnwrittenFile: a file could not be written; nothing is left of it then.
        StageError: a flow has rows without a framing key, or of too many.
        TranslationFailed: a stage that is fused with an output flow failed.
    """
    groups = 0
    columns = stage.emitted
    with ExitStack() as stack:
        outputs: dict[str, _File] = {}
        stored = None if stage.state is None else stored_schema(stage)
        state, remote = (
            None if stored is None else _File(stack, store, writer, stored) for _ in range(2)
        )
        for piece in pieces:
            groups += piece.groups
            for flow, rows in piece.outputs.items():
                for part, some in _parts(stage, flow, leaving(stage, flow, rows)):
                    if part not in outputs:
                        outputs[part] = _File(stack, store, writer, columns[flow])
                    outputs[part].write(some)
            _check_number(stage, outputs)
            for file, rows in ((state, piece.state), (remote, piece.remote)):
                if file is not None and rows is not None:
                    file.write(rows)
    return BucketOutcome(
        bucket,
        () if state is None else state.refs,
        () if remote is None else remote.refs,
        {part: file.refs for part, file in outputs.items()},
        groups,
    )


def write_waiting(
    stage: StageSpec, store: FileStore, writer: Writer, everywhere: Mapping[str, pa.Table]
) -> dict[str, tuple[FileRef, ...]]:
    """Write units of all groups, by flow, to files that wait, and return which these are.

    Raises:
        UnwrittenFile: a file could not be written.
    """
    return {
        flow: (
            write_batches(store, writer.rows_name(), stage.name, rows.schema, rows.to_batches()),
        )
        for flow, rows in everywhere.items()
        if flow in stage.inputs and len(rows)
    }


def _parts(stage: StageSpec, flow: str, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of a flow by the increment that they are part of."""
    if flow not in stage.framing:
        yield flow, rows
        return
    for key, some in frames_of(stage.name, flow, rows, stage.framing[flow]):
        yield str(FramePart(flow, key)), some


def _check_number(stage: StageSpec, outputs: Iterable[str]) -> None:
    if len(parts := list(outputs)) > _MOST_FRAMES + len(stage.outputs):
        message = (
            f"stage `{stage.name}` makes {len(parts):,} increments in one run, such as {parts[-1]};"
            f" at most {_MOST_FRAMES} can be named by its commit: frame its flows by fewer keys"
        )
        raise StageError(message)
