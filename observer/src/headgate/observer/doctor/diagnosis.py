"""Why a client does not get through, or its writes make no events: looked at step by step."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from headgate.events import UpdateBatch
from headgate.hbase import Dialect
from headgate.observer.admin import ObserverHealth
from headgate.observer.config import Listener, ObserverConfig
from headgate.observer.control.table_patterns import TablePatterns
from headgate.observer.doctor.findings import (
    Finding,
    FindingVerdict,
    between,
    dialect_finding,
    how_it_runs,
    kafka_problem,
    namesakes,
    ok,
    problem,
    speaks_something_else,
    state_tables,
    tls_problem,
    unreachable,
)
from headgate.observer.doctor.recognition import ProbeReport, Unanswered, probe, speaks_tls
from headgate.observer.doctor.sample_write import Reached, write_and_read
from headgate.observer.doctor.topics import KAFKA_SECONDS, control_topic, counted, update_topics
from headgate.observer.publishing.kafka import KafkaPlace, KafkaUnavailable, client_settings
from headgate.observer.reading.following import NOW, Follower, FromTable
from headgate.observer.security.tls import TLS_ONLY
from headgate.observer.workers.division import observer_names
from headgate.settings import parse_address, write_address

_PROBE_SECONDS: Final = 3.0
_EVENT_SECONDS: Final = 15.0
_SKEW_SECONDS: Final = 1.0  # more of it makes times in events and cells misleading
_MIB: Final = 1 << 20
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
"""How to reach, on this host, what listens on all of its addresses."""


class TlsFiles(Struct, frozen=True):
    """PEM files for connections with TLS; empty: the operating system's, or none."""

    ca: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""
    """What the server's certificate is for; empty: the host."""


class Question(Struct, frozen=True):
    """What is to be looked at."""

    config: ObserverConfig | None = None
    thrift: tuple[str, ...] = ()
    """Addresses that clients are pointed at."""
    kafka: KafkaPlace | None = None
    write: tuple[str, str] | None = None
    """Table and column family of a cell to be written and deleted again."""
    tls: TlsFiles = TlsFiles()


class _Wanted(Struct, frozen=True):
    """What should be found at a Thrift address."""

    dialect: Dialect | None
    """None: either."""
    observer: str | None
    """Who answers: an observer's name, "" any observer, None HBase itself."""
    tls: TlsFiles | None
    """Should TLS be spoken; None: it may not be."""

    @property
    def listener(self) -> str:
        """The table in the observer's file that the address belongs to."""
        return self.dialect.value if self.dialect is not None else ""


