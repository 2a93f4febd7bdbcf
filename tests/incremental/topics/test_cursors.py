"""What a run reads of a topic: all that has come, once, and never past what is gone in silence."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_topics import Orders

from headgate.engine import OnChange, OnGap, RunPurpose, TopicSpec
from headgate.incremental import LostMessages, files_cursor, topic_cursor
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.errors import ChangedStage
from headgate.incremental.topics.cursors import (
    Extent,
    TopicCursor,
    TopicExtent,
    check_gaps,
    unread_of,
)


def there(**partitions: tuple[int, int]) -> TopicExtent:
    extents = {int(name[1:]): Extent(*at) for name, at in partitions.items()}
    return TopicExtent("t", "id", extents)


def read(**offsets: int) -> TopicCursor:
    return TopicCursor("t", "id", {int(name[1:]): at for name, at in offsets.items()})


def test_the_first_run_reads_all_that_there_is() -> None:
    unread = unread_of(None, there(p0=(3, 9), p1=(0, 0), p2=(5, 5)))
    assert unread.partitions == {0: Extent(3, 9)}
    assert unread.after == read(p0=9, p1=0, p2=5)
    assert (unread.gaps, unread.offsets) == ((), 6)


def test_later_ones_read_what_has_come_since() -> None:
    unread = unread_of(read(p0=4, p1=2), there(p0=(0, 9), p1=(2, 2)))
    assert unread.partitions == {0: Extent(4, 9)}
    assert unread.gaps == ()


def test_what_was_read_may_expire() -> None:
    assert unread_of(read(p0=4), there(p0=(4, 9))).gaps == ()


def test_a_new_partition_is_read_from_its_start() -> None:
    unread = unread_of(read(p0=4), there(p0=(0, 4), p1=(0, 7)))
    assert (unread.partitions, unread.gaps) == ({1: Extent(0, 7)}, ())


@pytest.mark.parametrize(
    ("cursor", "now", "words"),
    [
        (read(p0=4), there(p0=(7, 9)), "partition 0 was read to offset 4 and begins at 7: 3 off"),
        (read(p0=4), there(p0=(0, 3)), "partition 0 was read to offset 4 and ends at 3"),
        (read(p0=4, p1=6), there(p0=(0, 4)), "partition 1, read to offset 6, is gone"),
        (read(p0=4), there(p0=(0, 4), p1=(2, 5)), "partition 1 was read to offset 0 and begins"),
        (TopicCursor("t", "other", {0: 4}), there(p0=(0, 9)), "deleted and made again"),
    ],
)
def test_what_is_gone_is_named(cursor: TopicCursor, now: TopicExtent, words: str) -> None:
    [gap] = unread_of(cursor, now).gaps
    assert words in gap
    with pytest.raises(LostMessages, match=r"`in`, topic t: .*rebuild.*on_gap: continue") as error:
        check_gaps("in", TopicSpec("t"), [gap])
    assert gap in str(error.value)
    assert "by `on_gap: continue`" in check_gaps("in", TopicSpec("t", on_gap=OnGap.CONTINUE), [gap])


def test_of_many_gaps_some_are_named() -> None:
    cursor = TopicCursor("t", "id", dict.fromkeys(range(9), 3))
    now = TopicExtent("t", "id", dict.fromkeys(range(9), Extent(5, 6)))
    with pytest.raises(LostMessages, match=r"partition 2 .* and 6 more such"):
        check_gaps("in", TopicSpec("t"), unread_of(cursor, now).gaps)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 9)), max_size=20))
def test_every_offset_is_read_once_or_told_of(steps: list[tuple[int, int, int]]) -> None:
    """Messages come to partitions, old ones expire, and now and then a run reads."""
    extents: dict[int, Extent] = {}
    cursor: TopicCursor | None = None
    seen: dict[int, set[int]] = {}
    lost: dict[int, set[int]] = {}
    for partition, come, kept in steps:
        at = extents.get(partition, Extent(0, 0))
        stop = at.stop + come
        extents[partition] = Extent(max(at.start, stop - kept), stop)
        if come % 2:
            continue
        unread = unread_of(cursor, TopicExtent("t", "id", dict(extents)))
        if cursor is not None:
            for number, one in extents.items():
                gone = set(range(cursor.offsets.get(number, 0), one.start))
                lost.setdefault(number, set()).update(gone)
                assert bool(gone) == any(f"partition {number} " in gap for gap in unread.gaps)
        else:
            lost = {number: set(range(one.start)) for number, one in extents.items()}
        for number, one in unread.partitions.items():
            came = set(range(one.start, one.stop))
            assert not came & seen.setdefault(number, set())
            seen[number] |= came
        cursor = unread.after
    if cursor is not None:
        for number, stop in cursor.offsets.items():
            known = seen.get(number, set()) | lost.get(number, set())
            assert known == set(range(stop))


def test_cursors_of_files_and_of_topics_are_told_apart() -> None:
    data = msgspec.msgpack.encode(read(p0=4))
    assert topic_cursor(data) == read(p0=4)
    assert files_cursor(data) is None


# -- by a stage


def test_each_message_is_read_once(orders: Orders) -> None:
    orders.put(0, 1, 2)
    orders.put(1, 3)
    assert orders.run() == [1, 2, 3]
    assert orders.run() == []
    orders.put(1, 4)
    orders.put(2, 5)
    assert orders.run() == [4, 5]
    assert orders.cursor == TopicCursor("shop.orders", "id1", {0: 2, 1: 2, 2: 1})


def test_what_an_attempt_has_read_that_does_not_commit_comes_again(orders: Orders) -> None:
    orders.run()
    orders.put(0, 1)
    orders.attempt()
    orders.put(0, 2)
    assert orders.run() == [1, 2]


def test_a_gap_stops_the_stage_until_somebody_decides(orders: Orders) -> None:
    orders.put(0, 1)
    orders.run()
    orders.put(0, 2, 3, 4)
    orders.kafka.expire("shop.orders", 0, 2)
    with pytest.raises(LostMessages, match=r"shop\.orders.*partition 0.*offset 1.*at 2: 1 offset"):
        orders.run()
    orders.spec = TopicSpec("shop.orders", orders.spec.columns, on_gap=OnGap.CONTINUE)
    assert orders.run() == [3, 4]
    assert orders.published() == [1, 3, 4]


def test_a_rebuild_reads_what_is_there(orders: Orders) -> None:
    orders.put(0, 1, 2)
    orders.run()
    orders.kafka.expire("shop.orders", 0, 1)
    orders.put(0, 3)
    assert orders.run(RunPurpose.REBUILD) == [2, 3]
    assert orders.run() == []


def test_a_topic_that_was_made_again_is_noticed(orders: Orders) -> None:
    orders.put(0, 1)
    orders.run()
    orders.kafka.make("shop.orders", 2)
    orders.put(0, 2, 3)
    with pytest.raises(LostMessages, match="id was id1 and is id2"):
        orders.run()
    orders.spec = TopicSpec("shop.orders", orders.spec.columns, on_gap=OnGap.CONTINUE)
    assert orders.run() == [2, 3]


def test_a_stage_that_is_to_read_another_topic_asks_what_becomes_of_its_state(
    orders: Orders,
) -> None:
    orders.run()
    orders.kafka.make("b", 1)
    orders.spec = TopicSpec("b", orders.spec.columns)
    with pytest.raises(
        ChangedStage, match=r"`orders` was the topic shop\.orders, and is the topic b"
    ):
        orders.run()
    orders.kafka.put("b", 0, {"n": 7})
    assert orders.run(on_change=OnChange.REBUILD) == [7]


def test_a_topic_that_is_not_there_is_an_error(orders: Orders) -> None:
    orders.spec = TopicSpec("nowhere", orders.spec.columns)
    with pytest.raises(StageError, match="no topic nowhere"):
        orders.run()
