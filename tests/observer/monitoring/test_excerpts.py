"""Text that clients give stays short wherever it stays."""

from __future__ import annotations

from structlog.testing import capture_logs

from headgate.observer.monitoring.client_log import ClientLog, ListenerLog
from headgate.observer.monitoring.excerpts import FIELD, LABEL, excerpt
from headgate.observer.monitoring.metrics import Metrics

MIB = 1 << 20


def test_a_short_name_is_its_own_excerpt() -> None:
    assert excerpt("x" * LABEL) == "x" * LABEL


def test_long_names_with_one_beginning_have_different_excerpts() -> None:
    one, other = excerpt("x" * MIB + "1"), excerpt("x" * MIB + "2")
    assert one != other
    assert len(one) <= LABEL
    assert one.startswith("xxx")
    assert "1048577 characters" in one


def test_metrics_stay_small_whatever_names_clients_invent() -> None:
    metrics = Metrics()
    for number in range(60):
        name = "x" * MIB + str(number)
        metrics.count_read(name)
        metrics.count_denied("thrift1", name)
        metrics.count_request("thrift1", name, "denied")
    metrics.count_read("x" * MIB + "1")
    assert len(metrics.text()) < 100_000
    assert len(metrics.reads) == 60


def test_a_line_of_the_log_stays_short() -> None:
    log = ClientLog(ListenerLog("thrift1", 7, lambda: 0.0))
    with capture_logs() as (lines):
        log.warning("refused", reason="x" * MIB, tables=["x" * MIB] * 1000)
    assert len(lines[0]["reason"]) <= FIELD
    assert len(str(lines[0])) < 50_000
    assert lines[0]["tables"][-1] == "... (900 more)"