class Diagnosis:
    """Looks at everything that a question names. Iterate to get each finding as it is made."""

    def __init__(self, question: Question, *, clock: Callable[[], float] = time.time) -> None:
        """Take the question; ``clock`` is Unix time in seconds."""
        self._question = question
        self._clock = clock
        self._reached: Reached | None = None

    def findings(self) -> Iterator[Finding]:
        """Yield what is found, step by step."""
        config, tls = self._question.config, self._question.tls
        for address in self._question.thrift:
            step = f"thrift {address}"
            yield from self._thrift(step, address, _Wanted(None, "", tls))
        if config is not None:
            for dialect in Dialect:
                listener = getattr(config, dialect.value)
                if isinstance(listener, Listener):
                    yield from self._listener(dialect, listener, config.name)
            yield state_tables(config.access)
            yield from self._journal(config)
            yield from self._health("admin", config.admin)
        kafka = self._question.kafka
        if kafka is None:
            yield Finding("kafka", FindingVerdict.NOTE, "not looked at: name a broker with --kafka")
            return
        yield from self._kafka(kafka)

    # -- Thrift

    def _listener(self, dialect: Dialect, listener: Listener, name: str) -> Iterator[Finding]:
        tls = listener.upstream_tls
        files = None
        if tls is not None:
            files = TlsFiles(tls.ca, tls.certificate, tls.key, tls.server_name)
        for upstream in listener.upstreams:
            step = f"{dialect.value} upstream {upstream}"
            yield from self._thrift(step, upstream, _Wanted(dialect, None, files))
        host, port = parse_address(listener.listen)
        if not port:
            text = "its port is a free one at each start; see the observer's ready line"
            yield Finding(f"{dialect.value} listen {listener.listen}", FindingVerdict.NOTE, text)
            return
        address = write_address(_EVERYWHERE.get(host, host), port)
        step = f"{dialect.value} listen {address}"
        yield from self._thrift(step, address, _Wanted(dialect, name, self._question.tls))

    def _thrift(self, step: str, address: str, wanted: _Wanted) -> Iterator[Finding]:
        try:
            host, port = parse_address(address)
        except ValueError as error:
            yield problem(step, str(error), "correct the address")
            return
        try:
            numbers = sorted({str(each[4][0]) for each in socket.getaddrinfo(host, port)})
        except OSError as error:
            text = f"the name {host} has no address ({error.strerror or error})"
            yield problem(step, text, "correct the name, or ask DNS or /etc/hosts for it")
            return
        began = time.perf_counter()
        try:
            socket.create_connection((host, port), _PROBE_SECONDS).close()
        except OSError as error:
            yield unreachable(step, error, _PROBE_SECONDS, served=wanted.observer is None)
            return
        milliseconds = (time.perf_counter() - began) * 1000
        named = f"{host} is {', '.join(numbers)}; " if numbers != [host] else ""
        yield ok(step, f"{named}connected in {milliseconds:.1f} ms")
        yield from self._conversation(step, host, port, wanted)

    def _conversation(self, step: str, host: str, port: int, wanted: _Wanted) -> Iterator[Finding]:
        report = asyncio.run(probe(host, port, seconds=_PROBE_SECONDS))
        tls = None
        refuses_plain = any(TLS_ONLY in each.complaint for each in report.results)
        if refuses_plain or (not report.results and report.else_ in ("TLS", "closed", "")):
            if asyncio.run(speaks_tls(host, port, seconds=_PROBE_SECONDS)):
                files = wanted.tls
                if files is None:
                    cure = f"add [{wanted.listener}.upstream_tls] to the observer's file"
                    yield problem(step, "speaks TLS, and the observer does not", cure)
                    return
                named = files.server_name or host
                try:
                    tls = _tls(files)
                    with (
                        socket.create_connection((host, port), _PROBE_SECONDS) as plain,
                        tls.wrap_socket(plain, server_hostname=named) as wrapped,
                    ):
                        yield ok(step, f"speaks {wrapped.version()}, and its certificate is good")
                except OSError as error:
                    yield tls_problem(step, error, named)
                    return
                report = asyncio.run(
                    probe(host, port, seconds=_PROBE_SECONDS, tls=tls, server_name=named)
                )
                if not report.results:
                    text = "ends the connection after TLS' handshake"
                    cure = "show a client certificate that it knows: --cert and --key"
                    yield problem(step, text, cure)
                    return
            elif report.else_ == "TLS":
                report = ProbeReport((), "TLS, and refuses a handshake")
        if not report.results:
            yield speaks_something_else(step, report.else_, _PROBE_SECONDS)
            return
        served = [each for each in report.results if not each.complaint]
        if not served:
            complaint = report.results[0].complaint
            text = f"an observer answers, but cannot serve: {complaint.removeprefix('headgate: ')}"
            yield problem(step, text, "start HBase's Thrift server, or correct upstream")
            return
        first = served[0]
        found = first.dialect or wanted.dialect or Dialect.THRIFT1
        formats = ", ".join(str(each.format) for each in served)
        yield dialect_finding(step, formats, found, wanted.dialect)
        name = first.observer.observer if first.observer is not None else None
        yield between(step, name, wanted.observer)
        if first.observer is not None:
            yield how_it_runs(step, compiled=first.observer.compiled)
        if wanted.observer is None and wanted.tls is not None and tls is None:
            cure = f"remove [{wanted.listener}.upstream_tls] from the observer's file"
            yield problem(step, "speaks no TLS, and the observer does", cure)
        if name is not None and self._reached is None:
            self._reached = Reached(host, port, first.format, found, tls, name)

    # -- the observer's own host

    def _journal(self, config: ObserverConfig) -> Iterator[Finding]:
        directory = Path(config.journal.directory)
        step = f"journal {directory}"
        there = directory
        while not there.exists() and there != there.parent:
            there = there.parent
        try:
            with tempfile.NamedTemporaryFile(dir=there, prefix=".headgate-doctor-"):
                pass
        except OSError as error:
            owner = f"user {os.geteuid()}"
            text = f"{there} cannot be written to by {owner}: {error.strerror}"
            cure = "give the observer's user the right to (chown), or run the doctor as that user"
            yield problem(step, text, cure)
            return
        free = shutil.disk_usage(there).free
        used = sum(file.stat().st_size for file in directory.glob("*.segment"))
        room = f"{free // _MIB} MiB are free on its disk"
        wanted = config.journal.limit_bytes
        if free + used < wanted:
            text = f"{room}, less than journal.limit_bytes ({wanted // _MIB} MiB)"
            yield problem(step, text, "free some room, or lower journal.limit_bytes")
        else:
            what = "can be written to" if there == directory else f"can be made in {there}"
            yield ok(step, f"{what}; {room}")

    def _health(self, step: str, address: str) -> Iterator[Finding]:
        host, port = parse_address(address)
        step = f"{step} {address}"
        if not port:
            text = "its port is a free one at each start; see the observer's ready line"
            yield Finding(step, FindingVerdict.NOTE, text)
            return
        try:
            health = _ask_health(write_address(host, port))
        except (OSError, ValueError) as error:
            text = f"no answer from /healthz ({getattr(error, 'reason', error)})"
            yield problem(step, text, "is the observer running? start it: headgate observer")
            return
        if health.serving and not health.reasons:
            yield ok(step, "the observer says that it serves and that nothing is wrong")
        else:
            said = "; ".join(health.reasons) or "no reason given"
            text = f"the observer says that it is {health.state}: {said}"
            yield problem(step, text, "cure what it names; its log says more")

    # -- Kafka

    def _kafka(self, place: KafkaPlace) -> Iterator[Finding]:
        step = f"kafka {place.bootstrap}"
        errors: dict[int, KafkaError] = {}
        security = place.properties.get("security.protocol", "plaintext")
        admin = AdminClient(
            {
                **client_settings(place.bootstrap, place.properties),
                "error_cb": lambda error: errors.setdefault(error.code(), error),
            }
        )
        began = time.perf_counter()
        deadline = time.monotonic() + KAFKA_SECONDS
        while True:
            try:
                brokers = admin.list_topics(timeout=1.0).brokers
                break
            except KafkaException as error:
                admin.poll(0)
                if errors or time.monotonic() > deadline:
                    yield kafka_problem(step, errors, error.args[0], security)
                    return
        milliseconds = (time.perf_counter() - began) * 1000
        yield ok(
            step,
            f"{counted(len(brokers), 'broker')} answered in {milliseconds:.0f} ms ({security})",
        )
        topics = admin.list_topics(timeout=KAFKA_SECONDS).topics
        control = topics.get(place.control_topic)
        step = f"control topic {place.control_topic}"
        if control is None or control.error is not None:
            text = "is not there: no observer and no agent has begun with it"
            cure = "start an observer, or name the right one with --control-topic"
            yield problem(step, text, cure)
            return
        yield control_topic(admin, step, place.control_topic, len(control.partitions))
        yield from self._what_is_watched(admin, place)

    def _what_is_watched(self, admin: AdminClient, place: KafkaPlace) -> Iterator[Finding]:
        tables = frozenset({self._question.write[0]} if self._question.write else ())
        try:
            follower = Follower(
                place.bootstrap,
                place.properties,
                control_topic=place.control_topic,
                tables=tables,
                dataflow=None,
                begin=NOW,
            )
        except KafkaUnavailable as error:
            yield problem("control topic", str(error), "look at the broker's log")
            return
        try:
            yield from self._observers(follower)
            watched = follower.watched
            patterns = self._question.config.watch.tables if self._question.config else ()
            if patterns:
                yield ok("watch lists", f"watch.tables names {', '.join(patterns)}")
            elif not watched:
                text = "no dataflow watches anything: observers publish nothing"
                yield problem("watch lists", text, "submit a dataflow: headgate flow submit")
            for dataflow, names in follower.by_dataflow.items():
                yield ok("watch lists", f"{dataflow} watches {', '.join(names)}")
            yield from update_topics(admin, watched)
            if self._question.write is not None:
                yield from self._round_trip(follower, *self._question.write)
        finally:
            follower.close()

    def _observers(self, follower: Follower) -> Iterator[Finding]:
        now = self._clock()
        live = [
            (lease, written)
            for lease, written in follower.leases
            if not lease.ended and written + lease.seconds > now
        ]
        for lease, written in live:
            step = f"observer {lease.observer}"
            ahead = written - now
            if ahead > _SKEW_SECONDS:
                text = f"its clock, or Kafka's, is {ahead:.1f} s ahead of this host's"
                yield problem(step, text, "run NTP on all hosts")
            said = f"epoch {lease.epoch}, said so {max(0.0, -ahead):.0f} s ago"
            yield ok(step, f"is alive: {said}")
        yield from namesakes([lease for lease, _ in live])
        config, reached = self._question.config, self._reached
        names = {lease.observer for lease, _ in live}
        wanted = observer_names(config) if config is not None else set()
        wanted |= {reached.observer} if reached is not None else set()
        for name in sorted(wanted - names):
            text = "has no lease on this control topic"
            cure = (
                "start it; or it speaks to another Kafka or control topic than this one: compare "
                "[kafka] bootstrap and control_topic"
            )
            yield problem(f"observer {name}", text, cure)
        if not live and not wanted:
            text = "no observer is alive on this control topic"
            yield problem("observers", text, "start one: headgate observer")

    def _watched_by_pattern(self, table: str) -> bool:
        config = self._question.config
        return config is not None and TablePatterns(config.watch.tables).match(table)

    # -- a write and its event

    def _round_trip(self, follower: Follower, table: str, family: str) -> Iterator[Finding]:
        step = f"write {table}:{family}"
        reached = self._reached
        if reached is None:
            text = "not tried: no address answered as an observer"
            yield problem(step, text, "name the observer's address with --thrift or --config")
            return
        if table in follower.unwatched and not self._watched_by_pattern(table):
            text = f"not tried: no dataflow watches {table}, so that no event would come"
            yield problem(step, text, "submit a dataflow that watches it: headgate flow submit")
            return
        row = b"headgate-doctor-" + uuid.uuid4().hex.encode()
        try:
            written = asyncio.run(write_and_read(reached, table, family, row, self._clock))
        except (OSError, Unanswered, ValueError, TimeoutError) as error:
            text = f"{table}, row {row.decode()}: {error or 'no answer'}"
            yield problem(step, text, "does the table have this column family?")
            return
        yield ok(step, f"written in {written.seconds * 1000:.1f} ms, read back and deleted")
        yield from self._event(follower, step, table, row, written.at)
        skew = written.skew
        if skew is not None and abs(skew) > _SKEW_SECONDS:
            way = "ahead of" if skew > 0 else "behind"
            text = f"HBase's is {abs(skew):.1f} s {way} this host's"
            yield problem("clocks", text, "run NTP on all hosts")
        elif skew is not None:
            yield ok("clocks", f"HBase's and this host's agree within {_SKEW_SECONDS:g} s")

    def _event(
        self, follower: Follower, step: str, table: str, row: bytes, written: float
    ) -> Iterator[Finding]:
        deadline = self._clock() + _EVENT_SECONDS
        for found in follower.follow():
            if (
                isinstance(found, FromTable)
                and isinstance(found.message, UpdateBatch)
                and row in found.message.rows
            ):
                late = (self._clock() - written) * 1000
                by = found.message.observer
                yield ok(step, f"its event came from {by} after {late:.0f} ms")
                return
            if self._clock() > deadline:
                break
        text = f"no event came within {_EVENT_SECONDS:g} s"
        cure = "is this the Kafka that the observer publishes to? ask its /healthz and its log"
        yield problem(step, f"{table}: {text}", cure)


def _tls(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca or None)
    if files.certificate:
        context.load_cert_chain(files.certificate, files.key or None)
    return context


def _ask_health(address: str) -> ObserverHealth:
    url = f"http://{address}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=_PROBE_SECONDS) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    return msgspec.json.decode(body, type=ObserverHealth)
