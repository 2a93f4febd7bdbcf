"""A topic of updates that is deleted and made again, while its agent runs and while it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headgate.events import updates_topic

pytestmark = [pytest.mark.stack, pytest.mark.soak]

LIMIT = 1000
MARKS = 40  # in each partition: the topic that is made again must not soon be as long as it was
Eventually = Callable[..., Any]


class Counted:
    """A dataflow in shadow mode, which counts the updates of one table."""

    def __init__(self, stand: Any, subscriber: Any) -> None:
        self._stand = stand
        self._subscriber = subscriber
        self._rows = 0
        self.name = f"counted-{stand.identity}"
        self.table = stand.stack.table("counted")
        self.agent = stand.start_agent("before")
        text = f"""
name: {self.name}
containers:
  a: {self.table} f:v
  b: {stand.stack.table("never")} f:v
actions:
  feed: {{input: a}}
  step:
    step: steps:copy
    reads: a
    writes: b
    when:
      a: {{sequence: {LIMIT}}}
"""
        stand.submit(self.agent, text, shadow=True)

    def start_again(self, eventually: Eventually) -> None:
        self.agent = self._stand.start_agent("after")
        eventually(lambda: any(row["here"] for row in self.agent.ask("GET", "/v1/flows")))

    def write(self, rows: int) -> None:
        """Write so many rows that were not there."""
        first, self._rows = self._rows, self._rows + rows
        self._stand.write(self.table, {b"%d" % row: b"1" for row in range(first, self._rows)})

    def count(self) -> int:
        """Return how many updates count, everything written so far included."""
        self.agent.wave(self.name)
        words = self.agent.explained(self.name, "step")["words"]
        found = re.search(r"needs (\d+) more updates? of", words)
        assert found is not None, words
        return LIMIT - int(found[1])

    def lengthen_topic(self) -> None:
        for _ in range(MARKS):
            self._subscriber.barrier(self.table)
        self._subscriber.read(self.table, self._subscriber.barrier(self.table))

    def add_partitions(self, total: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._stand.stack.kafka})
        topic = updates_topic(self.table)
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)

    def restart_observer(self) -> None:
        """Have the observer learn of them: it asks for topics when it starts."""
        self._stand.observer.stop()
        self._stand.start_observer()

    def words(self) -> str:
        """Return the log of the observer."""
        return str(self._stand.observer.log.read_text())

    def added(self, first: int = 4) -> int:
        """Return how many records lie in partitions that were added, from one on."""
        settings = {"bootstrap.servers": self._stand.stack.kafka, "group.id": "test"}
        consumer = Consumer(settings)
        topic = updates_topic(self.table)
        try:
            count = len(consumer.list_topics(topic, 10).topics[topic].partitions)
            places = [TopicPartition(topic, part) for part in range(first, count)]
            return sum(consumer.get_watermark_offsets(place, 10)[1] for place in places)
        finally:
            consumer.close()

    def delete_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._stand.stack.kafka})
        topic = updates_topic(self.table)
        admin.delete_topics([topic])[topic].result(30)


@pytest.fixture(scope="module")
def counted(stand: Any, make_subscriber: Any) -> Counted:
    subscriber = make_subscriber(stand.stack.kafka)
    subscriber.control_topic = stand.control_topic
    return Counted(stand, subscriber)


def test_updates_of_a_topic_that_is_made_again_count(counted: Counted) -> None:
    counted.write(20)
    counted.lengthen_topic()
    before = counted.count()
    counted.delete_topic()
    counted.write(10)
    assert counted.count() == before + 10
    counted.write(10)
    assert counted.count() == before + 20


def test_they_do_where_it_was_made_again_while_the_agent_was_away(
    counted: Counted, eventually: Eventually
) -> None:
    counted.write(20)
    counted.lengthen_topic()
    before = counted.count()
    counted.agent.stop()
    counted.delete_topic()
    counted.write(10)
    counted.start_again(eventually)
    assert counted.count() == before + 10
    counted.write(10)
    assert counted.count() == before + 20


def test_partitions_that_are_added_while_the_agent_runs_are_read(counted: Counted) -> None:
    counted.write(20)
    before = counted.count()
    counted.add_partitions(16)
    counted.restart_observer()
    for written in range(20, 120, 20):
        counted.write(20)
        assert counted.count() == before + written
    assert counted.added() > 0


def test_an_observer_at_work_notices_them_and_no_row_counts_twice_or_not_at_all(
    counted: Counted, eventually: Eventually
) -> None:
    counted.write(20)
    before = counted.count()
    counted.add_partitions(24)
    counted.write(20)
    assert counted.count() == before + 20
    eventually(lambda: counted.added(16) > 0)  # it marks that it spreads rows over them
    marks = counted.added(16)
    for written in range(40, 120, 20):
        counted.write(20)
        assert counted.count() == before + written
    assert counted.added(16) > marks
    assert "UNKNOWN_PARTITION" not in counted.words()
