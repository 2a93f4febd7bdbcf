"""Where a recording leaves open what a table held, and from when on it does not any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from headgate.engine import WatchedContainer
from headgate.events import UpdateBatch, UpdateKind
from headgate.replay import RecordedTables, ReplayedDecision, Write

_LATEST = 2**63 - 1  # HBase's HConstants.LATEST_TIMESTAMP, which clients may send to mean "now"
_SERVER_TIMES = frozenset({-1, _LATEST})
_ONE_VERSION = frozenset({UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION})


def shows_last_writes(batch: UpdateBatch) -> bool:
    """Return whether cells hold what a batch says: no older version may stand before it."""
    return _SERVER_TIMES.issuperset(batch.timestamps) and _ONE_VERSION.isdisjoint(batch.kinds)


class _Doubt(Struct):
    """On a container's part in a table; ``words`` are empty where there is none."""

    words: str = ""
    uncounted: bool = False
    """Whether there may be cells that no event has; a scan that finds as many as events have ends
    that."""
    cells: set[tuple[str, bytes, bytes]] = set()
    """Whose values may be others, until they are written again."""
    agreeing: bool = False
    """Whether the scan under way has found what events have, so far."""


class Doubts:
    """What is not known of containers, part by part.

    Args:
        watched: the containers.
        tables: as the events have them, those of strangers included.
    """

    def __init__(self, watched: Iterable[WatchedContainer], tables: RecordedTables) -> None:
        self._tables = tables
        self._watched = {str(each.id): each for each in watched}
        self._doubts = {
            (name, table): _Doubt()
            for name, each in self._watched.items()
            for table in each.container.tables
        }

    def raise_on(self, tables: Iterable[str], words: str, *, uncounted: bool) -> None:
        """Doubt what tables hold, until it is written again.

        Args:
            tables: which.
            words: why.
            uncounted: whether there may be cells that no event has.
        """
        for table in tables:
            for (name, where), doubt in self._doubts.items():
                if where != table:
                    continue
                container = self._watched[name].container
                doubt.cells = {cell for cell, _ in self._tables.cells(container, table)}
                doubt.uncounted |= uncounted
                doubt.words = words if doubt.cells or doubt.uncounted else ""
                doubt.agreeing = False

    def written(self, writes: Sequence[Write]) -> None:
        """Take note of writes, whose values are known."""
        for (_, table), doubt in self._doubts.items():
            if doubt.cells and writes and writes[0][1][0] == table:
                doubt.cells.difference_update(cell for _, cell, _, _ in writes)

    def scanned(self, decision: ReplayedDecision) -> None:
        """Compare what a scan has found with what events have."""
        doubt = self._doubts.get((decision.container, decision.table))
        if doubt is None:
            return
        start, stop = decision.start, decision.stop
        container = self._watched[decision.container].container
        held = sum(
            start <= cell[1] and (stop is None or cell[1] < stop)
            for cell, _ in self._tables.cells(container, decision.table)
        )
        if decision.cells > held:
            doubt.uncounted, doubt.agreeing = True, False
            doubt.words = (
                f"table `{decision.table}` held {decision.cells} cells of `{decision.container}` "
                f"when it was scanned, and events have {held}: others were written before an "
                "observer watched it, or past it"
            )
            return
        doubt.agreeing = decision.cells == held and (doubt.agreeing or start == b"")
        if doubt.agreeing and stop is None:
            doubt.uncounted = False

    def on(self, container: str) -> str:
        """Return why a container is not known; empty where it is."""
        return next(
            (
                doubt.words
                for (name, _), doubt in self._doubts.items()
                if name == container and (doubt.cells or doubt.uncounted)
            ),
            "",
        )
