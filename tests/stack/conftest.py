"""The real HBase, Thrift servers and Kafka that the stack tests run against.

One private instance serves the whole session: its data in a temporary folder, its ports free ones,
its jars from the user's cache. It ends with the session, after Ctrl-C too, and the kernel ends it
should pytest itself be killed. The processes of ``pytest -n`` share it (``shared_stack.py``).

For quick iteration keep an instance running and let ``HEADGATE_TEST_STACK`` name a JSON file of
its addresses and its folder, as ``headgate local up --json`` prints them; nothing is then started
or stopped::

    headgate local up --instance tests --json > stack.json
    HEADGATE_TEST_STACK=stack.json pytest -m stack

Tests share the instance: they take unique table names from ``stack.table`` and leave what is not
theirs alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import happybase
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.shared_stack import KEY

from headgate.events import (
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    UpdateMessage,
    Watch,
    WatchList,
    control_key,
    decode_update,
    encode_control,
    updates_topic,
)
from headgate.local import (
    Address,
    Addresses,
    Lifetime,
    LocalStack,
    Part,
    find_java,
    start_process,
)
from headgate.local.configuration import render
from headgate.local.jars import JarStore, read_lock
from headgate.local.places import default_cache, find_configuration
from headgate.local.processes.class_archives import ClassArchives
from headgate.local.processes.parts import PLANS
from headgate.local.processes.ports import HOST, Port
from headgate.local.processes.probes import listens

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``free_ports``

from free_ports import free_port  # noqa: E402
from secure_kafka import secure_kafka  # noqa: E402

__all__ = ["secure_kafka"]

# Commands that are given a home of their own need not fetch the jars anew.
os.environ.setdefault("HEADGATE_CACHE", str(default_cache()))

_CALL_MILLISECONDS = 60_000
_MAIN = {
    Part.THRIFT1: "org.apache.hadoop.hbase.thrift.ThriftServer",
    Part.THRIFT2: "org.apache.hadoop.hbase.thrift2.ThriftServer",
}
_START_SECONDS = 180.0  # a JVM on a machine that is busy
_SHARED_SECONDS = 3 * _START_SECONDS  # HBase, then the Thrift servers; Kafka besides


class RunningStack:
    """Addresses of a running stack, the folder of its files, and tables in it."""

    def __init__(self, addresses: Addresses, folder: Path) -> None:
        self.folder = folder
        self.thrift1 = addresses.thrift1
        self.thrift2 = addresses.thrift2
        self.kafka = addresses.kafka
        self.zookeeper = addresses.zookeeper

    def table(self, name_prefix: str, families: Sequence[str] = ("f",), versions: int = 3) -> str:
        """Create a table that no other test has and return its name."""
        name = f"{name_prefix}_{uuid.uuid4().hex[:12]}"
        connection = self.happybase()
        try:
            connection.create_table(
                name, {family: {"max_versions": versions} for family in families}
            )
        finally:
            connection.close()
        return name

    def happybase(self) -> happybase.Connection:
        """Return a new connection to Thrift1 itself, past any proxy."""
        host, port = self.thrift1
        return happybase.Connection(host, port, timeout=_CALL_MILLISECONDS)


class Subscriber:
    """An agent's side of the topics: watches tables, asks for barriers and reads updates.

    Its control topic is its own, so that the observers of a test hear nobody else.
    """

    def __init__(self, kafka: str) -> None:
        self.kafka = kafka
        self.control_topic = f"headgate.control-{uuid.uuid4().hex[:12]}"
        self._producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
        self._revision = 0

    def send(self, message: ControlMessage) -> None:
        """Put a message on the control topic."""
        self._producer.produce(self.control_topic, encode_control(message), control_key(message))
        if self._producer.flush(_CALL_MILLISECONDS / 1000):
            words = f"Kafka at {self.kafka} does not take messages"
            raise AssertionError(words)

    def watch(self, *tables: str, marks: int = 1) -> None:
        """Watch exactly these tables, and wait until so many observers do."""
        self._revision += 1
        watches = tuple(Watch(table) for table in tables)
        self.send(WatchList(1, "tests", self._revision, watches))
        for table in tables:
            self.read(table, self.barrier(table), marks=marks)

    def barrier(self, *tables: str) -> str:
        """Ask for a barrier and return its id."""
        name = uuid.uuid4().hex
        self.send(BarrierRequest(1, name, tables, "tests"))
        return name

    def read(
        self, table: str, until: str, *, marks: int = 1, seconds: float = 60.0
    ) -> list[list[UpdateMessage]]:
        """Return, by partition, the messages of a table's topic up to ``marks`` marks of a barrier.

        Raises:
            AssertionError: the marks did not come in time.
        """
        topic = updates_topic(table)
        consumer = Consumer(
            {"bootstrap.servers": self.kafka, "group.id": "tests", "enable.auto.commit": False}
        )
        deadline = time.monotonic() + seconds
        try:
            partitions: list[Any] = []
            while not partitions:
                assert time.monotonic() < deadline, f"there is no topic {topic}"
                found = consumer.list_topics(timeout=10).topics.get(topic)
                partitions = list(found.partitions) if found is not None else []
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            messages: list[list[UpdateMessage]] = [[] for _ in partitions]
            missing = [marks] * len(partitions)
            while any(missing):
                assert time.monotonic() < deadline, f"barrier {until} of {topic} did not come"
                for record in consumer.consume(500, 0.5):
                    partition = record.partition()
                    if record.error() is not None or not missing[partition]:
                        continue
                    message = decode_update(record.value())
                    messages[partition].append(message)
                    if isinstance(message, BarrierMark) and message.id == until:
                        missing[partition] -= 1
            return messages
        finally:
            consumer.close()


class ThriftServer:
    """One server, which the test may stop, freeze, kill and start again on its port."""

    def __init__(
        self, command: list[str], environment: dict[str, str], log: Path, port: int
    ) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.address = Address(HOST, port)
        """Where it listens."""

    def __str__(self) -> str:
        return str(self.address)

    def start(self) -> None:
        """Start it; ``await_ready`` returns once it listens."""
        self._process = start_process(
            self._command, self._environment, self._log, Lifetime.WITH_CALLER
        )

    def await_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not listens(self.address.port):
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline, f"{self} does not listen; see {self._log}"
            time.sleep(0.05)

    def restart(self) -> None:
        """Start it again after it was killed, and wait until it listens."""
        self.start()
        self.await_ready()

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def revive(self) -> None:
        """Let it run, whatever was done to it; ``await_ready`` returns once it listens."""
        if self._process is None:
            self.start()
        else:
            self.thaw()

    def freeze(self) -> None:
        """Let it hang: the kernel still takes connections for it."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


