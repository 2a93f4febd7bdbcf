"""Kafka's errors are logged at once, and an outage in few lines."""

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from headgate.observer.publishing import kafka
from headgate.observer.publishing.kafka import ErrorLog, KafkaProducer, KafkaUnavailable, Topics

REFUSED = KafkaError(KafkaError._TRANSPORT, "connection refused")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_kind_of_error_is_logged_at_once_then_with_how_many_it_stands_for() -> None:
    clock = Clock()
    log = ErrorLog(clock)
    with capture_logs() as lines:
        for seconds, error in [
            (0.0, REFUSED),
            (0.1, REFUSED),
            (0.1, ALL_DOWN),
            (9.0, REFUSED),
            (0.9, REFUSED),
            (0.1, REFUSED),
        ]:
            clock.now += seconds
            log(error)
    assert [(line["code"], line["more"]) for line in lines] == [
        ("_TRANSPORT", 0),
        ("_ALL_BROKERS_DOWN", 0),
        ("_TRANSPORT", 2),
    ]
    assert lines[0]["reason"] == "connection refused"


def test_an_outage_of_minutes_is_a_handful_of_lines() -> None:
    clock = Clock()
    log = ErrorLog(clock)
    with capture_logs() as lines:
        for _ in range(7 * 60 * 10):
            clock.now += 0.1
            log(REFUSED)
            log(ALL_DOWN)
    assert len(lines) == 12
    stood_for = sum(line["more"] + 1 for line in lines if line["code"] == "_TRANSPORT")
    assert 3_000 < stood_for <= 4_200, "each line says how many it stands for"


def test_an_outage_of_a_day_is_still_told_of() -> None:
    clock = Clock()
    log = ErrorLog(clock)
    with capture_logs() as lines:
        for _ in range(24 * 3600 // 5):
            clock.now += 5
            log(REFUSED)
    assert 24 * 6 - 10 < len(lines) < 24 * 6 + 10


def test_the_next_outage_is_told_at_once() -> None:
    clock = Clock()
    log = ErrorLog(clock)
    for _ in range(1000):
        clock.now += 1
        log(REFUSED)
    clock.now += 61
    with capture_logs() as lines:
        log(REFUSED)
        clock.now += 10
        log(REFUSED)
    assert len(lines) == 2


def test_an_outage_is_one_however_many_clients_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_errors", ErrorLog())
    nobody = "127.0.0.1:1"
    producer, topics = KafkaProducer(nobody, {}), Topics(nobody, {}, replication=1)
    with capture_logs() as lines:
        with pytest.raises(KafkaUnavailable):
            topics.reach(1.0)
        producer.poll()
    codes = [line["code"] for line in lines]
    assert len(codes) == len(set(codes)) > 0
