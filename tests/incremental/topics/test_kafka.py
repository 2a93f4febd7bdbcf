"""What a topic has, asked of a Kafka that is busy with itself."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headgate.incremental.stages.errors import StageError
from headgate.incremental.topics import kafka
from headgate.incremental.topics.cursors import Extent, TopicExtent
from headgate.incremental.topics.kafka import KafkaTopics
from headgate.spark import KafkaAddress, RecordsUnavailable


class Admin:
    """A client that is given errors first, and then that the topic has two partitions."""

    def __init__(self, *errors: int) -> None:
        self._errors = list(errors)

    def __call__(self, *_: object, **__: object) -> Admin:
        return self

    def poll(self, _: float) -> int:
        return 0

    def _answer(self, value: object) -> Future[Any]:
        answer: Future[Any] = Future()
        if self._errors:
            answer.set_exception(KafkaException(KafkaError(self._errors.pop(0))))
        else:
            answer.set_result(value)
        return answer

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        parts = [SimpleNamespace(id=number) for number in (1, 0)]
        return {"t": self._answer(SimpleNamespace(topic_id="x", partitions=parts))}

    def list_offsets(self, asked: Mapping[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        return {place: self._answer(SimpleNamespace(offset=7)) for place in asked}


def test_another_leader_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION)
    monkeypatch.setattr(kafka, "AdminClient", Admin(*codes))
    monkeypatch.setattr(kafka, "_PAUSE", 0)
    expected = TopicExtent("t", "x", {0: Extent(7, 7), 1: Extent(7, 7)})
    assert KafkaTopics(KafkaAddress("k")).extent("t") == expected


def test_a_topic_that_stays_unknown_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AdminClient", Admin(*[KafkaError.UNKNOWN_TOPIC_OR_PART] * 3))
    monkeypatch.setattr(kafka, "_PASSING", {})
    with pytest.raises(StageError, match="there is no topic t at k: create it"):
        KafkaTopics(KafkaAddress("k")).extent("t")


def test_a_kafka_that_refuses_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "AdminClient", Admin(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(RecordsUnavailable, match=r"topic t at k cannot be read: .*authorization"):
        KafkaTopics(KafkaAddress("k")).extent("t")
