"""What has to be written of the state of groups whose new rows come one after the other.

Of small groups they are kept, and compared with the old ones many groups at a time. Of a large one
the old rows are read once more beside the new ones, so that nothing waits in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.epochs.rewriting import (
    alike,
    as_stored,
    changed,
    changed_rows,
    tombstones,
)
from headgate.incremental.stages.errors import TranslationFailed
from headgate.incremental.stages.grouping import GroupKeys, starts
from headgate.incremental.stages.routing import columns_key, keys_by, orders_of, with_keys
from headgate.incremental.stages.specification import GROUP, StageSpec
from headgate.incremental.stages.translating import shown_key
from headgate.incremental.state.batches import portions
from headgate.incremental.state.rows import HASH, KEY, ORDER, Match, state_schema

StoredRows = Callable[[], Iterator[pa.RecordBatch]]
"""What the state has of a group, in its order, from the beginning each time."""


def changing_group(match: Match, stored: StoredRows) -> ChangingGroup:
    """Return a group whose new rows are to come.

    Args:
        match: what of it they replace.
        stored: what it has; where rows are matched, those that the new ones replace.
    """
    return MatchedRows(stored) if match is Match.ROW else ReplacedGroup(stored)


class ChangingGroup(ABC):
    """A group of which new rows come, in their order."""

    @abstractmethod
    def add(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield what has to be written of the state now that more rows have come."""

    @abstractmethod
    def end(self) -> Iterator[pa.Table]:
        """Yield what has to be written once there are no more of them."""


