"""An epoch from its buckets' outcomes on: rows for other groups, compaction, the state after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from headgate.incremental.epochs.increments import by_bucket
from headgate.incremental.epochs.outcome import BucketOutcome, EpochOutcome
from headgate.incremental.epochs.writing import reader_of
from headgate.incremental.stages.grouping import keys_of
from headgate.incremental.stages.specification import STATE, StageSpec, StateFlow
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.compaction import merge_runs, plan
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer
from headgate.incremental.state.rows import HASH, KEY, ORDER, Match, compare, sort_rows
from headgate.incremental.state.runs import Run, write_run


def finished(
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    buckets: Sequence[BucketState],
    outcomes: Iterable[BucketOutcome],
) -> EpochOutcome:
    """Return the state after an epoch, once all buckets are translated.

    Args:
        stage: whose epoch it is.
        store: where its files are.
        writer: the attempt, by which new files are named.
        buckets: the state before it.
        outcomes: of the buckets that the epoch concerns, each once.

    Raises:
        DamagedState: a file of the state is not what it was.
        UnwrittenFile: a file could not be written.
    """
    after = list(buckets)
    whole = [flow for flow in stage.outputs if flow not in stage.framing]
    outputs: dict[str, tuple[FileRef, ...]] = dict.fromkeys(whole, ())
    remote: list[FileRef] = []
    waiting: dict[str, tuple[FileRef, ...]] = {}
    written = groups = 0
    for outcome in outcomes:
        groups += outcome.groups
        waiting |= outcome.waiting
        remote.extend(outcome.remote)
        for part, refs in outcome.outputs.items():
            outputs[part] = outputs.get(part, ()) + refs
        after[outcome.bucket] = _with_runs(after[outcome.bucket], outcome.runs)
        written += sum(ref.length for ref in outcome.runs)
    if stage.state is not None:
        if remote:
            added = _added(stage, stage.state, store, writer, after, remote)
            for number, ref in added.items():
                after[number] = _with_runs(after[number], (ref,))
                written += ref.length
        for number, state in enumerate(after):
            after[number], size = compacted(stage.state.match, stage.name, store, writer, state)
            written += size
    return EpochOutcome(tuple(after), outputs, groups, written, {} if groups else waiting)


def _with_runs(state: BucketState, runs: tuple[FileRef, ...]) -> BucketState:
    return BucketState(state.bucket, state.base, (*state.runs, *runs))


def _added(
    stage: StageSpec,
    state: StateFlow,
    store: FileStore,
    writer: Writer,
    buckets: Sequence[BucketState],
    remote: Sequence[FileRef],
) -> dict[int, FileRef]:
    """Write rows to the groups that they are of, beside what these have; return runs by bucket."""
    files = [BatchFile(store, ref, stage.name) for ref in remote]
    batches = [batch for file in files for batch in file.batches()]
    rows = sort_rows(pa.Table.from_batches(batches))
    parts = by_bucket({STATE: rows}, [each.bucket for each in buckets])
    found = {}
    for number, (_, flows) in enumerate(parts):
        part = flows[STATE]
        if not len(part):
            continue
        if state.match is Match.GROUP:
            reader = reader_of(stage, store, buckets[number])
            assert reader is not None  # noqa: S101 - the stage has a state
            groups = keys_of([part])
            known = reader.find(groups.hashes, groups.keys).rows
            part = sort_rows(pa.concat_tables([pa.Table.from_batches([known]), part]))
        else:
            part = last_of_each(part)
        found[number] = write_run(store, writer.rows_name(), part, stage.name, match=state.match)
    return found


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return of sorted rows of one key and order the last."""
    [batch] = rows.combine_chunks().to_batches()
    places = np.arange(len(rows) - 1)
    again = compare(batch, places, places + 1, (KEY, ORDER)) == 0
    again &= np.diff(rows.column(HASH).to_numpy()) == 0
    return rows.filter(pa.array(np.append(~again, True)))


def compacted(
    match: Match, stage: str, store: FileStore, writer: Writer, state: BucketState
) -> tuple[BucketState, int]:
    """Return a bucket with few runs, and the bytes that were written for it."""
    written = 0
    if state.base is None and state.runs:
        # Nothing is older, so nothing is left for it to hide.
        state = BucketState(state.bucket, state.runs[0], state.runs[1:])
    base = 0 if state.base is None else state.base.length
    while (merge := plan(base, [ref.length for ref in state.runs])) is not None:
        taken = state.files if merge.base else state.runs[merge.first : merge.end]
        runs = [Run(store, ref, stage) for ref in taken]
        name = writer.rows_name()
        ref = merge_runs(store, name, runs, match, drop_tombstones=merge.base, bucket=state.bucket)
        written += ref.length
        if merge.base:
            return BucketState(state.bucket, ref, ()), written
        kept = (*state.runs[: merge.first], ref, *state.runs[merge.end :])
        state = BucketState(state.bucket, state.base, kept)
    return state, written
