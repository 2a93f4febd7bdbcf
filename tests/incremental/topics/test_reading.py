"""By whom a topic is read: by the driver or by Spark's tasks, the same rows."""

from __future__ import annotations

import pickle
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from scripted_topics import Orders, ScriptedKafka

from headgate.engine import TOPIC_METADATA, TopicSpec
from headgate.incremental.stages.specification import schema_of
from headgate.incremental.topics import reading
from headgate.incremental.topics.cursors import unread_of
from headgate.incremental.topics.kafka import KafkaTopics
from headgate.incremental.topics.reading import read_unread
from headgate.spark import KafkaAddress, OffsetRange

SPEC = TopicSpec("t", {"n": "int64", "k": "string", **TOPIC_METADATA}, "k")


class Frames:
    """A session whose frames are what its tasks yield."""

    def createDataFrame(self, rows: list[tuple[bytes]], _: str) -> Frames:  # noqa: N802 - Spark's
        self.ranges = [msgspec.msgpack.decode(row[0], type=OffsetRange) for row in rows]
        self._rows = pa.RecordBatch.from_pydict({"name": [row[0] for row in rows]})
        return self

    def repartition(self, _: int) -> Frames:
        return self

    def mapInArrow(self, task: Any, _: object) -> Frames:  # noqa: N802 - Spark's
        self._made = pa.Table.from_batches(list(task(iter([self._rows]))))
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's
        return self._made


@pytest.fixture
def kafka() -> ScriptedKafka:
    kafka = ScriptedKafka()
    kafka.make("t", 3)
    for n in range(25):
        kafka.put("t", n % 3 % 2, {"n": n} if n % 5 else None, f"k{n}".encode())
    return kafka


def read(kafka: ScriptedKafka, driver_rows: int) -> tuple[Any, Frames]:
    frames = Frames()
    run: Any = SimpleNamespace(spark=frames, driver_rows=driver_rows)
    return read_unread(run, kafka, SPEC, unread_of(None, kafka.extent("t"))), frames


def test_the_driver_reads_what_is_little_by_partition_and_offset(kafka: ScriptedKafka) -> None:
    table, _ = read(kafka, 25)
    assert isinstance(table, pa.Table)
    assert table.schema == schema_of(SPEC.columns)
    places = list(zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True))
    assert places == sorted(places)
    assert len(set(places)) == 25
    assert kafka.read == [OffsetRange("t", 0, 0, 17), OffsetRange("t", 1, 0, 8)]


def test_tasks_read_the_same_of_more(kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_TASK_OFFSETS", 10)
    table, _ = read(kafka, 25)
    rows, frames = read(kafka, 24)
    assert frames.ranges == [
        OffsetRange("t", 0, 0, 10),
        OffsetRange("t", 0, 10, 17),
        OffsetRange("t", 1, 0, 8),
    ]
    assert rows.arrow().schema == table.schema
    found = Counter(map(str, table.to_pylist()))
    assert Counter(map(str, rows.arrow().to_pylist())) == found


def test_what_is_large_in_bytes_is_left_to_tasks_too(
    kafka: ScriptedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_DRIVER_BYTES", 100)
    rows, _ = read(kafka, 25)
    assert len(rows.arrow()) == 25


def test_nothing_is_no_rows_with_the_declared_columns(kafka: ScriptedKafka) -> None:
    kafka.make("t", 2)
    table, _ = read(kafka, 25)
    assert table.equals(schema_of(SPEC.columns).empty_table())
    assert kafka.read == []


def test_tasks_are_given_what_it_takes_to_be_let_in() -> None:
    topics = KafkaTopics(KafkaAddress("k:9092", {"sasl.password": "secret"}))
    copy = pickle.loads(pickle.dumps(topics))
    assert copy._address == topics._address


def test_columns_that_say_where_a_message_stands_reach_a_stage(orders: Orders) -> None:
    seen: list[dict[str, Any]] = []
    orders.spec = TopicSpec("shop.orders", {"n": "int64", **TOPIC_METADATA})
    spec = orders.stage.spec

    def translate(_: object, flows: Any) -> dict[str, Any]:
        seen.extend(flows["orders"])
        return {}

    orders.stage = cast(Any, SimpleNamespace(spec=replace(spec, translate=translate)))
    orders.put(1, 5)
    orders.run()
    [row] = seen
    assert (row["n"], row["_partition"], row["_offset"], row["_tombstone"]) == (5, 1, 0, False)
