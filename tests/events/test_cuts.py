"""Cuts: exactly which updates a run has consumed."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.events import GONE, Cut, known_from, lost_after

PLACES = st.tuples(st.sampled_from(["s", "t"]), st.integers(0, 3))
ADVANCES = st.lists(st.tuples(PLACES, st.integers(0, 50)), max_size=12)


def cut_after(advances):
    cut = Cut()
    for (topic, partition), position in advances:
        cut = cut.advanced(topic, partition, position)
    return cut


def test_an_empty_cut_holds_nothing():
    assert Cut().position("t", 5) == 0
    assert not Cut().has("t", 0, 0)


def test_a_position_is_the_first_offset_that_is_not_consumed():
    cut = Cut().advanced("t", 1, 7)

    assert cut.has("t", 1, 6)
    assert not cut.has("t", 1, 7)
    assert not cut.has("t", 0, 0)
    assert not cut.has("s", 1, 0)


@given(ADVANCES, PLACES, st.integers(0, 50))
def test_advancing_never_goes_back(advances, place, position):
    before = cut_after(advances)
    after = before.advanced(*place, position)

    assert after.covers(before)
    assert after.position(*place) == max(before.position(*place), position)


@given(ADVANCES, st.randoms())
def test_the_order_of_advances_does_not_matter(advances, random):
    shuffled = list(advances)
    random.shuffle(shuffled)
    one, other = cut_after(advances), cut_after(shuffled)

    assert one.covers(other)
    assert other.covers(one)


@given(ADVANCES, ADVANCES)
def test_one_cut_covers_another_that_holds_no_more(first, second):
    one, other = cut_after(first), cut_after(second)

    holds_all = all(
        one.has(topic, partition, offset)
        for (topic, partition), position in second
        for offset in range(position)
    )
    assert one.covers(other) == holds_all


def test_a_cut_is_not_changed_by_advancing_it():
    cut = Cut().advanced("t", 0, 1)
    cut.advanced("t", 0, 9)

    assert cut.position("t", 0) == 1


def test_a_loss_keeps_in_mind_from_where_on_something_is_told() -> None:
    for position in (0, 1, 17):
        assert lost_after(position) < GONE
        assert known_from(lost_after(position)) == known_from(position) == position
    assert lost_after(GONE) == GONE
    assert lost_after(lost_after(3)) == lost_after(3)
    assert known_from(GONE) is None


def test_a_cut_with_a_loss_covers_what_it_tells_of() -> None:
    lost = Cut({"t": (lost_after(5),)})
    assert Cut({"t": (lost_after(9),)}).covers(lost)
    assert Cut({"t": (5,)}).covers(lost)
    assert not Cut({"t": (4,)}).covers(lost)
    assert lost.covers(Cut({"t": (5,)}))
    assert lost.covers(Cut({"t": (GONE,)}))
    assert not Cut({"t": (GONE,)}).covers(Cut({"t": (0,)}))
    assert not lost.has("t", 0, 0)
