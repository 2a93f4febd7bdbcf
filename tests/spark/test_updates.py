"""Which updates lie between two cuts."""

from headgate.events import GONE, Cut
from headgate.spark.updates import OffsetRange, is_broken, ranges_between


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
