"""Reads that observers have counted, beside what bounds watch."""

from __future__ import annotations

from simulation import World

from headgate.agent.dataflow.views import FlowExplanation
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.read_counts import container_reads
from headgate.events import Container, ContainerId, Item, ObserverLease

READS = {
    "t": {"": 3, "f:": 1, "f:a": 1200, "f:b": 7, "ff:a": 9, "(other)": 2},
    "u": {"": 1, "f:a": 4},
}


def reads(*items: Item) -> tuple[dict[str, int], int]:
    found = container_reads(Container(ContainerId("c"), items), lambda t: READS.get(t, {}))
    return found.columns, found.whole_rows


def test_a_columns_reads_are_those_of_it_of_its_family_and_of_whole_rows() -> None:
    assert reads(Item("t", b"f", b"a")) == ({"f:": 1, "f:a": 1200}, 3)


def test_a_familys_reads_are_those_of_its_columns() -> None:
    assert reads(Item("t", b"f")) == ({"f:": 1, "f:a": 1200, "f:b": 7}, 3)


def test_a_tables_reads_are_all() -> None:
    assert reads(Item("t")) == ({"f:": 1, "f:a": 1200, "f:b": 7, "ff:a": 9, "(other)": 2}, 3)


def test_what_is_counted_by_table_counts_once_however_many_rows_are_watched() -> None:
    ranges = (Item("t", b"f", b"a", b"a", b"b"), Item("t", b"f", b"a", b"c", b"d"))
    assert reads(*ranges) == ({"f:": 1, "f:a": 1200}, 3)


def test_of_several_tables_each_column_is_told_with_its_table() -> None:
    found = reads(Item("t", b"f", b"b"), Item("u", b"f", b"a"), Item("none"))
    assert found == ({"t f:": 1, "t f:b": 7, "u f:a": 4}, 4)


def test_it_is_said_in_words_the_most_first() -> None:
    said = container_reads(Container(ContainerId("c"), (Item("t", b"f", b"a"),)), READS.__getitem__)
    assert said.words == (
        "`c` was read since the observers were started: f:a 1,200 times, f: once, "
        "whole rows 3 times."
    )
    unread = container_reads(Container(ContainerId("c"), (Item("v"),)), lambda _: {})
    assert unread.words == "`c` was not read since the observers were started."


def test_reads_through_several_observers_are_summed_and_an_epoch_begins_anew() -> None:
    observers = ObserverTable(30.0)
    for name, epoch, count in (("one", 1, 5), ("two", 1, 7), ("one", 2, 2), ("one", 1, 100)):
        observers.hear(ObserverLease(1, name, epoch, 10.0, {}, reads={"t": {"f:a": count}}), 100.0)
    observers.hear(ObserverLease(1, "old", 1, 10.0, {}), 100.0)
    # Of a lease with very many topics some are in parts, which say nothing else.
    observers.hear(ObserverLease(1, "a", 1, 10.0, {"topic": (1,)}, part=1), 100.0)
    assert observers.reads("t") == {"f:a": 9}
    observers.hear(ObserverLease(1, "two", 1, 10.0, {}, ended=True), 101.0)
    assert observers.reads("t") == {"f:a": 2}
    assert observers.reads("u") == {}


def test_a_dataflow_explains_itself_with_the_reads_of_what_it_watches(world: World) -> None:
    agent = world.start_agent()
    lease = ObserverLease(1, "observer", 1, 1e12, {}, reads={"in": {"c:v": 5}, "else": {"": 1}})
    agent.observers.hear(lease, world.now)
    assert agent.runtime is not None
    explained = agent.runtime.reporting.explain(world.now)
    assert isinstance(explained, FlowExplanation)
    assert {each.container: each.columns for each in explained.reads}["input"] == {"c:v": 5}
    assert explained.dataflow == agent.runtime.state.name
