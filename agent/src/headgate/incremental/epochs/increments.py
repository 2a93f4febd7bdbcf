"""Increments of one epoch, routed and sorted, and cut by bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headgate.incremental.epochs.bucket import Increments
from headgate.incremental.stages.fusing import entering
from headgate.incremental.stages.routing import routed
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.batches import with_columns
from headgate.incremental.state.buckets import Bucket, bucket_numbers
from headgate.incremental.state.rows import HASH, sort_rows


class RoutedIncrements(Struct, frozen=True, eq=False):
    """What came by all flows of a stage."""

    rows: Increments
    everywhere: Increments
    """By flow, units that are of all groups."""


def route_increments(stage: StageSpec, increments: Mapping[str, pa.Table]) -> RoutedIncrements:
    """Return increments by group.

    Args:
        stage: by whose flows.
        increments: units by input flow; all flows are there.

    Raises:
        StageError: a flow is routed by a column that is not there.
        TranslationFailed: a function of a flow raised, or gave what is no key; or a stage that is
            fused with a flow failed.
    """
    rows, everywhere = {}, {}
    for name, flow in stage.inputs.items():
        units = entering(stage, name, increments[name])
        found = routed(stage.name, name, flow, units)
        rows[name] = sort_rows(found.rows)
        everywhere[name] = found.everywhere
    return RoutedIncrements(rows, everywhere)


def with_waiting(came: Increments, waiting: Increments) -> Increments:
    """Return units of all groups by flow, those that have waited before those that came now.

    Args:
        came: those of now, by flow.
        waiting: those that have waited, by flow, which may have the columns of an earlier version.
    """
    return {
        flow: pa.concat_tables([with_columns(waiting[flow], units.schema), units])
        if flow in waiting
        else units
        for flow, units in came.items()
    }


def by_bucket(
    increments: Increments, buckets: Sequence[Bucket]
) -> Iterator[tuple[Bucket, Increments]]:
    """Yield the buckets with what came for each."""
    numbers = {
        flow: bucket_numbers(rows.column(HASH).to_numpy(), buckets)
        for flow, rows in increments.items()
    }
    for number, bucket in enumerate(buckets):
        part = {}
        for flow, rows in increments.items():
            # Rows are sorted by hash, and a bucket is a range of hashes.
            places = np.flatnonzero(numbers[flow] == number)
            first = int(places[0]) if len(places) else 0
            part[flow] = rows.slice(first, len(places))
        yield bucket, part
