"""Tables that are watched by pattern, or of which nobody knows whether they are watched."""

from __future__ import annotations

import pytest
from published import intents, write

from headgate.events import Gap, Outcome, updates_topic
from headgate.observer.publishing import publisher


def test_the_first_event_of_a_table_that_is_watched_by_pattern_asks_for_its_topic(bench) -> None:
    bench.named = {"t", "u"}
    bench.publisher.add("invented", write(0, [b"r"]))
    assert bench.ensured == []
    bench.publisher.add("t", write(1, [b"r"]))
    bench.publisher.add("t", write(2, [b"r"]))
    bench.publisher.add_put("u", 3, "mutateRow", 1.0, None, b"r", b"f:q", -1, b"v", False)
    assert bench.ensured == ["t", "u"]
    for table in ("t", "u"):
        bench.publisher.topic_ready(table, 1)
    bench.timers.run()
    bench.producer.deliver_all()
    assert sorted(intents(bench.producer.log(0))) == [1, 2, 3]


def test_a_table_gets_no_topic_by_pattern_before_a_write_shows_that_it_exists(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_MOST_UNLISTED", 2)
    names = [f"t{number}" for number in range(4)]
    bench.named = set(names)
    for intent, name in enumerate(names):
        bench.publisher.add(name, write(intent, [b"r"], outcome=Outcome.UNKNOWN))
    assert bench.ensured == []
    assert bench.settled == [0, 1, 2, 3]
    bench.publisher.add("t0", write(4, [b"r"]))
    bench.publisher.add("t3", write(5, [b"r"]))
    bench.publisher.add("t0", write(6, [b"r"], outcome=Outcome.UNKNOWN))
    assert bench.ensured == ["t0", "t3"]
    for table in ("t0", "t3"):
        bench.publisher.topic_ready(table, 1)
    bench.timers.run()
    bench.producer.deliver_all()
    for table, expected in (("t0", [4, 6]), ("t3", [5])):
        topic = updates_topic(table)
        log = [sent.message for sent in bench.producer.delivered if sent.topic == topic]
        gap = log[0]
        assert isinstance(gap, Gap)
        assert (gap.table, gap.since, gap.until) == (table, 1.0, 100.0)
        assert intents(log[1:]) == expected


def test_topics_of_tables_by_pattern_are_asked_for_when_the_control_topic_is_found(bench) -> None:
    for table in ("t", "u"):
        bench.publisher.add(table, write(0, [b"r"]))
    assert bench.ensured == []
    bench.named, bench.unwanted = {"t"}, {"u"}
    bench.publisher.forget_unwanted()
    assert bench.ensured == ["t"]
    assert not bench.publisher.tables.awaits("u")


def test_a_table_that_a_dataflow_watches_is_not_doubted(bench) -> None:
    bench.named = {"t"}
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 1)
    bench.publisher.add("t", write(0, [b"r"], outcome=Outcome.UNKNOWN))
    bench.timers.run()
    bench.producer.deliver_all()
    assert intents(bench.producer.log(0)) == [0]


def test_a_table_nobody_watches_can_be_forgotten_before_its_topic_is_there(bench) -> None:
    bench.publisher.add("t", write(0, [b"r"]))
    bench.publisher.forget("t")
    bench.timers.run()
    assert bench.settled == [0]
    assert bench.publisher.idle


def test_no_topic_is_asked_for_before_somebody_is_known_to_watch_the_table(bench) -> None:
    bench.publisher.add("t", write(0, [b"r"]))
    bench.publisher.announce_gap("u", since=1.0, until=2.0, reason="passed")
    bench.timers.run()
    assert bench.ensured == []
    assert bench.publisher.tables.waiting_topics() == {}
    bench.publisher.prepare("t", values=True)
    assert bench.ensured == ["t"]
    bench.publisher.topic_ready("t", 1)
    bench.producer.deliver_all()
    assert intents(bench.producer.log(0)) == [0]


def test_what_is_kept_of_a_table_goes_once_it_is_known_that_nobody_watches_it(bench) -> None:
    for number, table in enumerate(("t", "u")):
        bench.publisher.add(table, write(number, [b"r"]))
    bench.unwanted = {"u"}
    bench.publisher.forget_unwanted()
    assert bench.settled == [1]
    assert not bench.publisher.tables.awaits("u")
    assert bench.publisher.tables.awaits("t")


def test_a_write_that_ends_after_that_is_dropped(bench) -> None:
    bench.unwanted = {"u"}
    bench.publisher.add("u", write(0, [b"r"]))
    bench.publisher.add_put("u", 1, "put", 1.0, None, b"r", b"f:q", -1, b"v", False)
    assert bench.settled == [0, 1]
    assert bench.publisher.idle
    assert not bench.publisher.tables.awaits("u")


def test_tables_that_nobody_is_known_to_watch_are_kept_to_a_number(bench) -> None:
    assert bench.publisher.has_room("new")
    for number in range(10_000):
        bench.publisher.add(f"t{number}", write(number, [b"r"]))
    assert not bench.publisher.has_room("new")
    assert bench.publisher.has_room("t17")
