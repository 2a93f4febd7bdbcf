"""Findings of ``headgate doctor`` in words."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headgate.hbase import Dialect
from headgate.observer.config import AccessSettings
from headgate.observer.doctor.findings import (
    FindingVerdict,
    between,
    dialect_finding,
    how_it_runs,
    kafka_problem,
    state_tables,
)


def test_who_answers_is_compared_with_who_should() -> None:
    assert between("s", None, None).text == "HBase itself answers"
    assert "writes there make no events" in between("s", None, "").text
    assert between("s", "o1", "").verdict is FindingVerdict.OK
    assert "o2 answers, not o1" in between("s", "o2", "o1").text
    assert "not HBase itself" in between("s", "o1", None).text


def test_an_interpreted_observer_is_no_problem_and_has_its_cure() -> None:
    assert how_it_runs("s", compiled=True).verdict is FindingVerdict.OK
    found = how_it_runs("s", compiled=False)
    assert found.verdict is FindingVerdict.NOTE
    assert "make wheel" in found.cure


def test_the_wrong_dialect_is_a_problem() -> None:
    found = dialect_finding("s", "framed/compact", Dialect.THRIFT2, Dialect.THRIFT1)
    assert found.text == "speaks thrift2, framed/compact, but thrift1 is expected there"
    same = dialect_finding("s", "framed/compact", Dialect.THRIFT2, Dialect.THRIFT2)
    assert same.verdict is FindingVerdict.OK


@pytest.mark.parametrize(
    ("code", "text", "cure"),
    [
        (KafkaError._SSL, "TLS fails", "ssl.ca.location"),
        (KafkaError._AUTHENTICATION, "do not accept who this is", "sasl.username"),
        (KafkaError._RESOLVE, "has no address", "bootstrap"),
        (KafkaError._TRANSPORT, "no connection", "sasl_ssl was spoken"),
    ],
)
def test_each_failure_of_kafka_has_its_cure(code: int, text: str, cure: str) -> None:
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    errors = {error.code(): error for error in (down, KafkaError(code, "because"))}
    found = kafka_problem("kafka", errors, KafkaError(KafkaError._TIMED_OUT), "sasl_ssl")
    assert text in found.text
    assert "because" in found.text
    assert cure in found.cure


def test_an_unguarded_state_table_is_noted_with_what_would_guard_it() -> None:
    for access in (None, AccessSettings()):
        found = state_tables(access)
        assert found.verdict is FindingVerdict.NOTE
        assert "access.agents_key_file" in found.text
    assert state_tables(AccessSettings(agents_key_file="key")).verdict is FindingVerdict.OK
    assert state_tables(None).step == "agents' tables headgate, headgate-knowledge"
    assert "everybody" in state_tables(AccessSettings(state_tables=())).text
