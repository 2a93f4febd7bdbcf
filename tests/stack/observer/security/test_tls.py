"""TLS and origins in front of the real HBase, and TLS between the observer and HBase."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from thriftpy2.thrift import TException
from thriftpy2.transport import TSSLSocket, TTransportException

from headgate.events import Origin, UpdateBatch
from headgate.observer import (
    AccessRule,
    AccessSettings,
    Allow,
    ClientCertificate,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    StartError,
    Tls,
    UpstreamTls,
)
from headgate.observer.doctor.diagnosis import Diagnosis, Question, TlsFiles
from headgate.observer.doctor.findings import FindingVerdict
from headgate.observer.lifecycle.process import as_toml

pytestmark = pytest.mark.stack

Connect = Callable[..., happybase.Connection]


class Observed(ObserverProcess):
    """An observer whose log and metrics a test reads."""

    def lines(self, event: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if event in line]

    def samples(self, name: str, **labels: str) -> list[float]:
        """Return the values of a metric whose labels have these among them."""
        host, port = self.admin
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        return [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"headgate_observer_{name}"
            and labels.items() <= sample.labels.items()
        ]

    def metric(self, name: str, **labels: str) -> float:
        """Return a counter; 0 where nothing was counted."""
        return sum(self.samples(name, **labels))


class Terminator:
    """Takes TLS connections and passes on what they say. It runs in its own thread."""

    def __init__(self, target: str, context: ssl.SSLContext) -> None:
        self._target = target.rsplit(":", 1)
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.shown: list[str] = []
        """The common names of the clients' certificates."""
        self._thread = threading.Thread(target=self._run, args=(context,), daemon=True)
        self._thread.start()

    def __str__(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, context: ssl.SSLContext) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(lambda *_: None)  # of handshakes that are meant to fail
        opening = asyncio.start_server(self._accept, sock=self._listener, ssl=context)
        server = loop.run_until_complete(opening)
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert") or {"subject": ()}
        self.shown += [name for ((_, name),) in certificate["subject"]]
        there, back = await asyncio.open_connection(*self._target)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()


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
def config(stack, subscriber, tmp_path: Path, authority: Any) -> ObserverConfig:
    certificate, key = authority.issue("observer", "IP:127.0.0.1")
    tls = Tls(str(certificate), str(key), str(authority.certificate), True)
    return ObserverConfig(
        name="secure",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1), tls=tls),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
        access=AccessSettings(
            default=Allow.READ,
            certificates=(
                ClientCertificate(common_name="worker", dataflow="aqhi"),
                ClientCertificate(common_name="etl", writer="etl"),
            ),
            rules=(AccessRule(Allow.WRITE, "aqhi/*", ("tls_*",)),),
        ),
    )


@pytest.fixture
def observer(config: ObserverConfig, tmp_path: Path) -> Iterator[Observed]:
    with Observed(config, tmp_path) as process:
        yield process


def test_strangers_are_refused_logged_and_counted(
    stack,
    subscriber,
    observer: Observed,
    connect: Connect,
    authority: Any,
    other_authority: Any,
) -> None:
    name = stack.table("tls")
    subscriber.watch(name)
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

    messages = [each for part in subscriber.read(name, subscriber.barrier(name)) for each in part]
    requests = [p for m in messages if isinstance(m, UpdateBatch) for p in m.requests]
    assert [request.origin for request in requests] == [Origin("aqhi", "", "", 0)]


def test_a_revoked_client_is_refused_logged_and_counted(
    stack, config: ObserverConfig, connect: Connect, authority: Any, tmp_path: Path
) -> None:
    name = stack.table("tls")
    revoked, kept = authority.issue("worker"), authority.issue("worker")
    crl = tmp_path / "crl.pem"
    crl.write_text(authority.revoke(days=1))
    assert config.thrift1 is not None
    assert config.thrift1.tls is not None
    tls = structs.replace(config.thrift1.tls, client_crl=str(crl))
    listener = structs.replace(config.thrift1, tls=tls)
    due = {"listener": "thrift1", "certificate": "client_crl"}
    with Observed(structs.replace(config, thrift1=listener), tmp_path) as observer:
        connect(observer, revoked).table(name).put(b"r", {b"f:a": b"1"})
        (before,) = observer.samples("certificate_expiry_timestamp_seconds", **due)
        crl.write_text(authority.revoke(revoked[0], days=2))
        deadline = time.monotonic() + 30
        while observer.samples("certificate_expiry_timestamp_seconds", **due) == [before]:
            assert time.monotonic() < deadline
            time.sleep(0.2)  # whoever asks ten times a second is told the same again
        with pytest.raises(TException):
            connect(observer, revoked).table(name).put(b"r", {b"f:a": b"revoked"})
        assert connect(observer, kept).table(name).row(b"r") == {b"f:a": b"1"}
        (line,) = observer.lines("reason=")
        assert "reason=revoked" in line
        assert observer.metric("tls_failures_total", listener="thrift1", reason="revoked") == 1
        assert "certificate revoked" in line


def test_a_client_without_tls_is_told_so(observer: Observed) -> None:
    with pytest.raises(Hbase_thrift.IOError, match="turn TLS on in the client"):
        happybase.Connection(*observer.thrift1, timeout=30_000).tables()
    assert observer.metric("tls_failures_total", listener="thrift1", reason="plain") == 1


