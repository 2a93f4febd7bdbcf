"""Which updates lie between two cuts."""

from headgate.events import GONE, Cut, lost_after
from headgate.spark.kafka.ranges import OffsetRange
from headgate.spark.kafka.updates import is_broken, ranges_between


def test_partitions_with_nothing_new_are_left_out() -> None:
    since, until = Cut({"t": (3, 4)}), Cut({"t": (5, 4, 2)})
    assert ranges_between("t", since, until) == [
        OffsetRange("t", 0, 3, 5),
        OffsetRange("t", 2, 0, 2),
    ]


def test_a_run_of_ordinary_cuts_is_whole() -> None:
    assert not is_broken("t", Cut(), Cut({"t": (5, 0), "u": (GONE,)}))
    assert not is_broken("t", Cut({"t": (5,)}), Cut({"t": (5, 7)}))


def test_what_was_deleted_before_either_cut_breaks_it() -> None:
    assert is_broken("t", Cut({"t": (3, GONE)}), Cut({"t": (5, 6)}))
    assert is_broken("t", Cut({"t": (GONE,)}), Cut({"t": (GONE,)}))


def test_a_cut_before_the_earlier_one_is_of_a_topic_made_again() -> None:
    assert is_broken("t", Cut({"t": (9,)}), Cut({"t": (2,)}))


def test_behind_a_loss_what_is_told_is_known() -> None:
    since = Cut({"t": (lost_after(3), 4, GONE, lost_after(0))})
    until = Cut({"t": (5, lost_after(9), 7, lost_after(2))})
    assert is_broken("t", since, Cut({"t": (5, 9, 7, 2)}))
    assert is_broken("t", Cut({"t": (3,)}), Cut({"t": (lost_after(5),)}))
    assert ranges_between("t", since, until) == [
        OffsetRange("t", 0, 3, 5),
        OffsetRange("t", 1, 4, 9),
        OffsetRange("t", 3, 0, 2),
    ]
