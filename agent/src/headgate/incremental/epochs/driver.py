"""An epoch in the driver: what a Spark job does, without one, for increments that are small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headgate.incremental.epochs.bucket import Increments, reads_all_state, translate_units
from headgate.incremental.epochs.increments import by_bucket, route_increments, with_waiting
from headgate.incremental.epochs.modes import Mode, translate_in_mode
from headgate.incremental.epochs.outcome import BucketOutcome
from headgate.incremental.epochs.writing import reader_of, write_outcome, write_waiting
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer


def translate_in_driver(
    stage: StageSpec,
    store: FileStore,
    writer: Writer,
    buckets: Sequence[BucketState],
    increments: Mapping[str, pa.Table],
    whole: frozenset[str] = frozenset(),
    waiting: Increments | None = None,
) -> list[BucketOutcome]:
    """Translate increments and return what has become of each bucket that they concern.

    Args:
        stage: that translates them.
        store: where its files are.
        writer: the attempt, by which new files are named.
        buckets: the state.
        increments: units by input flow; all flows are there.
        whole: those of which it is everything.
        waiting: by flow, units of all groups that no group was given so far.

    Raises:
        StageError: a flow is routed by a column that is not there.
        TranslationFailed: the translation, or a function of a flow, raised.
        DamagedState: a file of the state is not what it was.
        UnwrittenFile: a file could not be written.
    """
    if stage.is_by_unit:
        return [write_outcome(stage, store, writer, 0, (translate_units(stage, increments),))]
    came = route_increments(stage, increments)
    everywhere = with_waiting(came.everywhere, waiting or {})
    full = reads_all_state(stage, whole)
    found = []
    parts = by_bucket(came.rows, [state.bucket for state in buckets])
    for number, (state, (_, part)) in enumerate(zip(buckets, parts, strict=True)):
        if not full and not any(map(len, part.values())):
            continue
        reader = reader_of(stage, store, state)
        pieces = translate_in_mode(Mode.DIRECT, stage, reader, (part,), everywhere, whole)
        found.append(write_outcome(stage, store, writer, number, pieces))
    if not any(outcome.groups for outcome in found):
        left = write_waiting(stage, store, writer, came.everywhere)
        found.append(BucketOutcome(0, (), (), {}, 0, left))
    return found
