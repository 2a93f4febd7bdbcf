"""Queues of increments: order, reading apart from removal, framing, and what is put back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.protocol.increments import FramingKey, Increment
from headgate.engine.spec.stages import FlowId
from headgate.engine.stages.connector import (
    Connector,
    FlowView,
    NothingWaits,
    OutOfOrder,
    Portion,
)
from headgate.engine.stages.garbage import needed

SOURCE = FlowId("split", "updates")
EMPTY = Connector(SOURCE)


def increment(index: int, key: FramingKey | None = None) -> Increment:
    return Increment(f"split-updates-{index}", index, 10, key)


def queue(*keys: FramingKey | None) -> Connector:
    return EMPTY.enqueue(increment(index, key) for index, key in enumerate(keys))


def test_nothing_is_taken_of_an_empty_flow():
    with pytest.raises(NothingWaits, match=r"split\.updates"):
        EMPTY.take(Portion(0, 1, 1))


def test_increments_are_taken_in_the_order_in_which_they_were_made():
    rest, first = queue(None, None).take(Portion(0, 1, 1))
    _, second = rest.take(Portion(0, 1, 1))

    assert (first.read, second.read) == ((increment(0),), (increment(1),))


def test_what_is_read_and_not_removed_is_read_again():
    rest, first = queue(None).take(Portion(0, 1, 0))
    same, second = rest.take(Portion(0, 1, 0))

    assert first.read == second.read == (increment(0),)
    assert first.removed == second.removed == ()
    assert same.view() == FlowView(key=0, waiting=1, unread=0)


def test_what_is_removed_without_being_read_makes_room_for_the_next():
    rest, taken = queue(None, None).take(Portion(0, 0, 1))

    assert (taken.read, taken.removed) == ((), (increment(0),))
    assert rest.view() == FlowView(key=1, waiting=1, unread=1)


def test_an_increment_twice_is_refused_in_words():
    with pytest.raises(OutOfOrder, match="number them in the order"):
        queue(None).enqueue([increment(0)])


def test_an_older_increment_is_refused():
    with pytest.raises(OutOfOrder):
        EMPTY.enqueue([increment(7), increment(6)])


def test_increments_with_one_framing_key_are_read_as_one():
    _, taken = queue("mon", "mon", "tue").take(Portion(0, 1, 1))

    assert taken.read == (increment(0, "mon"), increment(1, "mon"))


def test_a_frame_is_not_read_before_another_key_has_come():
    open_frame = queue("mon", "mon")

    assert open_frame.view() == FlowView(key=None, waiting=0, unread=0)
    with pytest.raises(NothingWaits):
        open_frame.take(Portion(0, 1, 1))
    assert open_frame.enqueue([increment(2, "tue")]).view() == FlowView("mon", 1, 1)


def test_an_empty_increment_with_another_key_ends_a_frame():
    ended = queue("mon").enqueue([Increment("end", 1, 0, "tue")])

    assert ended.view().waiting == 1


def test_a_key_that_comes_back_later_is_a_frame_of_its_own():
    assert queue("a", "b", "a", "c").view() == FlowView("a", 3, 3)


def test_what_failed_stands_before_what_has_come_since():
    rest, taken = queue(None, None).take(Portion(0, 1, 1))

    restored = rest.enqueue([increment(2)]).restore(taken)

    assert restored == queue(None, None, None)


def test_what_was_read_before_stays_read_when_it_is_put_back():
    seen, _ = queue(None, None).take(Portion(0, 1, 0))
    rest, taken = seen.take(Portion(0, 1, 1))

    assert rest.view().unread == 1
    assert rest.restore(taken) == seen


def test_what_was_taken_of_another_flow_is_not_put_back():
    _, taken = queue(None).take(Portion(0, 1, 1))
    other = Connector(FlowId("split", "others"))

    assert other.restore(taken) == other


def test_an_increment_is_needed_while_any_consumer_has_not_removed_it():
    fast, slow = queue(None, None), queue(None, None)
    fast, _ = fast.take(Portion(0, 1, 1))
    both = {"split-updates-0", "split-updates-1"}
    assert needed((fast, slow), ()) == both

    slow, of_slow = slow.take(Portion(0, 1, 1))

    assert needed((fast, slow), (of_slow,)) == both  # its run may still fail
    assert needed((fast, slow), ()) == {"split-updates-1"}


operations = st.lists(
    st.one_of(
        st.sampled_from([None, "a", "b", 1, 2]).map(lambda key: ("enqueue", key)),
        st.tuples(*[st.integers(0, 3)] * 3, st.booleans()).map(lambda how: ("take", how)),
    ),
    max_size=40,
)


@given(operations)
def test_no_increment_is_lost_doubled_or_overtaken(happens):
    connector, made = EMPTY, 0
    removed: list[Increment] = []
    for what, how in happens:
        before = connector
        if what == "enqueue":
            connector = connector.enqueue([increment(made, how)])
            made += 1
            continue
        start, stop, remove, fails = how
        portion = Portion(min(start, stop), stop, remove)
        if connector.view().waiting < max(stop, remove):
            with pytest.raises(NothingWaits):
                connector.take(portion)
            continue
        frames = connector.frames(3)
        connector, taken = connector.take(portion)
        assert sum(one.rows for one in taken.read) == sum(
            frame.rows for frame in frames[portion.start : portion.stop]
        )
        if fails:
            connector = connector.restore(taken)
            assert connector == before
        else:
            removed += taken.removed
        saved = msgspec.msgpack.encode(connector)
        assert msgspec.msgpack.decode(saved, type=Connector) == connector

    assert [one.index for one in (*removed, *connector.waiting)] == list(range(made))
    assert 0 <= connector.read <= len(connector.waiting)
    view = connector.view()
    assert 0 <= view.unread <= view.waiting <= len(connector.waiting)
