"""A stage that reads a topic and writes another, on the real stack: each message counts once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import Struct

from headgate.incremental import StageError, UnsentIncrement
from headgate.incremental.topics.cursors import Extent, unread_of
from headgate.incremental.topics.encoding import OutgoingMessage
from headgate.incremental.topics.kafka import KafkaTopics
from headgate.incremental.topics.sending import SentPosition
from headgate.spark import KafkaAddress, OffsetRange

pytestmark = pytest.mark.stack

STAGES = """
import os
import time
from pathlib import Path

import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow
from headgate.incremental.topics.transactions import KafkaSession

HERE = Path(__file__).parent


def mortal(method, flag):
    def call(*given):
        method(*given)
        if flag.exists():
            flag.unlink()
            os._exit(9)

    return call


KafkaSession._produce = mortal(KafkaSession._produce, HERE / "die-in-transaction")
KafkaSession.send = mortal(KafkaSession.send, HERE / "die-after-transaction")


def total(url, flows):
    while (HERE / "hold").exists():
        time.sleep(0.05)
    n = sum(row["n"] or 0 for name in ("state", "clicks") for row in flows[name])
    return {"state": [{"n": n}], "totals": [{"url": url, "n": n}]}


totals = Stage(
    "totals",
    inputs={"clicks": InputFlow(route_by="url")},
    outputs={"totals": {"url": "string", "n": "int64"}},
    translate=total,
    state=StateFlow(pa.schema({"n": pa.int64()})),
)
"""
DATAFLOW = """
name: {name}
state: state
spark: {{spark.headgate.driverRows: 20}}
topics:
  clicks: {{topic: {clicks}, format: json, columns: {{url: string, n: int64}}, key: url}}
  totals: {{topic: {totals}, key: url}}
actions:
  count:
    stage: stages:totals
    reads: clicks
    writes: totals
    when: {{clicks: {{time: 1 s}}}}
    retries: {{attempts: 100, backoff: 0.2 s}}
