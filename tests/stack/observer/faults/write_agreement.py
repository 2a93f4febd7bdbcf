"""Contradictions between what clients were told, what events say and what HBase holds."""

from __future__ import annotations

from collections import defaultdict

from fault_scenarios import Scenario, Victim
from msgspec import Struct
from random_writers import ROWS, TWO, Cell, State, Write
from thriftpy2.rpc import make_client

from headgate.events import Outcome, UpdateBatch, UpdateKind, UpdateMessage

DELETES = frozenset({UpdateKind.DELETE_COLUMN, UpdateKind.DELETE_CELL})


class Event(Struct, frozen=True):
    outcome: Outcome
    kind: UpdateKind
    value: bytes | None
    timestamp: int
    request: tuple[int, int]
    """Epoch and intent."""


Events = dict[tuple[bytes, bytes, bool], list[Event]]
Stored = dict[tuple[bytes, bytes], dict[int, bytes]]
"""Every version of every cell: value by timestamp, by row and column."""


def events_of(messages: list[list[UpdateMessage]]) -> Events:
    """Return the events by cell, those that readers drop as duplicates once."""
    found: Events = defaultdict(list)
    seen: set[tuple[int, int, int, int]] = set()
    for partition, updates in enumerate(messages):
        for batch in updates:
            if not isinstance(batch, UpdateBatch):
                continue
            at = 0
            for part in batch.requests:
                identity = (partition, batch.epoch, part.intent, part.piece)
                for i in range(at, at + part.cells):
                    kind = UpdateKind(batch.kinds[i])
                    event = Event(
                        part.outcome,
                        kind,
                        batch.values[i],
                        batch.timestamps[i],
                        (batch.epoch, part.intent),
                    )
                    if identity not in seen:
                        found[batch.rows[i], batch.columns[i], kind in DELETES].append(event)
                at += part.cells
                seen.add(identity)
    return found


def stored_in(thrift2: tuple[str, int], table: str) -> Stored:
    client = make_client(TWO.THBaseService, *thrift2, timeout=60_000)
    try:
        scan = TWO.TScan(maxVersions=1000)
        found: Stored = defaultdict(dict)
        for result in client.getScannerResults(table.encode(), scan, 10 * ROWS):
            for each in result.columnValues:
                column = each.family + b":" + each.qualifier
                found[result.row, column][each.timestamp] = each.value
        return found
    finally:
        client.close()


def disagreements(
    scenario: Scenario, writes: list[Write], events: Events, stored: Stored
) -> list[str]:
    """Return what contradicts what, in words; nothing if all is well."""
    found: list[str] = []
    begun = {cell.key: (cell, write) for write in writes for cell in write.cells}
    deletes = {key[:2] for key in begun if key[2]}
    for write in writes:
        for cell in write.cells:
            if write.state is State.ACKNOWLEDGED and cell.key not in events:
                found.append(f"lost: {write.method} of {cell.key} was acknowledged")
            if write.state is State.DECLINED and (
                cell.key[:2] in stored
                or any(event.outcome is Outcome.APPLIED for event in events.get(cell.key, ()))
            ):
                found.append(f"phantom: {cell.key} of a check that did not hold")
    for row, column in stored:
        if (row, column, False) not in events:
            found.append(f"unreported: HBase holds {row!r} {column!r}")
    for key, published in events.items():
        if key not in begun:
            found.append(f"phantom: nobody wrote {key}")
            continue
        cell, write = begun[key]
        if len({event.request for event in published}) != 1:
            found.append(f"repeated: {key} as {published}")
        for event in published:
            if event.outcome is Outcome.APPLIED:
                found += contradictions(event, cell, write, stored, gone=key[:2] in deletes)
        # Where clients are never cut off, one that got no answer shows that there was none.
        heard_nothing = write.state is State.BROKEN and not scenario.client_faults
        if heard_nothing and scenario.victim is not Victim.OBSERVER:
            found += [
                f"not unknown: {write.method} of {key} without an answer is {event.outcome}"
                for event in published
                if event.outcome is not Outcome.UNKNOWN
            ]
    return found


def contradictions(
    event: Event, cell: Cell, write: Write, stored: Stored, *, gone: bool
) -> list[str]:
    versions = stored.get((cell.row, cell.column), {})
    if cell.value is None:
        return [f"phantom: {cell.key} was deleted but is there"] if versions else []
    if gone:
        return []
    if event.value != cell.value:
        return [f"wrong: {write.method} of {cell.key} is told as {event.value!r}"]
    if cell.value not in versions.values():
        return [f"phantom: {write.method} of {cell.key} is not in HBase"]
    if event.timestamp != -1 and versions.get(event.timestamp) != cell.value:
        return [f"wrong: {cell.key} is not at {event.timestamp} but {sorted(versions)}"]
    return []
