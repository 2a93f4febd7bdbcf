"""Tables that are watched by pattern, from their first write on."""

from __future__ import annotations

import pytest

from headgate.events import VERSION, Watch, WatchList
from headgate.observer.control import table_patterns
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns


@pytest.mark.parametrize(
    ("pattern", "table", "watched"),
    [
        ("sensor_*", "sensor_1", True),
        ("sensor_*", "sensor_", True),
        ("sensor_*", "sensors", False),
        ("sensor_*", "Sensor_1", False),
        ("default:sensor_*", "sensor_1", True),
        ("plant:*", "plant:a", True),
        ("plant:*", "plants:a", False),
        ("t", "t", True),
        ("t?[0-9]", "ta7", True),
        ("*", "plant:a", True),
        ("*", "headgate", False),
        ("headgate", "headgate", False),
        ("*", "hbase:meta", False),
        ("hbase:*", "hbase:acl", False),
    ],
)
def test_a_table_is_watched_by_its_name(pattern: str, table: str, watched: bool) -> None:
    patterns = TablePatterns(["other", pattern], ["default:headgate"])
    assert patterns.match(table) is watched
    assert patterns.match(table) is watched  # as it is remembered, too


def test_without_patterns_none_is() -> None:
    assert not TablePatterns().match("t")


def test_names_that_clients_invent_are_not_kept_without_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_patterns, "_REMEMBERED", 10)
    patterns = TablePatterns(["a*"])
    for number in range(100):
        assert patterns.match(f"a{number}")
        assert not patterns.match(f"b{number}")
    assert len(patterns._known) <= 10


def test_a_pattern_watches_beside_dataflows_and_has_values_published() -> None:
    control = ControlState(patterns=TablePatterns(["a*"]))
    lists = (Watch("a1", values=False), Watch("b", values=False))
    control.apply(WatchList(VERSION, "flow", 1, lists), "o")
    assert control.is_watched("a1")
    assert control.is_watched("a2")
    assert control.is_watched("b")
    assert not control.is_watched("c")
    assert control.is_named_by_pattern_alone("a2")
    assert not control.is_named_by_pattern_alone("a1")
    assert control.wants_values("a1")
    assert control.wants_values("a2")
    assert not control.wants_values("b")
    control.apply(WatchList(VERSION, "flow", 2, ()), "o")
    assert control.is_watched("a1")
    assert not control.is_watched("b")


def test_while_the_control_topic_is_lost_only_what_is_named_is_known_to_be_wanted() -> None:
    control = ControlState(patterns=TablePatterns(["a*"]))
    assert control.is_named_by_pattern_alone("a1")
    control.lost()
    assert not control.is_named_by_pattern_alone("a1")  # a dataflow may watch it by now
    assert control.is_watched("c")
    assert not control.is_named("c")
    assert not control.is_named("a1")
    control.found()
    assert control.is_named("a1")
    assert not control.is_watched("c")