class _Stored:
    """The rows that a group has, as they are passed.

    Args:
        stored: all of them.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._batches = stored()
        self._left: pa.RecordBatch | None = None

    def next(self) -> pa.Table | None:
        """Return some of the next rows, without passing them; None where there are none."""
        while self._left is None or not self._left.num_rows:
            self._left = next(self._batches, None)
            if self._left is None:
                return None
        return pa.Table.from_batches([self._left])

    def skip(self, count: int) -> None:
        """Pass as many of the rows that were returned last."""
        if self._left is not None:
            self._left = self._left.slice(count)


class ReplacedGroup(ChangingGroup):
    """A group that is replaced as a whole, or not at all where nothing in it has changed.

    Args:
        stored: what it has.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._stored = stored
        self._old = _Stored(stored)
        self._same = 0
        self._changed = False

    def add(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows, and before the first of them those that were the same until then."""
        while len(rows) and not self._changed:
            old = self._old.next()
            count = 0 if old is None else min(len(old), len(rows))
            if old is None or not _all_alike(rows.slice(0, count), old.slice(0, count)):
                self._changed = True
                yield from self._unchanged()
                break
            self._same += count
            self._old.skip(count)
            rows = rows.slice(count)
        if len(rows):
            yield rows

    def end(self) -> Iterator[pa.Table]:
        """Yield the rows that have stayed, or that all are gone, where others have gone."""
        old = None if self._changed else self._old.next()
        if old is None:
            return
        if self._same:
            yield from self._unchanged()
        else:
            yield tombstones(old.slice(0, 1))

    def _unchanged(self) -> Iterator[pa.Table]:
        """Yield again the rows that were the same."""
        left = self._same
        for batch in self._stored() if left else ():
            yield pa.Table.from_batches([batch.slice(0, left)])
            left -= min(left, batch.num_rows)
            if not left:
                return


class MatchedRows(ChangingGroup):
    """A group whose rows are replaced one by one.

    Args:
        stored: those of its rows that are matched, of each order one.
    """

    def __init__(self, stored: StoredRows) -> None:
        self._old = _Stored(stored)

    def add(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield those that have changed, and what has gone between them."""
        while len(rows):
            old = self._old.next()
            if old is None:
                yield rows
                return
            cut = min(_last_order(rows), _last_order(old))
            new, was = _up_to(rows, cut), _up_to(old, cut)
            found = changed_rows(rows.slice(0, new), old.slice(0, was))
            if len(found):
                yield found
            self._old.skip(was)
            rows = rows.slice(new)

    def end(self) -> Iterator[pa.Table]:
        """Yield that the rows are gone that are left."""
        while (old := self._old.next()) is not None:
            yield tombstones(old)
            self._old.skip(len(old))


class SmallStates:
    """Neighbouring groups: what the state has of them, and those of their new rows that wait.

    Args:
        stage: that translates them.
        keys: of the groups.
        before: what the state has of them, as it is stored, with the column ``_group``; None where
            a stage has no state, and of one group of which it has too much.
    """

    def __init__(self, stage: StageSpec, keys: GroupKeys, before: pa.Table | None) -> None:
        self.stage = stage
        self.keys = keys
        self._before = before
        numbers = np.zeros(0, np.int64) if before is None else before.column(GROUP).to_numpy()
        self._begins = starts(numbers, len(keys))
        self._first = 0
        self._waiting: list[pa.Table] = []

    def stored(self, number: int) -> StoredRows | None:
        """Return what the state has of a group; None where that is not here."""
        if self._before is None:
            return None
        begin, end = self._begins[number : number + 2].tolist()
        rows = self._before.slice(begin, end - begin).drop_columns([GROUP])
        return lambda: portions(rows.to_batches())

    def add(self, number: int, rows: Iterable[pa.Table]) -> None:
        """Keep all new rows of a group."""
        self._waiting += [
            each.append_column(GROUP, pa.array(np.full(len(each), number))) for each in rows
        ]

    def taken(self, until: int) -> pa.Table:
        """Return what has to be written of the groups before a number, and forget them.

        That group itself is not theirs any more; what follows it is.
        """
        state = self.stage.state
        first, self._first = self._first, until + 1
        if state is None or self._before is None or first >= until:
            return pa.table({})
        schema = state_schema(state.columns).append(pa.field(GROUP, pa.int64()))
        rows = pa.concat_tables([schema.empty_table(), *self._waiting])
        self._waiting = []
        begin, end = int(self._begins[first]), int(self._begins[until])
        keys = GroupKeys(self.keys.hashes[first:until], self.keys.keys.slice(first, until - first))
        before = _counted_from(self._before.slice(begin, end - begin), first)
        return changed(self.stage, state.match, keys, _counted_from(rows, first), before)


class OwnRows:
    """Places the rows that a group writes to the state.

    Args:
        stage: that translates it; it has a state.
        hash_: of its key.
        key: canonical.
    """

    def __init__(self, stage: StageSpec, hash_: int, key: bytes) -> None:
        assert stage.state is not None  # noqa: S101 - the caller has asked
        self._stage = stage
        self._state = stage.state
        self._hash = hash_
        self._key = key
        self._last: pa.Table | None = None

    def placed(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return rows as they are stored: those of the group, and those of others.

        Raises:
            TranslationFailed: those of the group are not in their order.
        """
        stage, state, place = self._stage, self._state, "state"
        orders = orders_of(stage.name, place, state.order_by, rows)
        if state.route_by is None:
            key = pa.repeat(pa.scalar(self._key, pa.binary()), len(rows))
            hashed = pa.repeat(pa.scalar(self._hash, pa.int64()), len(rows))
            for name, column in ((HASH, hashed), (KEY, key), (ORDER, orders)):
                rows = rows.append_column(name, column)
            own = as_stored(state, rows)
            others = own.slice(0, 0)
        else:
            if isinstance(state.route_by, str | tuple):
                keys = columns_key(stage.name, place, state.route_by, rows)
            else:
                keys = keys_by(stage.name, place, state.route_by, rows)
            stored = as_stored(state, with_keys(rows, keys, orders))
            here = pc.equal(stored.column(KEY), pa.scalar(self._key, pa.binary()))
            own, others = stored.filter(here), stored.filter(pc.invert(here))
        if state.order_by is not None and len(own):
            self._check_order(own)
        return own, others

    def _check_order(self, rows: pa.Table) -> None:
        both = rows if self._last is None else pa.concat_tables([self._last, rows])
        self._last = rows.slice(len(rows) - 1)
        orders = both.column(ORDER).combine_chunks()
        by_row = self._state.match is Match.ROW
        compare = pc.less_equal if by_row else pc.less
        wrong = compare(orders.slice(1), orders.slice(0, len(orders) - 1))
        if not wrong.true_count:
            return
        at = pc.index(wrong, pa.scalar(True)).as_py()  # noqa: FBT003 - as Arrow has it
        before, row = both.select(self._state.columns.names).slice(at, 2).to_pylist()
        which = "lower or the same" if by_row else "lower"
        reason = (
            f"it yielded the row {row!r:.200} of its state after {before!r:.200}, though the first "
            f"has the {which} order; yield rows of `state` in the order of its `order_by`"
        )
        raise TranslationFailed(self._stage.name, shown_key(self._key), reason)


class GroupState:
    """The new state of one group, which may turn out to be large.

    Args:
        small: what it is one of.
        number: its number there.
        own: places its rows.
        stored: what the state has of it.
        limit: rows up to which it is small.
    """

    def __init__(
        self, small: SmallStates, number: int, own: OwnRows, stored: StoredRows, limit: int
    ) -> None:
        self._small = small
        self._number = number
        self._own = own
        self._stored = stored
        self._limit = limit
        self._rows: list[pa.Table] = []
        self._sent: list[pa.Table] = []
        self._changing: ChangingGroup | None = None
        if small.stored(number) is None:
            self._changing = self._begun()

    def _begun(self) -> ChangingGroup:
        state = self._small.stage.state
        assert state is not None  # noqa: S101 - the caller has asked
        return changing_group(state.match, self._stored)

    def add(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield what has to be written now that more rows have come.

        Raises:
            TranslationFailed: they are not in their order.
        """
        mine, others = self._own.placed(rows)
        if len(others):
            self._sent.append(others)
        self._rows.append(mine)
        if self._changing is None:
            if sum(map(len, self._rows)) <= self._limit:
                return
            # The groups before it come first in the file.
            yield self._small.taken(self._number)
            self._changing = self._begun()
        rows_now, self._rows = self._rows, []
        for each in rows_now:
            yield from self._changing.add(each)

    def sent(self) -> list[pa.Table]:
        """Return and forget rows that are of other groups."""
        found, self._sent = self._sent, []
        return found

    def end(self) -> Iterator[pa.Table]:
        """Yield what has to be written once there are no more rows, if that does not wait."""
        if self._changing is None:
            self._small.add(self._number, self._rows)
        else:
            yield from self._changing.end()


def _counted_from(rows: pa.Table, first: int) -> pa.Table:
    """Return rows whose groups are counted from another one."""
    at = rows.schema.get_field_index(GROUP)
    numbers = pc.subtract(rows.column(GROUP), first)
    return rows.set_column(at, rows.schema.field(at), numbers)


def _all_alike(one: pa.Table, other: pa.Table) -> bool:
    return bool(alike(one, other.select(one.column_names)).all())


def _last_order(rows: pa.Table) -> bytes:
    return bytes(rows.column(ORDER)[-1].as_py())


def _up_to(rows: pa.Table, order: bytes) -> int:
    """Return how many of sorted rows are not after an order."""
    column = rows.column(ORDER)
    return int(pc.sum(pc.less_equal(column, pa.scalar(order, column.type))).as_py() or 0)
