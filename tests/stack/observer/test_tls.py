"""TLS and origins in front of the real HBase."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from thriftpy2.thrift import TException
from thriftpy2.transport import TSSLSocket, TTransportException

from headgate.events import Origin, UpdateBatch
from headgate.observer import (
    Access,
    AccessRule,
    Allow,
    ClientCertificate,
    Journal,
    Kafka,
    Listener,
    ObserverConfig,
    ObserverProcess,
    Tls,
)

pytestmark = pytest.mark.stack

Connect = Callable[..., happybase.Connection]


class Observed(ObserverProcess):
    """An observer whose log and metrics a test reads."""

    def lines(self, event: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if event in line]

    def metric(self, name: str, **labels: str) -> float:
        """Return a sample; 0 where there is none."""
        wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        host, port = self.admin
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"headgate_observer_{name}{{{wanted}}} "):
                    return float(line.split()[-1])
        return 0.0


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, authority: Any) -> Connect:
    """happybase over TLS; it has no setting for that itself."""

    def to(
        observer: ObserverProcess, certificate: tuple[Path, Path] | None, trusted: Any = authority
    ) -> happybase.Connection:
        context = ssl.create_default_context(cafile=trusted.certificate)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        secure = partial(TSSLSocket, ssl_context=context)
        monkeypatch.setattr(happybase.connection, "TSocket", secure)
        return happybase.Connection(*observer.thrift1, timeout=30_000)

    return to


@pytest.fixture
def observer(stack, desk, tmp_path: Path, authority: Any) -> Iterator[Observed]:
    certificate, key = authority.issue("observer", "IP:127.0.0.1")
    tls = Tls(str(certificate), str(key), str(authority.certificate), True)
    config = ObserverConfig(
        name="secure",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1), tls=tls),
        kafka=Kafka(stack.kafka, control_topic=desk.control_topic),
        journal=Journal(str(tmp_path / "journal")),
        access=Access(
            default=Allow.READ,
            certificates=(
                ClientCertificate(common_name="worker", dataflow="aqhi"),
                ClientCertificate(common_name="etl", writer="etl"),
            ),
            rules=(AccessRule(Allow.WRITE, "aqhi/*", ("tls_*",)),),
        ),
    )
    with Observed(config, tmp_path) as process:
        yield process


def test_strangers_are_refused_logged_and_counted(
    stack,
    desk,
    observer: Observed,
    connect: Connect,
    authority: Any,
    other_authority: Any,
) -> None:
    name = stack.table("tls")
    desk.watch(name)
    worker = authority.issue("worker")
    table = connect(observer, worker).table(name)
    table.put(b"r", {b"f:a": b"1"})
    assert table.row(b"r") == {b"f:a": b"1"}

    with pytest.raises(TTransportException):
        connect(observer, worker, trusted=other_authority)
    for certificate in (None, other_authority.issue("worker"), authority.issue("worker", days=-1)):
        with pytest.raises(TException):
            connect(observer, certificate).table(name).put(b"r", {b"f:a": b"stranger"})
    etl = connect(observer, authority.issue("etl")).table(name)
    with pytest.raises(Hbase_thrift.IOError) as refused:
        etl.put(b"r", {b"f:a": b"etl"})
    assert b"origin 'etl' may not write" in refused.value.message
    assert etl.row(b"r") == {b"f:a": b"1"}

    for reason in ("refused_by_client", "no_certificate", "unknown_ca", "expired"):
        assert observer.metric("tls_failures_total", listener="thrift1", reason=reason) == 1
        assert len(observer.lines(f"reason={reason}")) == 1
    assert observer.metric("access_denied_total", listener="thrift1", origin="etl") == 1
    (line,) = observer.lines("request refused")
    assert "origin=etl" in line

    messages = [each for part in desk.read(name, desk.barrier(name)) for each in part]
    requests = [p for m in messages if isinstance(m, UpdateBatch) for p in m.requests]
    assert [request.origin for request in requests] == [Origin("aqhi", "", "", 0)]


def test_a_client_without_tls_is_told_so(observer: Observed) -> None:
    with pytest.raises(Hbase_thrift.IOError, match="turn TLS on in the client"):
        happybase.Connection(*observer.thrift1, timeout=30_000).tables()
    assert observer.metric("tls_failures_total", listener="thrift1", reason="plain") == 1


def test_a_renewed_certificate_is_served_after_a_hang_up(
    observer: Observed, connect: Connect, authority: Any, tmp_path: Path
) -> None:
    def expiry() -> float:
        labels = {"listener": "thrift1", "certificate": "server"}
        return observer.metric("certificate_expiry_timestamp_seconds", **labels)

    old = connect(observer, authority.issue("worker"))
    before = expiry()
    (line,) = [
        line
        for line in (tmp_path / "observer.toml").read_text().splitlines()
        if line.startswith("certificate = ")
    ]
    certificate = Path(json.loads(line.partition("= ")[2]))
    renewed = authority.issue("observer", "IP:127.0.0.1", days=3)
    for new, place in zip(renewed, (certificate, certificate.with_suffix(".key")), strict=True):
        new.replace(place)
    os.kill(observer.pid, signal.SIGHUP)
    deadline = time.monotonic() + 10
    while expiry() < before + 80_000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with socket.create_connection(observer.thrift1) as plain:
        context = ssl.create_default_context(cafile=authority.certificate)
        context.load_cert_chain(*authority.issue("worker"))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            shown = secure.getpeercert()
    assert shown is not None
    assert ssl.cert_time_to_seconds(str(shown["notAfter"])) > before + 80_000
    assert isinstance(old.tables(), list)