class ThriftServers:
    """Starts servers and ends them all."""

    def __init__(self, zookeeper: Address, directory: Path) -> None:
        self._directory = directory
        self._started: list[ThriftServer] = []
        source = find_configuration()
        self._conf = directory / "conf"
        self._conf.mkdir(parents=True)
        values = {f"{port.key}_port": "0" for port in Port}
        values |= {"data": str(directory), f"{Port.ZOOKEEPER.key}_port": str(zookeeper.port)}
        render(source, self._conf, values)
        self._jars = JarStore(default_cache()).provide(read_lock(source / "hbase"), lambda _: None)
        self._class_path = os.pathsep.join(str(path) for path in (*self._jars, self._conf))
        self._archives = ClassArchives(default_cache(), directory)

    def begin(self, part: Part, *options: str) -> ThriftServer:
        """Start THRIFT1 or THRIFT2 without waiting; an option is such as ``-nonblocking``."""
        port = free_port()
        java = find_java()
        command = [
            str(java.program),
            *self._archives.options(java, part.value, self._jars),
            f"-Djava.io.tmpdir={self._directory}",
            *PLANS[part].java,
            _MAIN[part],
            "start",
            "-b",
            HOST,
            "--infoport",
            "-1",
            "-p",
            str(port),
            *options,
        ]
        log = self._directory / f"{part.value}-{port}.log"
        server = ThriftServer(command, {**os.environ, "CLASSPATH": self._class_path}, log, port)
        self._started.append(server)
        server.start()
        return server

    def start(self, part: Part, *options: str) -> ThriftServer:
        """Start a server and wait until it listens; the arguments are those of ``begin``."""
        server = self.begin(part, *options)
        server.await_ready()
        return server

    def close(self) -> None:
        for server in self._started:
            server.kill()


