"""Updates and decisions in the order in which the engine met them."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.events import Cut
from headgate.replay import RecordedUpdate, in_order
from headgate.replay.recording import ReplayedDecision


def update(topic: str, partition: int, offset: int, time: float) -> RecordedUpdate:
    return RecordedUpdate(topic, partition, offset, time, None)


LOGS = {
    ("a", 0): [update("a", 0, 0, 1.0), update("a", 0, 1, 4.0), update("a", 0, 2, 5.0)],
    ("a", 1): [update("a", 1, 0, 3.0), update("a", 1, 1, 2.0)],
    ("b", 0): [update("b", 0, 0, 3.5), update("b", 0, 1, 9.0), update("b", 0, 2, 8.0)],
    ("b", 1): [],
}


def ordered(*cuts: Cut) -> Iterator[tuple[str, int, int] | int]:
    """Yield topic, partition and offset of each update, and the number of each decision."""
    decisions = [
        ReplayedDecision(0.0, "finished", str(number), cut=cut) for number, cut in enumerate(cuts)
    ]
    logs = {place: iter(log) for place, log in LOGS.items()}
    for each in in_order(decisions, {"a": 2, "b": 2}, lambda *place: next(logs[place], None)):
        if isinstance(each, ReplayedDecision):
            yield int(each.words)
        else:
            yield each.topic, each.partition, each.offset


def test_what_a_moments_cut_holds_comes_before_it_and_by_time() -> None:
    first = Cut({"a": (2, 2), "b": (1, 0)})
    assert list(ordered(first)) == [
        ("a", 0, 0),
        ("a", 1, 0),
        ("a", 1, 1),  # the order within a partition stands, whatever the times
        ("b", 0, 0),
        ("a", 0, 1),
        0,
        ("a", 0, 2),
        ("b", 0, 1),
        ("b", 0, 2),
    ]


def test_what_no_cut_holds_comes_last() -> None:
    found = list(ordered(Cut({"b": (1, 0)}), Cut({"b": (3, 0)})))
    assert found[:5] == [("b", 0, 0), 0, ("b", 0, 1), ("b", 0, 2), 1]
    assert found[5:] == [("a", 0, 0), ("a", 1, 0), ("a", 1, 1), ("a", 0, 1), ("a", 0, 2)]


def test_partitions_take_turns_by_time_whichever_comes_first() -> None:
    logs = {("a", number): iter([update("a", number, 0, 9.0 - number)]) for number in range(4)}
    found = in_order([], {"a": 4}, lambda *place: next(logs[place], None))
    assert [each.time for each in found] == [6.0, 7.0, 8.0, 9.0]
