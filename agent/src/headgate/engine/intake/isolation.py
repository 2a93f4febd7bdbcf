"""Isolation: only the updates of a dataflow's own actions and of its feeders count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from msgspec.structs import replace

from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.elements import Elements, Key
from headgate.engine.intake.duplicates import only
from headgate.engine.protocol.stimuli import ContainerScanned
from headgate.engine.spec.dataflow import DataflowSpec
from headgate.events import Origin, UpdateBatch


def counted_part(batch: UpdateBatch, spec: DataflowSpec) -> UpdateBatch | None:
    """Return what of a batch counts for a dataflow; None if nothing does."""
    if spec.feeders is None:
        return batch
    own = [i for i, r in enumerate(batch.requests) if counts(r.origin, spec.name, spec.feeders)]
    if len(own) == len(batch.requests):
        return batch
    return only(batch, own) if own else None


def parts_by_owner(batch: UpdateBatch, spec: DataflowSpec) -> Iterator[tuple[bool, UpdateBatch]]:
    """Yield a batch in stretches, in its order: whether one counts for a dataflow, and what it is.

    Nothing where everybody's updates count.
    """
    feeders = spec.feeders
    if feeders is None:
        return
    owned = [counts(request.origin, spec.name, feeders) for request in batch.requests]
    stretches = [
        (own, list(places)) for own, places in groupby(range(len(owned)), owned.__getitem__)
    ]
    for own, places in stretches:
        yield own, batch if len(stretches) == 1 else only(batch, places)


def counts(origin: Origin | None, dataflow: str, feeders: tuple[str, ...]) -> bool:
    """Return whether a writer is an action of the dataflow or a feeder; an unknown one is not."""
    if origin is None:
        return False
    if origin.dataflow == dataflow:
        return True
    return origin.name in feeders or (bool(origin.dataflow) and origin.dataflow in feeders)


def own_cells(scanned: ContainerScanned, cells: ContainerCells) -> ContainerScanned:
    """Return what a scan found in rows that the dataflow has written or knows already.

    Left out is what updates of strangers explain: what the dataflow itself knows of such a cell
    stays. Else it does not matter who wrote last: a stranger's value that no update announced may
    hide a write of the dataflow's own that was lost, and increments and appends of its own have no
    notify cell. So a cell that is newer than its row's notify cell proves nothing, and is counted
    rather than left out.
    """
    own = {row for row in set(scanned.rows) if row in scanned.marked or cells.columns.has_row(row)}
    places: list[int] = []
    explained: list[Key] = []
    strangers: list[tuple[Key, bytes | None]] = []
    for i, key in enumerate(zip(scanned.rows, scanned.columns, strict=True)):
        value = scanned.values[i] if scanned.values else None
        if key[0] not in own:
            strangers.append((key, value))
        elif cells.strangers.writes.explains(key, value):
            explained.append(key)
        else:
            places.append(i)
    if not cells.scans.complete:
        # Nothing is lost yet: what stands in rows that nobody has marked is not the dataflow's own.
        cells.strangers.note_standing(strangers)
    _leave(scanned, cells, explained)
    return _at(scanned, places)


def still_there(scanned: ContainerScanned, cells: ContainerCells) -> ContainerScanned:
    """Have cells that a scan found stay as they are known; return what else it found: nothing.

    For scans when no update was lost: what is new or different then, strangers have written.
    """
    _leave(scanned, cells, zip(scanned.rows, scanned.columns, strict=True))
    return _at(scanned, [])


def _leave(scanned: ContainerScanned, cells: ContainerCells, keys: Iterable[Key]) -> None:
    """Have these cells stay as they are known, and those that strangers deleted and are gone.

    Of what nobody has there and is not found, nothing has to be remembered any more.
    """
    found = set(zip(scanned.rows, scanned.columns, strict=True))
    since = Elements() if cells.scans.current is None else cells.scans.current.written
    left = list(keys)
    for key in cells.strangers.writes.between(scanned.start, scanned.stop):
        if key in found:
            continue
        if cells.strangers.writes.may_be_gone(key):
            left.append(key)
        if cells.columns.get(key) is None and key not in since:
            cells.strangers.writes.forget(key)
    cells.scans.show([key for key in left if cells.columns.get(key) is not None])


def _at(scanned: ContainerScanned, places: list[int]) -> ContainerScanned:
    return replace(
        scanned,
        rows=[scanned.rows[i] for i in places],
        columns=[scanned.columns[i] for i in places],
        values=[scanned.values[i] for i in places] if scanned.values else (),
        timestamps=[scanned.timestamps[i] for i in places] if scanned.timestamps else (),
    )
