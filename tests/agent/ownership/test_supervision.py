"""A thread of each kind is ended by an error that nobody expects, at work: what it did goes on."""

from __future__ import annotations

import ast
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from simulation import SEALS, MemoryRows

from headgate.agent import supervision
from headgate.agent.advisers import metrics
from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.api.access import connections
from headgate.agent.configuration import Kafka, Resources
from headgate.agent.kafka import broker as brokers
from headgate.agent.kafka import feed as feeds
from headgate.agent.kafka import retention as retentions
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.feed import KafkaFeed, Record
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.retention import RetentionKeeper
from headgate.agent.launchers.job import JobKey
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.local_jobs import Over
from headgate.agent.launchers.warm import sessions
from headgate.agent.launchers.warm import spares as spare_sessions
from headgate.agent.launchers.warm.sessions import SessionLauncher
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership.leases import LeaseManager, LeaseSettings
from headgate.agent.ports import Extent
from headgate.agent.process import answer_requests
from headgate.agent.resources import sampling as samplings
from headgate.agent.resources.sampling import Sampling
from headgate.agent.scans.container_rows import RowsLimit
from headgate.agent.scans.hosting import ScanSettings, TableScans
from headgate.agent.scans.reader import TableScanner
from headgate.agent.scans.store import ScanStore
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.engine import MetricAnswers, MetricQuestions, encode_metrics
from headgate.events import (
    VERSION,
    Cut,
    Gap,
    MachineLoad,
    ObserverLease,
    encode_control,
    encode_machine,
    encode_update,
    updates_topic,
)
from headgate.spark import Ending, StartSession, StepEnded, WorkerReady

WAIT = 30.0  # seconds until something that must happen counts as missing
SOURCES = Path(supervision.__file__).parent
DATAFLOW = "name: flow\ncontainers: {c: t f:v}\nactions: {feed: {input: c}}\n"


class Faults:
    """Lets one call fail, after some that did not, with an error that no code is written for."""

    def __init__(self, after: int = 0) -> None:
        self._left = after
        self.done = threading.Event()

    def __call__(self) -> None:
        if self.done.is_set():
            return
        if self._left:
            self._left -= 1
            return
        self.done.set()
        raise TypeError("injected")


class Heard:
    """Which kinds of threads failed."""

    def __init__(self) -> None:
        self.kinds: list[ThreadKind] = []
        self.supervision = Supervision(self.kinds.append, lambda failures: 0.001 * failures)


