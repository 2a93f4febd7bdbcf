"""Units of all groups that came when there was no group: they wait for a run that has some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from headgate.incremental.epochs.outcome import EpochOutcome
from headgate.incremental.state.batches import BatchFile, write_batches
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import Manifest, WaitingUnits
from headgate.incremental.state.names import Writer

_MOST_FILES: Final = 16
"""Files of a flow whose units wait; more are written as one, so that manifests stay small."""

Waiting = Mapping[str, tuple[WaitingUnits, ...]]
"""Units by input flow, the oldest first."""


def still_waiting(
    before: Manifest | None, whole: frozenset[str], read: Mapping[str, tuple[str, ...]]
) -> Waiting:
    """Return what waits of the runs before, without units that come again in this one.

    Args:
        before: the state of before; None where there is none.
        whole: input flows of which everything comes.
        read: names of the increments that are read now, by flow that another stage makes.
    """
    found = {}
    for flow, units in ({} if before is None else before.waiting).items():
        again = set(read.get(flow, ()))
        left = tuple(
            each for each in units if not each.increments or not again.issuperset(each.increments)
        )
        if left and flow not in whole:
            found[flow] = left
    return found


def waiting_rows(store: FileStore, stage: str, waiting: Waiting) -> dict[str, pa.Table]:
    """Return units that wait, by flow.

    Raises:
        DamagedState: a file of them is not what it was.
    """
    return {flow: _rows(store, stage, units) for flow, units in waiting.items()}


def waiting_after(
    epoch: EpochOutcome,
    waited: Waiting,
    read: Mapping[str, tuple[str, ...]],
    store: FileStore,
    writer: Writer,
) -> dict[str, tuple[WaitingUnits, ...]]:
    """Return what waits after an epoch: nothing once there was a group, which was given all of it.

    Args:
        epoch: what it has made.
        waited: what has waited before it.
        read: names of the increments that it has read, by flow.
        store: where the stage's files are.
        writer: the attempt, by which new files are named.

    Raises:
        DamagedState: a file of the units is not what it was.
        UnwrittenFile: a file could not be written.
    """
    if epoch.groups:
        return {}
    found = dict(waited)
    for flow, files in epoch.waiting.items():
        came = WaitingUnits(files, tuple(read.get(flow, ())))
        units = (*found.get(flow, ()), came)
        if sum(len(each.files) for each in units) > _MOST_FILES:
            units = (_as_one(store, writer, units),)
        found[flow] = units
    return found


def _as_one(store: FileStore, writer: Writer, units: tuple[WaitingUnits, ...]) -> WaitingUnits:
    rows = _rows(store, writer.stage, units)
    name = writer.rows_name()
    file: FileRef = write_batches(store, name, writer.stage, rows.schema, rows.to_batches())
    return WaitingUnits((file,), tuple(name for each in units for name in each.increments))


def _rows(store: FileStore, stage: str, units: tuple[WaitingUnits, ...]) -> pa.Table:
    files = [BatchFile(store, ref, stage) for each in units for ref in each.files]
    parts = [pa.Table.from_batches(list(file.batches()), file.schema) for file in files]
    # A maker may have got another column meanwhile.
    return pa.concat_tables(parts, promote_options="permissive")
