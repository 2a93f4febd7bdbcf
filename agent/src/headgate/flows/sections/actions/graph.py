"""The order between actions: predecessors by default, and cycles."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from headgate.engine import ActionSpec


def implied_predecessors(action: ActionSpec, actions: Mapping[str, ActionSpec]) -> tuple[str, ...]:
    """Return the actions that write a container which this one reads, in the order of the file."""
    return tuple(
        other.name
        for other in actions.values()
        if other.name != action.name and set(other.writes) & set(action.reads)
    )


def ancestors(name: str, after: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Return all actions that come before this one, directly or through others."""
    found: set[str] = set()
    waiting = list(after[name])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(after[one])
    return frozenset(found)


def cycles(after: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return cycles of the graph, each from its last action's successor on and back to it.

    Every edge that has to go is in one of them: after each cycle found, the edge that closes it is
    taken out and the search goes on.
    """
    remaining = {name: set(before) for name, before in after.items()}
    found: list[tuple[str, ...]] = []
    while True:
        try:
            TopologicalSorter(remaining).prepare()
        except CycleError as error:
            # graphlib lists each action after one that it precedes: first and last are the same.
            path = tuple(error.args[1])
            found.append(path)
            remaining[path[1]].discard(path[0])
        else:
            return found
