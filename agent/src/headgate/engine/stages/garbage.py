"""Increments that somebody still needs: a flow is stored once for all its consumers."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.engine.protocol.increments import FlowTaken
from headgate.engine.stages.connector import Connector


def needed(connectors: Iterable[Connector], taken: Iterable[FlowTaken]) -> frozenset[str]:
    """Return the names of increments that wait somewhere, or that runs under way have taken."""
    waiting = {one.name for connector in connectors for one in connector.waiting}
    held = {one.name for part in taken for one in (*part.read, *part.removed)}
    return frozenset(waiting | held)
