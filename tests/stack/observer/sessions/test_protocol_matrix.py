"""Every client of Thrift before every Thrift server of HBase's: served, or refused in words.

A cell of the matrix is a client (framed or buffered; strict binary, old binary or compact) before a
server of one mode. Where both speak the same, and where the observer is told to translate, the
client's put, get and scan work and its put is an event; elsewhere it is told what to set, and
nothing of it reaches HBase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import happybase  # noqa: F401 - makes the next one
import Hbase_thrift
import pytest
import thriftpy2
from msgspec import Struct
from thriftpy2.protocol import TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import (
    TBufferedTransport,
    TFramedTransport,
    TSocket,
    TTransportException,
)

from headgate.events import Outcome, UpdateBatch
from headgate.hbase import Dialect
from headgate.local import Part
from headgate.observer import (
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    UpstreamProtocol,
    UpstreamTransport,
)

pytestmark = pytest.mark.stack

PATIENCE = 180.0  # seconds: a machine may be busy
LARGEST_FRAME = 2 << 20  # bytes that a framed server of HBase takes by default
with resources.as_file(resources.files("headgate.client") / "hbase2.thrift") as declared:
    TWO = thriftpy2.load(str(declared), module_name="matrix_two_thrift")

CHECKS = HealthChecks(timeout_seconds=60.0, hung_seconds=PATIENCE)


class Mode(Struct, frozen=True):
    """How a server is started, and what it speaks then."""

    options: tuple[str, ...]
    speaks: str

    def __str__(self) -> str:
        return " ".join(self.options) or "no option"


DEFAULT = Mode((), "buffered/binary")
HSHA_COMPACT = Mode(("-hsha", "-c"), "framed/compact")
MODES = (
    DEFAULT,
    Mode(("-nonblocking",), "framed/binary"),
    Mode(("-c",), "buffered/compact"),
    HSHA_COMPACT,
    Mode(("-threadedselector",), "framed/binary"),
    Mode(("-f",), "framed/binary"),
    Mode(("-f", "-c"), "framed/compact"),
    Mode(("-hsha",), "framed/binary"),
    Mode(("-nonblocking", "-c"), "framed/compact"),
    Mode(("-threadedselector", "-c"), "framed/compact"),
    Mode(("-threadpool",), "buffered/binary"),
)

CLIENTS = tuple(
    f"{transport}/{protocol}"
    for transport in ("framed", "buffered")
    for protocol in ("binary", "old binary", "compact")
)


def fits(client: str, server: str) -> bool:
    """Return whether they understand each other: HBase reads old binary where it speaks strict."""
    return client.replace("old ", "") == server


@contextmanager
def connected(client: str, dialect: Dialect, address: tuple[str, int]) -> Iterator[TClient]:
    """Yield a client of HBase's that speaks as its name says."""
    transport, _, protocol = client.partition("/")
    socket = TSocket(*address, socket_timeout=PATIENCE * 1000)
    wrapped = (TFramedTransport if transport == "framed" else TBufferedTransport)(socket)
    if protocol == "compact":
        written = TCompactProtocol(wrapped)
    else:
        strict = protocol == "binary"
        written = TBinaryProtocol(wrapped, strict_read=strict, strict_write=strict)
    service = Hbase_thrift.Hbase if dialect is Dialect.THRIFT1 else TWO.THBaseService
    wrapped.open()
    try:
        yield TClient(service, written)
    finally:
        wrapped.close()


def work1(client: TClient, table: bytes, row: bytes) -> None:
    mutation = Hbase_thrift.Mutation(column=b"f:a", value=row)
    client.mutateRow(table, row, [mutation], {})
    assert [each.columns[b"f:a"].value for each in client.getRow(table, row, {})] == [row]
    scan = Hbase_thrift.TScan(startRow=row, stopRow=row + b"\0", columns=[b"f:a"], caching=10)
    scanner = client.scannerOpenWithScan(table, scan, {})
    found = client.scannerGetList(scanner, 10)
    assert [(each.row, each.columns[b"f:a"].value) for each in found] == [(row, row)]
    client.scannerClose(scanner)


