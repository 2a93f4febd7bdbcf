"""Tables whose events Kafka does not take while it takes those of others, and their share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from msgspec import Struct


class JournalUse(Struct, frozen=True):
    """Bytes of the journal that are used, that one stuck table may use, and whether it needs room.

    While it needs room, a table that uses more than its share counts as stuck sooner.
    """

    used: int
    share: int
    needs_room: bool = False


PATIENCE: Final = 10
"""Looks in which others were acknowledged and a table was not, after which it is stuck."""
IN_NEED: Final = 2
"""The same, for a table that holds more than its share while the journal needs room."""
_TOGETHER: Final = 2
"""Shares that all stuck tables have together, however many they are."""


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
        self.late = False
        """True while a table has waited for ``IN_NEED`` looks, in which others went on."""

    def look(self, waiting: Iterable[Waiting], acknowledged: int, journal: JournalUse) -> None:
        """Compare with the last look.

        ``acknowledged`` is how many messages Kafka has acknowledged in all.
        """
        places = tuple(waiting)
        all_are_late = all(map(self._is_late, places))
        seen: dict[tuple[str, int], _Seen] = {}
        stuck: dict[str, str] = {}
        late: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for each in places:
            key = each.table, each.partition
            others = acknowledged - each.acknowledged
            known = self._seen.get(key)
            if known is None or known.acknowledged != each.acknowledged:
                known = _Seen(each.acknowledged, others)
            elif known.others != others:
                known = _Seen(each.acknowledged, others, known.looks + 1, went_on=True)
            elif known.went_on and all_are_late:
                # Others have nothing that waits: the journal may be full, and nothing comes.
                known.looks += 1
            else:
                known.looks = max(0, known.looks - 1)
            seen[key] = known
            if known.looks >= IN_NEED:
                late[each.table] = _why(each)
                sizes[each.table] = sizes.get(each.table, 0) + each.bytes
            if known.looks >= PATIENCE:
                stuck[each.table] = late[each.table]
        # An event may be smaller than its request in the journal: the shares of the events are
        # those of the requests, about.
        total = sum(each.bytes for each in places)
        scale = max(1.0, journal.used / total) if total else 1.0
        share = min(journal.share, _TOGETHER * journal.share / max(1, len(sizes)))
        over = {table: late[table] for table, size in sizes.items() if size * scale > share}
        if journal.needs_room:
            stuck |= over
        self._seen, self.stuck, self.late = seen, stuck, bool(late)
        self.full = {table: why for table, why in over.items() if table in stuck}

    def _is_late(self, waiting: Waiting) -> bool:
        """Return whether others were acknowledged while it waited, and it was not."""
        known = self._seen.get((waiting.table, waiting.partition))
        return known is not None and known.went_on and known.acknowledged == waiting.acknowledged


def _why(waiting: Waiting) -> str:
    place = "has no topic" if waiting.partition < 0 else f"partition {waiting.partition}"
    return f"table {waiting.table}: {place}: {waiting.reason or 'Kafka does not say why'}"