"""


class Total(Struct, frozen=True):
    """A message that a reader of committed messages has seen."""

    url: str
    n: int
    increment: int
    row: int
    whole: bool


@pytest.fixture
def make_topic(stack: Any) -> Callable[..., str]:
    def make(name: str = "", partitions: int = 3) -> str:
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        admin = AdminClient({"bootstrap.servers": stack.kafka})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    return make


class Clicks:
    """What was clicked, in transactions, and the topic that says so."""

    def __init__(self, kafka: str, topic: str) -> None:
        self.counted: Counter[str] = Counter()
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": kafka, "transactional.id": topic, "log_level": 0}
        )
        self._producer.init_transactions(60)

    def come(self, **clicks: int) -> None:
        """Put messages there; some of a transaction that is undone lie between them."""
        self._send(dict.fromkeys(clicks, 1000))
        self._producer.abort_transaction(60)
        self._send(clicks)
        self._producer.commit_transaction(60)
        self.counted.update(clicks)

    def _send(self, clicks: dict[str, int]) -> None:
        self._producer.begin_transaction()
        for url, n in clicks.items():
            self._producer.produce(self._topic, json.dumps({"n": n}), url)
        assert self._producer.flush(60) == 0


class Reader:
    """Reads all committed messages of a topic, as anybody does."""

    def __init__(self, kafka: str, topic: str, partitions: int = 3) -> None:
        self.seen: list[Total] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "log_level": 0,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def look(self) -> dict[str, int]:
        """Return of each URL the newest total."""
        while (message := self._consumer.poll(0.3)) is not None:
            assert message.error() is None
            headers = {name: json.loads(value) for name, value in message.headers()[1:]}
            row = json.loads(message.value())
            assert message.key() == row["url"].encode()
            self.seen.append(
                Total(
                    row["url"],
                    row["n"],
                    headers["headgate.increment"],
                    headers["headgate.row"],
                    headers["headgate.whole"],
                )
            )
        return {one.url: one.n for one in self.seen}


def test_each_message_counts_once_though_worker_and_agent_are_killed(
    make_stand: Any, tmp_path: Path, eventually: Any, make_topic: Callable[..., str]
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    source, target = make_topic(), make_topic()
    clicks, reader = Clicks(stand.stack.kafka, source), Reader(stand.stack.kafka, target)
    hold = tmp_path / "hold"
    name = f"topics-{stand.identity}"

    def all_counted() -> bool:
        return reader.look() == dict(clicks.counted)

    def running() -> bool:
        return any(run["outcome"] == "running" for run in agent.runs(name, "count"))

    agent = stand.start_agent()
    clicks.come(a=1, b=2)
    stand.submit(agent, DATAFLOW.format(name=name, clicks=source, totals=target))
    eventually(all_counted)
    clicks.come(**dict.fromkeys("bcdefghijkl", 3))  # more than the driver reads
    eventually(all_counted)

    # Workers that are gone while they send what they have committed, and right after it.
    for death in ("die-in-transaction", "die-after-transaction"):
        (tmp_path / death).touch()
        clicks.come(a=6, b=7)
        eventually(lambda flag=tmp_path / death: not flag.exists())
        eventually(all_counted)

    hold.touch()
    clicks.come(c=6, m=7)
    eventually(running)
    agent.kill()
    hold.unlink()
    agent = stand.start_agent()
    agent.await_dataflows()
    eventually(all_counted)

    bad = Producer({"bootstrap.servers": stand.stack.kafka, "log_level": 0})
    bad.produce(source, b'{"n": "many"}', b"a")
    assert bad.flush(60) == 0
    eventually(lambda: any("column `n`" in run["reason"] for run in agent.runs(name, "count")))
    skipping = DATAFLOW.replace(
        "key: url}}\n  totals", "key: url, on_undecodable: skip}}\n  totals"
    )
    update = {"source": skipping.format(name=name, clicks=source, totals=target)}
    agent.ask("POST", f"/v1/flows/{name}/update", update)
    clicks.come(n=8)
    eventually(all_counted)

    seen = reader.seen
    assert len({(one.increment, one.row) for one in seen}) == len(seen), "each row is there once"
    rows: dict[int, set[int]] = {}
    for one in seen:
        rows.setdefault(one.increment, set()).add(one.row)
    assert all(there == set(range(len(there))) for there in rows.values()), "and all of them are"
    first = min(rows)
    assert {one.increment for one in seen if one.whole} == {first}
    for url in clicks.counted:
        of_url = [(one.increment, one.n) for one in seen if one.url == url]
        assert of_url == sorted(of_url), "in the order of the commits"


# -- what only the real Kafka shows of its topics


@pytest.fixture
def topics(stack: Any) -> KafkaTopics:
    return KafkaTopics(KafkaAddress(stack.kafka))


def test_what_a_transaction_has_not_committed_is_not_there_yet(
    stack: Any, topics: KafkaTopics, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=2)
    plain = Producer({"bootstrap.servers": stack.kafka, "log_level": 0})
    plain.produce(topic, b"", b"k", partition=0)
    plain.produce(topic, None, b"k", partition=0)
    assert plain.flush(60) == 0
    producer = Producer(
        {"bootstrap.servers": stack.kafka, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0
    assert topics.extent(topic).partitions == {0: Extent(0, 2), 1: Extent(0, 0)}
    plain.produce(topic, b"y", partition=0)
    assert plain.flush(60) == 0
    assert topics.extent(topic).partitions[0] == Extent(0, 2)

    producer.abort_transaction(60)
    there = topics.extent(topic)
    assert there.partitions[0] == Extent(0, 5)  # with the mark that ends the transaction
    read = list(topics.messages([OffsetRange(topic, 0, 0, 5)]))
    assert [(one.offset, one.value) for one in read] == [(0, b""), (1, None), (3, b"y")]
    assert [one.offset for one in topics.messages([OffsetRange(topic, 0, 2, 3)])] == []
    assert unread_of(None, there).offsets == 5


def test_a_topic_that_is_made_again_has_another_id(
    stack: Any, topics: KafkaTopics, make_topic: Callable[..., str], eventually: Any
) -> None:
    topic = make_topic()
    before = topics.extent(topic)
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    admin.delete_topics([topic])[topic].result(60)

    def made() -> bool:
        with suppress(KafkaException):  # it is still being deleted
            make_topic(topic)
            return True
        return False

    eventually(made)
    eventually(lambda: topics.extent(topic).id != before.id)
    [gap] = unread_of(unread_of(None, before).after, topics.extent(topic)).gaps
    assert "made again" in gap


def test_a_topic_that_is_nowhere_is_an_error_and_not_made(stack: Any, topics: KafkaTopics) -> None:
    name = f"nowhere-{uuid.uuid4().hex}"
    with pytest.raises(StageError, match="create it"):
        topics.extent(name)
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    assert name not in admin.list_topics(timeout=60).topics


def test_a_sender_that_was_overtaken_sends_nothing_more(
    stack: Any, topics: KafkaTopics, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=1)
    message = OutgoingMessage(b"k", b"{}")

    def send(session: Any, increment: int) -> None:
        header = {"headgate.increment": str(increment).encode()}
        session.send([message], [header], SentPosition(increment, 1, 2))

    assert topics.sent("sink", topic) is None
    with topics.session("sink", topic) as old:
        send(old, 1)
        assert topics.sent("sink", topic) == SentPosition(1, 1, 2)
        with topics.session("sink", topic) as new:
            with pytest.raises(UnsentIncrement, match="next run"):
                send(old, 2)
            send(new, 3)
            with pytest.raises(UnsentIncrement):
                send(old, 2)
    assert topics.sent("sink", topic) == SentPosition(3, 1, 2)
    stop = topics.extent(topic).partitions[0].stop
    assert len(list(topics.messages([OffsetRange(topic, 0, 0, stop)]))) == 2


def test_keys_go_to_partitions_as_with_clients_in_java(
    topics: KafkaTopics, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=10)
    # Kafka's own DefaultPartitioner: toPositive(murmur2(key)) % 10.
    expected = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    messages = [OutgoingMessage(key, b"{}") for key in expected]
    with topics.session(f"keys-{topic}", topic) as session:
        session.send(messages, [{}] * len(messages), SentPosition(1, 3, 3))
    extent = topics.extent(topic).partitions
    ranges = [OffsetRange(topic, n, at.start, at.stop) for n, at in extent.items() if at.stop]
    found = {one.key: one.partition for one in topics.messages(ranges)}
    assert found == {key: (hash_ & 0x7FFFFFFF) % 10 for key, hash_ in expected.items()}