def shown_by(address: tuple[str, int], authority: Any) -> str:
    """Return until when the certificate is valid that a new connection is shown."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(*authority.issue("worker"))
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        shown = secure.getpeercert()
    assert shown is not None
    return str(shown["notAfter"])


def test_the_doctor_looks_through_tls_with_a_clients_files(
    observer: Observed, authority: Any
) -> None:
    host, port = observer.thrift1
    certificate, key = authority.issue("worker")
    files = TlsFiles(str(authority.certificate), str(certificate), str(key))
    found = list(Diagnosis(Question(thrift=(f"{host}:{port}",), tls=files)).findings())
    assert [each for each in found if each.verdict is FindingVerdict.PROBLEM] == []
    assert any(each.text.startswith("speaks TLSv1") for each in found)
    without = list(Diagnosis(Question(thrift=(f"{host}:{port}",))).findings())
    assert any("its certificate is not good" in each.text for each in without)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_renewed_certificate_is_served_after_a_hang_up(
    config: ObserverConfig, connect: Connect, authority: Any, tmp_path: Path, workers: int
) -> None:
    renewed = authority.issue("observer", "IP:127.0.0.1", days=3)
    expiry = {"listener": "thrift1", "certificate": "server"}
    name = "certificate_expiry_timestamp_seconds"
    with Observed(structs.replace(config, workers=workers), tmp_path) as observer:
        old = [connect(observer, authority.issue("worker")) for _ in range(4)]
        before = observer.samples(name, **expiry)
        assert len(before) == workers
        assert config.thrift1 is not None
        assert config.thrift1.tls is not None
        for new, place in zip(
            renewed, (config.thrift1.tls.certificate, config.thrift1.tls.key), strict=True
        ):
            new.replace(place)
        os.kill(observer.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        while min(observer.samples(name, **expiry)) < max(before) + 80_000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for _ in range(8):
            until = ssl.cert_time_to_seconds(shown_by(observer.thrift1, authority))
            assert until > max(before) + 80_000
        assert all(isinstance(each.tables(), list) for each in old)


def refused(table: happybase.Table) -> bool:
    try:
        table.put(b"r", {b"f:a": b"2"})
    except Hbase_thrift.IOError as error:
        return b"may not write to" in error.message
    return False


def test_new_rules_hold_in_every_worker_after_a_hang_up(
    stack, config: ObserverConfig, connect: Connect, authority: Any, tmp_path: Path
) -> None:
    name = stack.table("tls")
    config = structs.replace(config, workers=2)
    with Observed(config, tmp_path) as observer:
        worker = authority.issue("worker")
        tables = [connect(observer, worker).table(name) for _ in range(8)]
        for table in tables:
            table.put(b"r", {b"f:a": b"1"})
        assert config.access is not None
        narrower = structs.replace(config, access=AccessSettings(Allow.READ, config.access.claims))
        (tmp_path / "observer.toml").write_text(as_toml(narrower))
        os.kill(observer.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        for table in tables:
            while not refused(table):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert all(table.row(b"r") for table in tables)
        assert observer.metric("access_denied_total", listener="thrift1") == len(tables)


# -- TLS between the observer and HBase


@pytest.fixture
def terminator(stack, authority: Any) -> Iterator[Terminator]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.issue("hbase", "DNS:hbase.example"))
    terminator = Terminator(str(stack.thrift1), context)
    yield terminator
    terminator.close()


def behind(
    terminator: Terminator, config: ObserverConfig, tmp_path: Path, **tls: Any
) -> ObserverConfig:
    listener = Listener("127.0.0.1:0", str(terminator), upstream_tls=UpstreamTls(**tls))
    return structs.replace(config, thrift1=listener, access=None)


def test_hbase_is_spoken_to_over_mutual_tls(
    stack,
    subscriber,
    terminator: Terminator,
    config: ObserverConfig,
    tmp_path: Path,
    authority: Any,
) -> None:
    name = stack.table("tls")
    certificate, key = authority.issue("observer")
    files = {"certificate": str(certificate), "key": str(key)}
    config = behind(
        terminator,
        config,
        tmp_path,
        ca=str(authority.certificate),
        server_name="hbase.example",
        **files,
    )
    with Observed(config, tmp_path) as observer:
        subscriber.watch(name)
        connection = happybase.Connection(*observer.thrift1, timeout=30_000)
        table = connection.table(name)
        rows = {b"row-%d" % number: {b"f:a": b"v" * 1000} for number in range(500)}
        with table.batch() as batch:
            for row, cells in rows.items():
                batch.put(row, cells)
        assert dict(table.scan(batch_size=100)) == rows
        assert set(terminator.shown) == {"observer"}
        assert observer.samples("upstream_up", upstream=str(terminator)) == [1.0]
        messages = [
            each for part in subscriber.read(name, subscriber.barrier(name)) for each in part
        ]
    published = [m for m in messages if isinstance(m, UpdateBatch)]
    assert sum(len(m.rows) for m in published) == len(rows)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("ca", "its certificate is not accepted: "),
        ("server_name", "its certificate is not accepted: IP address mismatch"),
    ],
)
def test_an_upstream_that_is_not_who_it_should_be_gets_no_request(
    terminator: Terminator,
    config: ObserverConfig,
    tmp_path: Path,
    authority: Any,
    other_authority: Any,
    spoil: str,
    reason: str,
) -> None:
    certificate, key = authority.issue("observer")
    trusted = other_authority if spoil == "ca" else authority
    config = behind(
        terminator,
        structs.replace(config, start_seconds=3.0),
        tmp_path,
        ca=str(trusted.certificate),
        certificate=str(certificate),
        key=str(key),
        server_name="hbase.example" if spoil == "ca" else "",
    )
    with pytest.raises(StartError) as refused:
        Observed(config, tmp_path)
    assert reason in str(refused.value)
    assert terminator.shown == []