def until(what: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + WAIT
    tick = threading.Event()
    while not what():
        assert time.monotonic() < deadline, words
        tick.wait(0.001)


class Message:
    """A record of Kafka."""

    def __init__(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        self._place = (topic, partition, offset)
        self._value = value

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def error(self) -> None:
        return None


class Log:
    """A topic of one partition, and consumers of it that fail once."""

    def __init__(self, topic: str, values: Sequence[bytes | None], faults: Faults) -> None:
        self._topic = topic
        self._values = values
        self._faults = faults
        self.opened = 0

    def __call__(self, _: object) -> Any:
        self.opened += 1
        return SimpleNamespace(
            assign=self._assign,
            poll=self._poll,
            consume=lambda most, _=0.0: self._consume(most),
            subscribe=self._subscribe,
            get_watermark_offsets=lambda _, **__: None,
            close=lambda: None,
        )

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._next = max(0, partitions[0].offset)

    def _subscribe(self, _: object, on_assign: Any, **__: Any) -> None:
        self._next = 0
        on_assign(None, [TopicPartition(self._topic, part) for part in range(16)])

    def _poll(self, _: float) -> Message | None:
        self._faults()
        if self._next == len(self._values):
            return None
        self._next += 1
        return Message(self._topic, 0, self._next - 1, self._values[self._next - 1])

    def _consume(self, most: int) -> list[Message]:
        found = []
        while len(found) < min(most, 2) and (message := self._poll(0)) is not None:
            found.append(message)
        return found


Stage = Callable[[Heard, pytest.MonkeyPatch, Path], None]


def a_feed(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Every record is taken, those under way at the error included."""
    gap = encode_update(Gap(VERSION, "o", 1, 0, "t", 0.0, 1.0, "test"))
    values = [gap, None, *[gap] * 20]
    patch.setattr(feeds, "Consumer", Log("t", values, Faults(after=9)))
    taken: list[Record] = []

    def deliver(records: Sequence[Record]) -> bool:
        taken.extend(records)
        return True

    feed = KafkaFeed({}, {"t": 1}, Cut({"t": (0,)}), deliver, heard.supervision)
    until(lambda: {r.offset for r in taken} == set(range(len(values))), "records are missing")
    feed.close()
    assert {r.offset for r in taken if r.message is None} == {1}


def the_control_topic(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Leases are heard on, and the message at which it failed is not met again."""
    leases = [
        encode_control(ObserverLease(VERSION, f"o{n}", 1, 1e9, {})) if n != 3 else b"damaged"
        for n in range(8)
    ]
    patch.setattr(brokers, "Consumer", Log("control", leases, Faults(after=4)))
    observers = ObserverTable(0.0)
    broker = KafkaBroker(Kafka("127.0.0.1:1"), observers, heard.supervision, lambda _: None)
    broker._reader.start()
    until(lambda: len(observers.live(time.time())) == 7, "leases are missing")
    broker.halt()
    broker._reader.join()


class Runtimes:
    """Runtimes that do nothing but run; whether one fails is up to the test."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.built = 0

    def build(self, hosted: Any, ownership: Any, dataflow: Any) -> Any:
        self.built += 1

        def tick(_: float) -> None:
            self.faults()

        return SimpleNamespace(
            definition=ownership.definition,
            start=lambda now: None,
            due=lambda: time.time() + 0.01,
            tick=tick,
            drain=lambda: None,
            idle=True,
            stop=lambda now, save: None,
        )


class Group:
    """A state table with one dataflow, and an agent that takes it over."""

    def __init__(
        self,
        heard: Heard,
        *,
        runtime: Faults | None = None,
        poll: Faults | None = None,
        listing: Faults | None = None,
        renewal: Faults | None = None,
    ) -> None:
        store = StateStore(MemoryRows(), SEALS, RememberedRevisions())
        store.define(Definition("flow", DATAFLOW, ".", 0, 1.0))
        self.renewed = threading.Event()
        listings, renew = store.listings, store.renew

        def listings_or_fault() -> Any:
            if listing is not None:
                listing()
            return listings()

        def renew_or_fault(*arguments: Any) -> None:
            if renewal is not None:
                renewal()
            renew(*arguments)
            self.renewed.set()

        store.listings = listings_or_fault  # type: ignore[method-assign]
        store.renew = renew_or_fault  # type: ignore[method-assign]
        self.runtimes = Runtimes(runtime or never())
        self.log = Log("flows", [], poll or never())
        self.halting = threading.Event()
        self.leases = LeaseManager(
            LeaseSettings(
                store=store,
                broker=SimpleNamespace(flow_partitions=16, group=self.log),
                group="g",
                owner=Owner("agent", "1", ""),
                lease=0.3,
                build=self.runtimes.build,
                refusal=lambda dataflow, definition: None,
                ended=lambda name: None,
                supervision=heard.supervision,
            ),
            self.halting,
        )
        self.leases.start()

    def until_hosted(self, *, again: bool = False) -> None:
        times = 2 if again else 1
        until(
            lambda: self.runtimes.built >= times and self.leases.hosted("flow") is not None,
            "the dataflow does not run",
        )

    def stop(self) -> None:
        self.leases.stop(0.0)
        assert self.leases.join(WAIT)
        self.halting.set()
        self.leases.close()


def never() -> Faults:
    faults = Faults()
    faults.done.set()
    return faults


def a_dataflow(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """It is taken again, and meanwhile nothing says that it runs."""
    group = Group(heard, runtime=Faults(after=3))
    group.until_hosted(again=True)
    group.stop()


def membership(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """It joins the group again."""
    group = Group(heard, poll=Faults(after=2))
    until(lambda: group.log.opened == 2, "it has not joined again")
    group.until_hosted()
    group.stop()


def adopting(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The dataflow is taken all the same."""
    group = Group(heard, listing=Faults())
    group.until_hosted()
    group.stop()


def leases(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The lease is renewed the next time."""
    group = Group(heard, renewal=Faults())
    assert group.renewed.wait(WAIT)
    group.stop()


def a_scan(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The scans of the table begin again."""
    faults = Faults()
    begun = threading.Event()

    def topics(tables: Sequence[str]) -> dict[str, int]:
        faults()
        return {updates_topic(table): 1 for table in tables}

    def feed(*_: Any) -> Any:
        begun.set()
        return SimpleNamespace(close=lambda: None)

    scans = TableScans(
        ScanSettings(
            store=ScanStore(MemoryRows(), SEALS),
            broker=SimpleNamespace(
                topics=topics,
                ends=lambda topics: Cut(dict.fromkeys(topics, (0,))),
                feed=feed,
                control=lambda _: None,
            ),
            reader=SimpleNamespace(),
            observers=ObserverTable(0.0),
            owner=Owner("agent", "1", ""),
            requester="agent",
            rows=10,
            window=1000,
            clock_skew=0.0,
            barrier_repeat=1.0,
            lease=10.0,
            metrics=AgentMetrics(),
            supervision=heard.supervision,
        )
    )
    scans.want("flow", {"t": Extent(10.0)})
    assert begun.wait(WAIT)
    scans.close()


def reading(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """Whoever waits for cells has them; until then it is told what is wrong."""
    faults = Faults()
    told: list[str | None] = []

    def call(what: Any, patience: float) -> Any:
        if faults.done.is_set():
            told.append(scanner.trouble("t"))
        faults()
        return "cells"

    answers: queue.Queue[Any] = queue.Queue()
    scanner = TableScanner(SimpleNamespace(call=call), heard.supervision, RowsLimit(10, 1000))
    scanner.read("t", [b"r"], [b"f:v"], answers.put)
    assert answers.get(timeout=WAIT) == "cells"
    scanner.close()
    assert told == ["TypeError: injected"]
    assert scanner.trouble("t") is None


def sampled(
    heard: Heard,
    patch: pytest.MonkeyPatch,
    resources: Resources,
    values: Sequence[bytes],
    **at: Any,
) -> list[str]:
    patch.setattr(samplings, "MachineSampler", lambda name: SimpleNamespace(sample=at["own"]))
    patch.setattr(samplings, "SparkExecutors", lambda _: at["driver"])
    told: queue.Queue[Any] = queue.Queue()
    log = Log("machines", values, at["poll"])
    sampling = Sampling(resources, lambda: log({}), told.put, heard.supervision)
    sampling.start()
    found = []
    while not found:
        found = [sample.machine for sample in told.get(timeout=WAIT)]
    sampling.stop()
    return found


LOAD = MachineLoad(VERSION, "m1", 1.0, 0.5)


def resources(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Samples reach dataflows."""
    faults = Faults()

    def own() -> MachineLoad:
        faults()
        return LOAD

    assert sampled(
        heard, patch, Resources(every_seconds=0.01), [], own=own, driver=None, poll=never()
    )


def sensors(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """What sensors publish later is heard."""
    settings = Resources(every_seconds=0.01, own=False)
    values = [encode_machine(LOAD)] * 5
    assert sampled(heard, patch, settings, values, own=None, driver=None, poll=Faults()) == ["m1"]


def executors(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Drivers are asked again."""
    faults = Faults()

    def samples(now: float) -> list[Any]:
        if not faults.done.is_set():
            faults.done.set()
            raise AttributeError("injected")
        return [samplings.resource_sample(LOAD, now)]

    driver = SimpleNamespace(address="a", samples=samples, close=lambda: None)
    settings = Resources(every_seconds=0.01, own=False, spark=("http://a",))
    assert sampled(heard, patch, settings, [], own=None, driver=driver, poll=never()) == ["m1"]


def a_session(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """Its worker is started once more."""
    started = threading.Event()
    faults = Faults()

    def worker(*_: Any, on_exit: Callable[[int], None], **__: Any) -> Any:
        faults()
        started.set()
        end = lambda *_: on_exit(0)  # noqa: E731
        return SimpleNamespace(kill=end, stop=end, log="log")

    patch.setattr(sessions, "SessionWorker", worker)
    launcher = SessionLauncher(
        StartSession({}), directory, sys.executable, WAIT, lambda _: None, heard.supervision
    )
    assert started.wait(WAIT)
    launcher.close()


def spares(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """A session is started once more, and taken."""
    faults = Faults()
    told: list[Any] = []

    def worker(*_: Any, on_reply: Callable[[Any], None], **__: Any) -> Any:
        faults()
        threading.Thread(target=on_reply, args=(WorkerReady(1, "4", 0.1),)).start()
        adopt = lambda adopted, **_: told.append(adopted)  # noqa: E731
        return SimpleNamespace(pid=1, adopt=adopt, stop=lambda _: None)

    patch.setattr(spare_sessions, "SessionWorker", worker)
    kept = SpareSessions(1, StartSession({}), directory, sys.executable, WAIT, heard.supervision)
    kept.start()
    until(lambda: kept.warm == 1, "no session was warm")
    calls = {"on_reply": lambda _: None, "on_exit": lambda _: None}
    assert kept.take(StartSession({}), directory, **calls) is not None
    assert told
    kept.close()


def retention(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Topics are looked at again."""
    patch.setattr(retentions, "_LOOK", 0.001)
    faults = Faults()
    looked = threading.Event()

    def found(_: Any) -> dict[str, Any]:
        faults()
        looked.set()
        return {}

    topics: Any = SimpleNamespace(retentions=found)
    keeper = RetentionKeeper(MemoryRows(), topics, 100.0, heard.supervision)
    keeper.start()
    assert looked.wait(WAIT)
    keeper.close()


def jobs(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """A job that cannot be looked at once is looked at again; how it ended is told."""
    faults = Faults()
    key = JobKey("run", 1)

    def poll(_: JobKey) -> Over:
        faults()
        return Over(StepEnded("run", 1, Ending.COMMITTED, 1.0), claimed=False)

    reports: queue.Queue[Any] = queue.Queue()
    fake = SimpleNamespace(launch=lambda job: None, poll=poll, leaving=lambda: False)
    launcher = JobsLauncher(fake, reports.put, heard.supervision, "flow")
    launcher.start(SimpleNamespace(key=key))
    assert reports.get(timeout=WAIT).ending is Ending.COMMITTED
    launcher.close()


def users_metrics(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """What was asked when the thread failed is answered all the same, and what comes later."""
    faults = Faults()

    def decoded(question: bytes) -> MetricQuestions:
        faults()
        return MetricQuestions([])

    patch.setattr(metrics, "decode_metric_questions", decoded)
    told: queue.Queue[Any] = queue.Queue()
    adviser = MetricAdviser("flow", sys.executable, directory, 1, 1, 0, heard.supervision)
    for _ in range(2):
        adviser.answer(b"", lambda answer, reason: told.put((answer, reason)))
    for _ in range(2):
        assert told.get(timeout=WAIT) == (encode_metrics(MetricAnswers([])), "")
    adviser.close()


def the_api(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The process is told to end: what cannot be asked must not look alive."""
    ending = threading.Event()
    faults = Faults()
    with socket.socket() as listener:
        server = SimpleNamespace(run=lambda _: faults())
        work = lambda: answer_requests(server, listener, ending)  # noqa: E731
        thread = heard.supervision.thread(ThreadKind.API, "api", work, ending)
        thread.start()
        thread.join(WAIT)
    assert ending.is_set()


def certificates(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Those that are renewed after a fault are loaded all the same."""
    patch.setattr(connections, "_LOOK", 0.0)
    faults = Faults()
    ending = threading.Event()

    def changed() -> bool:
        faults()
        return True

    renewed = SimpleNamespace(changed=changed, reload=ending.set)
    thread = heard.supervision.thread(
        ThreadKind.CERTIFICATES,
        "certificates",
        lambda: connections.follow_files([renewed], ending),
        ending,
    )
    thread.start()
    thread.join(WAIT)
    assert ending.is_set()


STAGES: Mapping[ThreadKind, Stage] = {
    ThreadKind.CONTROL: the_control_topic,
    ThreadKind.FEED: a_feed,
    ThreadKind.FLOW: a_dataflow,
    ThreadKind.SCAN: a_scan,
    ThreadKind.READ: reading,
    ThreadKind.GROUP: membership,
    ThreadKind.ADOPT: adopting,
    ThreadKind.LEASES: leases,
    ThreadKind.RESOURCES: resources,
    ThreadKind.SENSORS: sensors,
    ThreadKind.EXECUTORS: executors,
    ThreadKind.SESSION: a_session,
    ThreadKind.SPARES: spares,
    ThreadKind.JOBS: jobs,
    ThreadKind.METRICS: users_metrics,
    ThreadKind.RETENTION: retention,
    ThreadKind.CERTIFICATES: certificates,
    ThreadKind.API: the_api,
}


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.mark.parametrize("kind", ThreadKind)
def test_a_thread_that_an_error_ends_is_heard_of_and_its_work_goes_on(
    kind: ThreadKind, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    STAGES[kind](heard, monkeypatch, tmp_path)
    assert heard.kinds == [kind]
    assert heard.supervision.trouble is None


def test_all_threads_of_the_agent_are_made_where_they_are_supervised() -> None:
    """One that is made elsewhere has no owner: give it a kind, and a line in the list above."""
    made = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"Thread", "Timer", "ThreadPoolExecutor"}
    }
    # The thread of a dataflow is not begun again: its owner makes another, from the checkpoint.
    assert made == {"supervision.py", "ownership/dataflow_thread.py"}


def test_what_fails_again_and_again_waits_longer_each_time_and_says_so() -> None:
    pauses: list[int] = []
    seen: list[str | None] = []
    left = iter(range(3))

    def pause(failures: int) -> float:
        pauses.append(failures)
        seen.append(keeper.trouble)
        return 0.0

    def work() -> None:
        for _ in left:
            raise RuntimeError("again")

    keeper = Supervision(lambda _: None, pause)
    thread = keeper.thread(ThreadKind.READ, "one", work, threading.Event())
    thread.start()
    thread.join(WAIT)
    assert pauses == [1, 2, 3]
    assert seen == ["thread one: RuntimeError: again"] * 3
    assert keeper.trouble is None


def test_whatever_it_is_but_the_wish_to_end_begins_the_work_anew() -> None:
    errors = [KeyboardInterrupt(), RecursionError(), GeneratorExit(), SystemExit(), TypeError()]
    heard: list[ThreadKind] = []

    def work() -> None:
        raise errors.pop(0)

    keeper = Supervision(heard.append, lambda _: 0.0)
    thread = keeper.thread(ThreadKind.SCAN, "one", work, threading.Event())
    thread.start()
    thread.join(WAIT)
    assert len(heard) == 3
    assert len(errors) == 1
