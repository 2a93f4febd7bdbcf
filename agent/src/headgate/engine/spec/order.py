"""The order of actions in a graph: who depends on whom, and who does so in a circle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

Edges = Mapping[str, Collection[str]]
"""By name, those that come before it."""


def ancestors(name: str, before: Edges) -> frozenset[str]:
    """Return all on which one depends, however far; itself only where it does so in a circle."""
    found: set[str] = set()
    waiting = list(before.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += before.get(one, ())
    return frozenset(found)


def circles(before: Edges) -> dict[str, frozenset[str]]:
    """Return, by name, all that depend on it and on which it depends: itself included.

    These are the strongly connected components of the graph.
    """
    above = {name: ancestors(name, before) for name in before}
    return {
        name: frozenset({name, *(one for one in found if name in above.get(one, ()))})
        for name, found in above.items()
    }


def path_between(start: str, end: str, before: Edges) -> tuple[str, ...]:
    """Return a shortest way from one to another that depends on it, both included.

    Raises:
        LookupError: the other does not depend on it.
    """
    came_from: dict[str, str | None] = {end: None}
    waiting = [end]
    for one in waiting:
        if one == start:
            return tuple(_back(one, came_from))
        for other in before.get(one, ()):
            if other not in came_from:
                came_from[other] = one
                waiting.append(other)
    raise LookupError(f"{end!r} does not depend on {start!r}")


def _back(name: str, came_from: Mapping[str, str | None]) -> Iterable[str]:
    one: str | None = name
    while one is not None:
        yield one
        one = came_from[one]
