"""Tables whose events Kafka does not take while it takes those of others, and their share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from msgspec import Struct

PATIENCE: Final = 10
"""Looks in which others were acknowledged and a table was not, after which it is stuck."""


class Waiting(Struct):
    """Messages of one partition, or of a table without a topic, that Kafka has not acknowledged."""

    table: str
    partition: int
    """-1: the topic is not there."""
    acknowledged: int
    """Messages of the partition that were."""
    bytes: int
    """Memory that waits, about."""
    reason: str
    """Reason why Kafka does not acknowledge the messages; empty if none is known."""


class _Seen(Struct):
    acknowledged: int
    others: int
    looks: int = 0
    went_on: bool = False
    """True once Kafka has acknowledged messages of other partitions, but none of this one."""


@final
class StuckTables:
    """Finds out which tables are stuck, and which of these have used up their share of the journal.

    While Kafka takes nothing at all nobody is stuck: the journal is for all alike then.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._seen: dict[tuple[str, int], _Seen] = {}
        self.stuck: dict[str, str] = {}
        """Reason why Kafka does not take a table's events, in words, by table."""
        self.full: dict[str, str] = {}
        """Reason why a table is stuck, by table, where no more of its events are taken."""

    def look(self, waiting: Iterable[Waiting], acknowledged: int, share: int) -> None:
        """Compare with the last look.

        ``acknowledged`` is how many messages Kafka has acknowledged in all, ``share`` how many
        bytes of one table may wait.
        """
        places = tuple(waiting)
        late = sum(self._is_late(each) for each in places)
        seen: dict[tuple[str, int], _Seen] = {}
        stuck: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for each in places:
            key = each.table, each.partition
            others = acknowledged - each.acknowledged
            known = self._seen.get(key)
            if known is None or known.acknowledged != each.acknowledged:
                known = _Seen(each.acknowledged, others)
            elif known.others != others:
                known = _Seen(each.acknowledged, others, known.looks + 1, went_on=True)
            elif known.went_on and late == len(places):
                # Others have nothing that waits: the journal may be full, and nothing comes.
                known.looks += 1
            else:
                known.looks = max(0, known.looks - 1)
            seen[key] = known
            if known.looks >= PATIENCE:
                stuck[each.table] = _why(each)
                sizes[each.table] = sizes.get(each.table, 0) + each.bytes
        self._seen, self.stuck = seen, stuck
        self.full = {table: stuck[table] for table, size in sizes.items() if size > share}

    def _is_late(self, waiting: Waiting) -> bool:
        """Return whether others were acknowledged while it waited, and it was not."""
        known = self._seen.get((waiting.table, waiting.partition))
        return known is not None and known.went_on and known.acknowledged == waiting.acknowledged


def _why(waiting: Waiting) -> str:
    place = "has no topic" if waiting.partition < 0 else f"partition {waiting.partition}"
    return f"table {waiting.table}: {place}: {waiting.reason or 'Kafka does not say why'}"
