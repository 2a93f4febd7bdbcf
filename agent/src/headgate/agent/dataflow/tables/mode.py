"""What the mode of a dataflow wants of its tables: scans and notify columns."""

from __future__ import annotations

from headgate.agent.ports import Extent
from headgate.events import Item, Notify
from headgate.flows import Dataflow, FoundBy, Mode


def extents_of(dataflow: Dataflow) -> dict[str, Extent]:
    """Return the part of each table to scan; none where the dataflow is in another mode."""
    if dataflow.mode is not Mode.OBSERVER:
        return {}
    items: dict[str, list[Item]] = {}
    for watched in dataflow.spec.containers:
        for item in watched.container.items:
            items.setdefault(item.table, []).append(item)
    return {table: _extent(parts, dataflow) for table, parts in items.items()}


def notify_of(dataflow: Dataflow) -> Notify | None:
    """Return the notify column that observers are to set in its tables; None for none."""
    if dataflow.mode is Mode.OBSERVER and dataflow.scans.by is FoundBy.NOTIFY:
        return Notify()
    if dataflow.mode is Mode.ISOLATION:
        # A feeder is a dataflow, an action of one, or a writer whose own name may have a slash.
        feeders = (name for one in dataflow.spec.feeders or () for name in (one.split("/")[0], one))
        return Notify(dataflow.name, tuple(dict.fromkeys((dataflow.name, *feeders))))
    return None


def _extent(items: list[Item], dataflow: Dataflow) -> Extent:
    columns = [item.column for item in items]
    stops = [item.stop for item in items if item.stop is not None]
    return Extent(
        every=dataflow.scans.every,
        columns=() if None in columns else tuple(dict.fromkeys(c for c in columns if c)),
        start=min(item.start for item in items),
        stop=max(stops) if len(stops) == len(items) else None,
        notify=dataflow.scans.by is FoundBy.NOTIFY,
    )