LONGEST = (
    "test_demo.py",
    "test_conservation.py",
    "test_local_stack.py",
    "test_learned.py",
    "test_outages.py",
    "test_worker.py",
    "test_agent.py",
    "test_faults.py",
)
"""Files of tests that take a minute or more: they are begun first, so that no process is left alone
with one of them in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    places = [at for at, item in enumerate(items) if folder in item.path.parents]
    ordered = sorted(places, key=lambda at: items[at].path.name not in LONGEST)
    for at, item in zip(places, [items[at] for at in ordered], strict=True):
        items[at] = item


@pytest.fixture(scope="session")
def make_subscriber() -> type[Subscriber]:
    """For a stack of the test's own."""
    return Subscriber


@pytest.fixture
def subscriber(stack: RunningStack) -> Subscriber:
    return Subscriber(stack.kafka)


@pytest.fixture(scope="session")
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningStack]:
    shared = getattr(request.config, "workerinput", {}).get(KEY)
    named = os.environ.get("HEADGATE_TEST_STACK", shared)
    if named:
        yield _read_stack(Path(named))
        return
    private = LocalStack(tmp_path_factory.mktemp("stack"), "tests", lifetime=Lifetime.WITH_CALLER)
    try:
        yield RunningStack(private.up(), private.folder)
    finally:
        private.reset()  # nobody reads its data again: nothing has to end in order


def _read_stack(path: Path) -> RunningStack:
    deadline = time.monotonic() + _SHARED_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path}, the stack's addresses, does not come"
        time.sleep(0.1)
    written = json.loads(path.read_text())
    assert "error" not in written, written["error"]
    addresses = Addresses(
        thrift1=_address(written["thrift1"]),
        thrift2=_address(written["thrift2"]),
        kafka=str(_address(written["kafka"])),
        zookeeper=_address(written["zookeeper"]),
    )
    return RunningStack(addresses, Path(written["folder"]))


def _address(written: str) -> Address:
    host, _, port = written.rpartition(":")
    return Address(host, int(port))


@pytest.fixture(scope="session")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack whose parts may be killed; ``up`` starts again what is missing."""
    stack = LocalStack(tmp_path_factory.mktemp("fragile"), "faults", lifetime=Lifetime.WITH_CALLER)
    try:
        yield stack
    finally:
        stack.reset()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """End that stack after the last in a row of its tests: it idles at the price of a start."""
    try:
        return (yield)
    finally:
        if not isinstance(nextitem, pytest.Function) or "fragile" not in nextitem.fixturenames:
            used = item.funcargs.get("fragile") if isinstance(item, pytest.Function) else None
            if isinstance(used, LocalStack):
                used.reset()


@pytest.fixture
def addresses(fragile: LocalStack) -> Addresses:
    return fragile.up()


@pytest.fixture
def fragile_stack(addresses: Addresses, fragile: LocalStack) -> RunningStack:
    """The stack that may be killed, as tests see the shared one."""
    return RunningStack(addresses, fragile.folder)


@pytest.fixture(scope="module")
def thrift_servers(
    stack: RunningStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThriftServers]:
    """Start further Thrift servers of the stack's HBase; they end with the module."""
    servers = ThriftServers(stack.zookeeper, tmp_path_factory.mktemp("thrift-servers"))
    try:
        yield servers
    finally:
        servers.close()
