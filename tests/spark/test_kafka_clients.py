"""Why Kafka does not answer, as its clients are told beside the calls that fail."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from headgate.spark import KAFKA_PATIENCE, KafkaAddress, Troubles, client_properties

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "Local: Timed out")
REFUSED = KafkaError(KafkaError._AUTHENTICATION, "k:1: invalid credentials")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


class Client:
    """One that is told something when it is polled, and may be at its end."""

    def __init__(self, troubles: Troubles, *told: KafkaError, fatal: bool = False) -> None:
        self._meet = client_properties(KafkaAddress("k"), troubles)["error_cb"]
        self._told = told
        self._fatal = fatal

    def poll(self, _: float, /) -> int:
        for error in self._told:
            self._meet(error)
        if self._fatal:
            raise KafkaException(TIMED_OUT)
        return 0


@pytest.mark.parametrize("fatal", [False, True])
def test_what_a_client_was_told_stands_beside_why_its_call_failed(*, fatal: bool) -> None:
    troubles = Troubles()
    client = Client(troubles, REFUSED, ALL_DOWN, fatal=fatal)
    said = "Local: Timed out (k:1: invalid credentials)"
    assert troubles.words(TIMED_OUT, client) == said


def test_one_that_was_told_nothing_says_nothing_more() -> None:
    troubles = Troubles()
    assert troubles.words(TIMED_OUT, Client(troubles, ALL_DOWN)) == "Local: Timed out"


def test_what_was_told_long_ago_is_not_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 7.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    troubles = Troubles()
    troubles.meet(REFUSED)
    now += 2 * KAFKA_PATIENCE - 1
    assert "credentials" in troubles.beside("no record")
    now += 2
    assert troubles.beside("no record") == "no record"


def test_properties_are_those_of_the_address() -> None:
    properties = client_properties(KafkaAddress("k", {"client.rack": "a"}), Troubles())
    assert {**properties, "error_cb": None} == {
        "bootstrap.servers": "k",
        "client.rack": "a",
        "error_cb": None,
    }
