"""Isolation: only the updates of a dataflow's own actions and of its feeders count."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from headgate.engine.cells import Cells
from headgate.engine.duplicates import only
from headgate.engine.elements import Key
from headgate.engine.spec import DataflowSpec
from headgate.engine.stimuli import ContainerScanned
from headgate.events import Origin, UpdateBatch


def counted_part(batch: UpdateBatch, spec: DataflowSpec) -> UpdateBatch | None:
    """Return what of a batch counts for a dataflow; None if nothing does."""
    if spec.feeders is None:
        return batch
    own = [i for i, r in enumerate(batch.requests) if counts(r.origin, spec.name, spec.feeders)]
    if len(own) == len(batch.requests):
        return batch
    return only(batch, own) if own else None


def strangers_part(batch: UpdateBatch, spec: DataflowSpec) -> UpdateBatch | None:
    """Return what of a batch does not count for a dataflow; None if everything does."""
    if spec.feeders is None:
        return None
    others = [
        i for i, r in enumerate(batch.requests) if not counts(r.origin, spec.name, spec.feeders)
    ]
    return only(batch, others) if others else None


def counts(origin: Origin | None, dataflow: str, feeders: tuple[str, ...]) -> bool:
    """Tell whether a writer is an action of the dataflow or a feeder; an unknown one is neither."""
    if origin is None:
        return False
    if origin.dataflow == dataflow:
        return True
    return origin.name in feeders or (bool(origin.dataflow) and origin.dataflow in feeders)


def own_cells(scanned: ContainerScanned, cells: Cells) -> ContainerScanned:
    """Return what a scan found in rows that the dataflow has written or knows already.

    But for what strangers were told to have written, and stands so: what the dataflow itself knows
    of such a cell stays. Else it does not matter who wrote last: a stranger's value that no update
    told may hide a write of the dataflow's own that was lost, and increments and appends of its own
    have no notify cell. So a cell that is newer than its row's notify cell proves nothing, and is
    counted rather than left out.
    """
    own = {row for row in set(scanned.rows) if row in scanned.marked or cells.has_row(row)}
    places: list[int] = []
    left: list[int] = []
    for i, key in enumerate(zip(scanned.rows, scanned.columns, strict=True)):
        if key[0] not in own:
            continue
        if cells.told.stands(key, scanned.values[i] if scanned.values else None):
            if cells.get(key) is None:
                continue
            left.append(len(places))
        places.append(i)
    return replace(_at(scanned, places), recent=tuple(left))


def still_there(scanned: ContainerScanned, knows: Callable[[Key], bool]) -> ContainerScanned:
    """Return what a scan found of cells that the dataflow ``knows``, to be left as they are known.

    For scans when no update was lost: what is new or different then, strangers have written.
    """
    keys = zip(scanned.rows, scanned.columns, strict=True)
    found = _at(scanned, [i for i, key in enumerate(keys) if knows(key)])
    return replace(found, recent=tuple(range(len(found.rows))))


def _at(scanned: ContainerScanned, places: list[int]) -> ContainerScanned:
    return replace(
        scanned,
        rows=[scanned.rows[i] for i in places],
        columns=[scanned.columns[i] for i in places],
        values=[scanned.values[i] for i in places] if scanned.values else (),
    )
