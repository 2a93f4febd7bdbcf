"""Which containers of a table an update lies in: found once per distinct place, not per cell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, repeat

import numpy as np

from headgate.engine.cells.arrivals import Arrivals
from headgate.engine.cells.cells import ContainerCells
from headgate.events import Item, UpdateKind

_MOST_ROUTES = 65_536  # qualifiers may be data: without a limit the cache would hold them all

Place = Hashable
"""Where updates are that lie in the same containers: a stretch of rows, a column, a kind."""


class Router:
    """The containers watched in one table.

    Edges of row ranges cut the table into stretches, each wholly in or out of any range.
    """

    def __init__(self, watched: Iterable[ContainerCells]) -> None:
        self._order = {cells: place for place, cells in enumerate(watched)}
        items = [(cells, item) for cells in self._order for item in cells.matcher.items]
        edges = chain.from_iterable((item.start, item.stop) for _, item in items)
        self._edges = sorted({edge for edge in edges if edge})
        self._everywhere = _Stretch()
        self._stretches: dict[int, _Stretch] = {}
        self._routes: dict[Place, tuple[ContainerCells, ...]] = {}
        for cells, item in items:
            if not item.start and item.stop is None:
                self._everywhere.add(cells, item)
                continue
            stop = len(self._edges) + 1 if item.stop is None else self._stretch(item.stop)
            for number in range(self._stretch(item.start), stop):
                self._stretches.setdefault(number, _Stretch()).add(cells, item)

    def route(self, arrivals: Arrivals) -> Iterator[tuple[ContainerCells, Sequence[int]]]:
        """Yield each container that is touched, with the positions of the updates in it."""
        if not arrivals.rows:
            return
        if self._edges and arrivals.cell_level and len(arrivals.distinct_columns) == 1:
            yield from self._route_by_row(arrivals)
            return
        places = self._places(arrivals)
        distinct = arrivals.distinct_columns if places is arrivals.columns else set(places)
        everything = range(len(arrivals.rows))
        if len(distinct) == 1:
            for cells in self._cells_at(places[0]):
                yield cells, everything
            return
        wanted: dict[ContainerCells, list[Place]] = {}
        for place in distinct:
            for cells in self._cells_at(place):
                wanted.setdefault(cells, []).append(place)
        groups: dict[Place, list[int]] = {}
        if any(len(found) < len(distinct) for found in wanted.values()):
            for i, place in enumerate(places):
                groups.setdefault(place, []).append(i)
        for cells in sorted(wanted, key=self._order.__getitem__):
            found = wanted[cells]
            if len(found) == len(distinct):
                yield cells, everything
            elif len(found) == 1:
                yield cells, groups[found[0]]
            else:
                yield cells, sorted(chain.from_iterable(groups[place] for place in found))

    def _route_by_row(self, arrivals: Arrivals) -> Iterator[tuple[ContainerCells, Sequence[int]]]:
        """Do the same where all updates are of cells of one column."""
        everything = range(len(arrivals.rows))
        column = arrivals.columns[0]
        stretches = list(map(bisect_right, repeat(self._edges), arrivals.rows))
        if stretches.count(stretches[0]) == len(stretches):
            for cells in self._cells_at((stretches[0], column, UpdateKind.PUT)):
                yield cells, everything
            return
        numbers = np.array(stretches, np.min_scalar_type(len(self._edges)))
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
        spans = zip(starts, [*starts[1:], len(stretches)], strict=True)
        wanted: dict[ContainerCells, list[tuple[int, int]]] = {}
        for number, span in zip(ordered[starts].tolist(), spans, strict=True):
            for cells in self._cells_at((number, column, UpdateKind.PUT)):
                wanted.setdefault(cells, []).append(span)
        positions = order.tolist()
        for cells in sorted(wanted, key=self._order.__getitem__):
            found = wanted[cells]
            if len(found) == len(starts):
                yield cells, everything
            elif len(found) == 1:
                ((start, stop),) = found
                yield cells, positions[start:stop]
            else:
                yield cells, sorted(chain.from_iterable(positions[a:b] for a, b in found))

    def _places(self, arrivals: Arrivals) -> Sequence[Place]:
        """Return the place of each update."""
        if arrivals.cell_level and not self._edges:
            return arrivals.columns
        stretches: Iterable[int] = repeat(0, len(arrivals.rows))
        if self._edges:
            stretches = map(bisect_right, repeat(self._edges), arrivals.rows)
        kinds: Iterable[int] = repeat(UpdateKind.PUT, len(arrivals.rows))
        if not arrivals.cell_level:
            kinds = arrivals.kinds
        return list(zip(stretches, arrivals.columns, kinds, strict=True))

    def _stretch(self, row: bytes) -> int:
        return bisect_right(self._edges, row)

    def _cells_at(self, place: Place) -> tuple[ContainerCells, ...]:
        found = self._routes.get(place)
        if found is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            stretch, column, kind = place if isinstance(place, tuple) else (0, place, 0)
            cells = chain(
                self._everywhere.touched(kind, column),
                self._stretches.get(stretch, _NOWHERE).touched(kind, column),
            )
            found = tuple(sorted(set(cells), key=self._order.__getitem__))
            self._routes[place] = found
        return found


class _Stretch:
    """The containers that hold all rows of a stretch in some of its columns."""

    def __init__(self) -> None:
        self.whole: list[ContainerCells] = []
        self.families: dict[bytes, list[ContainerCells]] = {}
        self.columns: dict[bytes, list[ContainerCells]] = {}

    def add(self, cells: ContainerCells, item: Item) -> None:
        if item.family is None:
            self.whole.append(cells)
        elif item.qualifier is None:
            self.families.setdefault(item.family, []).append(cells)
        else:
            self.columns.setdefault(item.family + b":" + item.qualifier, []).append(cells)

    def touched(self, kind: int, column: bytes) -> Iterator[ContainerCells]:
        """Yield the containers that an update of a column may change; some of them twice."""
        yield from self.whole
        if kind == UpdateKind.DELETE_ROW:
            yield from chain.from_iterable(self.families.values())
            yield from chain.from_iterable(self.columns.values())
            return
        family = column.partition(b":")[0]
        yield from self.families.get(family, ())
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            for name, cells in self.columns.items():
                if name.startswith(family + b":"):
                    yield from cells
        else:
            yield from self.columns.get(column, ())


_NOWHERE = _Stretch()