def work2(client: TClient, table: bytes, row: bytes) -> None:
    cell = TWO.TColumnValue(family=b"f", qualifier=b"a", value=row)
    client.put(table, TWO.TPut(row=row, columnValues=[cell]))
    assert [each.value for each in client.get(table, TWO.TGet(row=row)).columnValues] == [row]
    scan = TWO.TScan(startRow=row, stopRow=row + b"\0")
    found = client.getScannerResults(table, scan, 10)
    assert [(each.row, each.columnValues[0].value) for each in found] == [(row, row)]


WORK: dict[Dialect, Callable[[TClient, bytes, bytes], None]] = {
    Dialect.THRIFT1: work1,
    Dialect.THRIFT2: work2,
}


def put_large(client: TClient, dialect: Dialect, table: bytes, size: int) -> None:
    """Put a value of so many bytes."""
    if dialect is Dialect.THRIFT1:
        mutation = Hbase_thrift.Mutation(column=b"f:a", value=bytes(size))
        client.mutateRow(table, b"large", [mutation], {})
    else:
        cell = TWO.TColumnValue(family=b"f", qualifier=b"a", value=bytes(size))
        client.put(table, TWO.TPut(row=b"large", columnValues=[cell]))


class Bench:
    """Servers of the stack's HBase, observers before them, and the tables that are written."""

    def __init__(self, stack: Any, subscriber: Any, servers: Any, directory: Path) -> None:
        self._stack = stack
        self._subscriber = subscriber
        self._servers = servers
        self._directory = directory
        self._tables = {dialect: stack.table(f"matrix_{dialect.value}") for dialect in Dialect}
        self._observers = 0
        self._watched = False
        self.cells: dict[tuple[str, Dialect, str, str], str] = {}
        """What became of each: mode, service, whether translated, client."""

    def upstream(self, dialect: Dialect, mode: Mode) -> Any:
        """Begin to start a server, or take the stack's own."""
        if mode == DEFAULT:
            return self._stack.thrift1 if dialect is Dialect.THRIFT1 else self._stack.thrift2
        part = Part.THRIFT1 if dialect is Dialect.THRIFT1 else Part.THRIFT2
        return self._servers.begin(part, *mode.options)

    def run(self, modes: dict[Dialect, Mode]) -> None:
        """Try all clients before one server of each service, as they are and translated."""
        upstreams = {dialect: self.upstream(dialect, mode) for dialect, mode in modes.items()}
        started = [each for each in upstreams.values() if hasattr(each, "await_ready")]
        try:
            for dialect, mode in modes.items():
                self._warm(upstreams[dialect], dialect, mode)
            for translated in (False, True):
                self._try_all(modes, upstreams, translated=translated)
        finally:
            for server in started:
                server.kill()

    def _warm(self, upstream: Any, dialect: Dialect, mode: Mode) -> None:
        """Have a server do once, without an observer, what it will be asked for."""
        address = upstream
        if mode != DEFAULT:
            upstream.await_ready()
            address = upstream.address
        with connected(mode.speaks, dialect, tuple(address)) as connection:
            WORK[dialect](connection, self._tables[dialect].encode(), b"directly")
        if mode.speaks.startswith("framed"):
            self._frames_are_limited(mode, dialect, tuple(address))

    def _frames_are_limited(self, mode: Mode, dialect: Dialect, address: tuple[str, int]) -> None:
        """A fact of HBase's: it ends a connection without a word at a frame above 2 MiB."""
        table = self._tables[dialect].encode()
        with connected(mode.speaks, dialect, address) as connection:
            put_large(connection, dialect, table, LARGEST_FRAME - 1024)
            with pytest.raises((TTransportException, OSError)):
                put_large(connection, dialect, table, LARGEST_FRAME + 1)

    def _listener(self, mode: Mode, upstream: Any, *, translated: bool) -> Listener:
        address = upstream if isinstance(upstream, str) else str(upstream)
        if not translated:
            return Listener("127.0.0.1:0", address, health=CHECKS)
        transport, _, protocol = mode.speaks.partition("/")
        return Listener(
            "127.0.0.1:0",
            address,
            health=CHECKS,
            upstream_transport=UpstreamTransport(transport),
            upstream_protocol=UpstreamProtocol(protocol),
        )

    def _try_all(
        self, modes: dict[Dialect, Mode], upstreams: dict[Dialect, Any], *, translated: bool
    ) -> None:
        self._observers += 1
        directory = self._directory / str(self._observers)
        listeners: dict[str, Any] = {
            dialect.value: self._listener(mode, upstreams[dialect], translated=translated)
            for dialect, mode in modes.items()
        }
        config = ObserverConfig(
            name=f"matrix-{self._observers}",
            kafka=KafkaSettings(self._stack.kafka, control_topic=self._subscriber.control_topic),
            journal=JournalSettings(str(directory / "journal")),
            lease_seconds=3.0,
            **listeners,
        )
        expected: dict[Dialect, set[bytes]] = {dialect: set() for dialect in modes}
        with ObserverProcess(config, directory, seconds=PATIENCE) as observer:
            if not self._watched:
                self._subscriber.watch(*self._tables.values())
                self._watched = True
            for dialect, mode in modes.items():
                address = observer.thrift1 if dialect is Dialect.THRIFT1 else observer.thrift2
                for client in CLIENTS:
                    row = f"{self._observers}-{client}".encode()
                    told = self._try(client, dialect, address, row)
                    self._judge(client, mode, told, translated=translated)
                    if not told:
                        expected[dialect].add(row)
                    setting = "translated" if translated else "as is"
                    self.cells[str(mode), dialect, setting, client] = told
            barrier = self._subscriber.barrier(*self._tables.values())
            for dialect, rows in expected.items():
                assert self._applied(self._tables[dialect], barrier) == rows

    def _try(self, client: str, dialect: Dialect, address: tuple[str, int], row: bytes) -> str:
        """Return what a client was told; nothing when all that it did has worked."""
        try:
            with connected(client, dialect, address) as connection:
                WORK[dialect](connection, self._tables[dialect].encode(), row)
        except TApplicationException as error:
            text = error.message
            return text.decode() if isinstance(text, bytes) else str(text)
        return ""

    def _judge(self, client: str, mode: Mode, told: str, *, translated: bool) -> None:
        if translated or fits(client, mode.speaks):
            assert not told, f"{client} before {mode}"
            return
        transport, _, protocol = mode.speaks.partition("/")
        assert f"the client speaks {client}, the HBase Thrift server at" in told
        assert f"set the client to {mode.speaks}, or set" in told
        assert f'upstream_transport = "{transport}"' in told
        assert f'upstream_protocol = "{protocol}"' in told

    def _applied(self, table: str, barrier: str) -> set[bytes]:
        """Return the rows that the observer now running has published as applied."""
        found: set[bytes] = set()
        for partition in self._subscriber.read(table, barrier, seconds=PATIENCE):
            for message in partition:
                if isinstance(message, UpdateBatch) and message.observer.endswith(
                    f"-{self._observers}"
                ):
                    assert all(part.outcome is Outcome.APPLIED for part in message.requests)
                    assert message.values == message.rows
                    found.update(message.rows)
        return found


@pytest.fixture
def bench(stack, subscriber, thrift_servers, tmp_path: Path) -> Bench:
    return Bench(stack, subscriber, thrift_servers, tmp_path)


def test_clients_before_servers_of_two_modes_are_served_or_told_why(bench: Bench) -> None:
    bench.run({Dialect.THRIFT1: DEFAULT, Dialect.THRIFT2: HSHA_COMPACT})
    assert len(bench.cells) == 2 * 2 * len(CLIENTS)
    assert sum(not told for told in bench.cells.values()) == 2 * len(CLIENTS) + 2 + 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_clients_before_servers_of_every_mode_are_served_or_told_why(bench: Bench) -> None:
    for mode in MODES:
        bench.run(dict.fromkeys(Dialect, mode))
        for dialect in Dialect:
            told = [bench.cells[str(mode), dialect, "as is", client] for client in CLIENTS]
            row = ["told why" if each else "served" for each in told]
            print(f"| `{mode}` | {dialect.value} | {' | '.join(row)} |", flush=True)
    assert len(bench.cells) == len(MODES) * 2 * 2 * len(CLIENTS)
