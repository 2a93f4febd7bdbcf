"""Increments that nobody needs any more: a flow is stored once for all its consumers."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.connectors.connector import Connector
from headgate.engine.protocol.increments import FlowTaken, Increment


def needed(connectors: Iterable[Connector], taken: Iterable[FlowTaken]) -> frozenset[str]:
    """Return the names of increments that wait somewhere, or that runs under way have taken."""
    waiting = {one.name for connector in connectors for one in connector.waiting}
    held = {one.name for part in taken for one in (*part.read, *part.removed)}
    return frozenset(waiting | held)


def unneeded(
    removed: Iterable[Increment], connectors: Iterable[Connector], taken: Iterable[FlowTaken]
) -> tuple[str, ...]:
    """Return the names of those among removed increments that nobody else needs."""
    kept = needed(connectors, taken)
    return tuple(one.name for one in removed if one.name not in kept)
