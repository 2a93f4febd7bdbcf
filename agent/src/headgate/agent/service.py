"""The agent: takes dataflows over, runs them, and hands them on."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

import structlog
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from headgate.agent.admission import Admission
from headgate.agent.attempts import session_start
from headgate.agent.broker import KafkaBroker
from headgate.agent.cell_storage import CellStorage
from headgate.agent.configuration import AgentConfiguration
from headgate.agent.errors import AgentError, Fenced, Held, Refused, Unreachable
from headgate.agent.hosting import Hosted
from headgate.agent.launchers import AttendedJobs, FlowLaunchers, JobsLauncher
from headgate.agent.measures import Measures
from headgate.agent.notify_families import NotifyFamilies
from headgate.agent.observers import ObserverTable
from headgate.agent.rows import HBaseConnections, HBaseRows
from headgate.agent.runtime import Runtime
from headgate.agent.sampling import Sampling
from headgate.agent.scan_hosting import ScanSettings, TableScans
from headgate.agent.scan_store import ScanStore
from headgate.agent.scans import TableScanner
from headgate.agent.sessions import SessionLauncher
from headgate.agent.store import (
    DamagedState,
    Definition,
    Listing,
    Owner,
    Ownership,
    RunRecord,
    SavedState,
    StateStore,
    check_name,
)
from headgate.agent.surroundings import Surroundings
from headgate.agent.table_scan import Extent
from headgate.engine import ResourceSample
from headgate.events import FLOWS_TOPIC, NOTIFY_FAMILY, partition_of
from headgate.flows import Dataflow, DataflowErrors, parse_dataflow
from headgate.settings import parse_address
from headgate.spark import RunKey, RunLedger, RunState, Thrift2Address

log = structlog.get_logger("headgate.agent")

T = TypeVar("T")

_ANSWER = 10.0  # seconds an answer of a dataflow's thread may take before the API says what it does
_AGAIN = 1.0  # seconds until a dataflow that could not start is tried again
_POLL = 0.1  # seconds a thread may take to notice that it shall stop


class FlowRow(Struct, frozen=True):
    """A dataflow as any agent can list it."""

    name: str
    revision: int
    submitted: float
    owner: str
    """Empty where no agent has it."""
    address: str
    until: float
    epoch: int
    here: bool
    state: str
    words: str
    profile: str | None = None
    shadow: bool = False


class _FlowStore:
    """The state store as one dataflow's owner uses it."""

    def __init__(self, store: StateStore, name: str, epoch: int) -> None:
        self._store = store
        self._name = name
        self._epoch = epoch

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """See ``runtime.Store``."""
        self._store.save(self._name, self._epoch, state, records, now)

    def trim(self, newest: int) -> None:
        """See ``runtime.Store``."""
        self._store.trim(self._name, newest)


class _HBaseLedger:
    """The run ledger through the agent's connections."""

    def __init__(self, connections: HBaseConnections, table: str) -> None:
        self._connections = connections
        self._table = table

    def state(self, key: RunKey) -> RunState:
        """See ``seams.Ledger``."""
        return self._connections.call(lambda c: RunLedger(c, self._table).state(key))

    def forget(self, key: RunKey) -> None:
        """See ``seams.Ledger``."""
        self._connections.call(lambda c: c.delete(self._table, [key.row]))


class _Observation:
    """The scans of the agent, as one dataflow asks for them."""

    def __init__(self, scans: TableScans, dataflow: str) -> None:
        self._scans = scans
        self._dataflow = dataflow

    def want(self, extents: Mapping[str, Extent]) -> None:
        """See ``seams.Observation``."""
        self._scans.want(self._dataflow, extents)

    def withdraw(self, tables: Sequence[str]) -> None:
        """See ``seams.Observation``."""
        self._scans.withdraw(self._dataflow, tables)


class _Families:
    """The families of notify columns, as one dataflow asks for them."""

    def __init__(self, families: NotifyFamilies, dataflow: str) -> None:
        self._families = families
        self._dataflow = dataflow

    def provide(self, tables: Iterable[str]) -> frozenset[str]:
        """See ``seams.Families``."""
        return self._families.provide(self._dataflow, tables)

    def drop(self, tables: Collection[str]) -> None:
        """See ``seams.Families``."""
        self._families.drop(self._dataflow, tables)


class Agent:
    """One agent process.

    Args:
        configuration: what it was told.
        address: where its API listens, as others reach it.
    """

    def __init__(self, configuration: AgentConfiguration, address: str) -> None:
        self.configuration = configuration
        self.measures = Measures()
        self.owner = Owner(configuration.owner, uuid.uuid4().hex, address)
        self.observers = ObserverTable(configuration.barriers.grace_seconds)
        self._stopping = threading.Event()
        self._halting = threading.Event()
        host, port = parse_address(configuration.hbase.thrift2)
        self._hbase = Thrift2Address(host, port)
        self._connections = HBaseConnections(host, port, self._halting)
        self._rows = HBaseRows(self._connections, configuration.hbase.state_table)
        self.store = StateStore(self._rows, configuration.history)
        self._ledger = _HBaseLedger(self._connections, configuration.hbase.state_table)
        self._scanner = TableScanner(self._connections)
        self._broker = KafkaBroker(configuration.kafka, self.observers.hear)
        self._scans = TableScans(
            ScanSettings(
                store=ScanStore(self._rows),
                broker=self._broker,
                reader=self._scanner,
                observers=self.observers,
                owner=self.owner,
                requester=f"agent/{self.owner.incarnation[:12]}",
                rows=configuration.scans.rows,
                clock_skew=configuration.scans.clock_skew_seconds,
                barrier_repeat=configuration.barriers.repeat_seconds,
                lease=configuration.lease_seconds,
                measures=self.measures,
            )
        )
        self._admission = Admission(configuration.launchers.concurrency)
        self._families = NotifyFamilies(self._connections, self._rows)
        self._sampling = Sampling(
            configuration.resources, self._broker.bystander, self._tell_resources
        )
        self._hosted: dict[str, Hosted] = {}
        self._epochs: dict[str, int] = {}
        self._removing: set[str] = set()
        self._standing_by: dict[str, Held] = {}
        self._broken: dict[str, tuple[int, str]] = {}
        self._assigned: set[int] = set()
        self._lock = threading.RLock()
        self._look = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch_flows, name="flows", daemon=True),
            threading.Thread(target=self._adopt_flows, name="adopt", daemon=True),
            threading.Thread(target=self._renew_leases, name="leases", daemon=True),
        ]

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for HBase and Kafka and begin to take dataflows over.

        Raises:
            Unreachable: one of them did not answer in the configured time.
        """
        patience = self.configuration.start_seconds
        self._rows.create(patience)
        self._broker.start(patience, machines=self.configuration.resources.topic)
        self._sampling.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let steps under way end, save everything, stop workers and hand the dataflows over."""
        self._stopping.set()
        self._look.set()
        self._sampling.stop()
        with self._lock:
            hosted = list(self._hosted.values())
        for flow in hosted:
            flow.stop(self.configuration.shutdown_seconds)
        # An end needs HBase: without it nothing more is saved, and leases run out by themselves.
        patience = threading.Timer(self.configuration.shutdown_seconds + 5.0, self._halting.set)
        patience.daemon = True
        patience.start()
        for flow in hosted:
            flow.join()
        self._scans.close()
        self._halting.set()
        patience.cancel()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._scanner.close()
        self._broker.stop()
        self._connections.close()

    # -- what the API asks -----------------------------------------------------------------------

    def trouble(self) -> str | None:
        """Return what keeps the agent from working, in words; None when all is well."""
        return self._connections.trouble

    def hosted(self, name: str) -> Hosted | None:
        """Return the dataflow if this agent runs it."""
        with self._lock:
            flow = self._hosted.get(name)
        return flow if flow is not None and flow.alive else None

    def hosted_count(self) -> int:
        """Return how many dataflows run here."""
        with self._lock:
            return len(self._hosted)

    def call(
        self, flow: Hosted, work: Callable[[Runtime, float], T], seconds: float = _ANSWER
    ) -> T:
        """Do something on a dataflow's thread and return the result.

        Raises:
            Refused: the dataflow does not allow it.
            Unreachable: its thread did not answer in time, because HBase or Kafka is away.
        """
        future: Future[T] = flow.call(work)
        try:
            return future.result(seconds)
        except FutureTimeout as error:
            future.cancel()
            raise Unreachable(
                f"dataflow {flow.name} does not answer: {self.trouble() or 'it is busy'}"
            ) from error

    def parse(
        self, source: str, file: str, profile: str | None, name: str | None = None
    ) -> Dataflow:
        """Read a dataflow file's text; ``name`` is that of the instance, None for the file's own.

        Raises:
            DataflowErrors: the file is not in order.
        """
        dataflow = parse_dataflow(source, file, profile, name)
        check_name(dataflow.name)
        return dataflow

    def check_tables(self, dataflow: Dataflow, known: Collection[str] = ()) -> None:
        """Refuse a dataflow over tables that do not exist, those apart that are known already.

        Raises:
            Refused: a table does not exist.
        """
        tables = [table for table in tables_of(dataflow) if table not in known]
        missing = self._connections.call(
            lambda c: [table for table in tables if not c.table_exists(table)], _ANSWER
        )
        if missing:
            names = ", ".join(repr(table) for table in missing)
            raise Refused(
                f"HBase has no table {names}; create it with its column families first, in the "
                f"HBase shell: create {missing[0]!r}, 'family'; or submit with "
                "--allow-missing-tables if something creates it later"
            )

    def define(self, dataflow: Dataflow, directory: str, *, shadow: bool) -> Definition:
        """Save a submitted dataflow and wake the agent that is to run it."""
        definition = self.store.define(
            Definition(
                dataflow.name,
                dataflow.source,
                directory,
                0,
                time.time(),
                dataflow.profile,
                shadow,
            )
        )
        self._broker.announce(dataflow.name)
        self._look.set()
        return definition

    def change(self, flow: Hosted, definition: Definition, dataflow: Dataflow) -> None:
        """Go on with another definition of a dataflow that runs here."""
        self.call(flow, lambda runtime, now: runtime.change(definition, dataflow, now))

    def remove(self, name: str) -> None:
        """Stop a dataflow that runs here and delete all that is known of it."""
        flow = self.hosted(name)
        if flow is None:
            raise Refused(f"dataflow {name} does not run here")
        gone = threading.Event()
        self.call(flow, lambda runtime, now: runtime.withdraw(gone.set, now))
        if not gone.wait(self.configuration.submit_seconds):
            log.warning(
                "the family of notify columns stays",
                dataflow=name,
                reason="an observer did not say that it sets them no more",
                cure=f"remove family {NOTIFY_FAMILY.decode()!r} of its tables in the HBase shell",
            )
        with self._lock:
            epoch = self._epochs[name]
            self._removing.add(name)
        try:
            flow.stop(0.0, save=False)
            flow.join()
            self.store.remove(name, epoch)
        finally:
            with self._lock:
                self._removing.discard(name)
        runs = RunKey(name, "", "").row.removesuffix(b"/")
        for row, _ in self._rows.scan(runs, runs[:-1] + b"0"):
            self._rows.delete(row)

    def rows(self) -> list[FlowRow]:
        """Return all dataflows, whoever runs them."""
        return [self._row(listing) for listing in self.store.listings()]

    def row(self, name: str) -> FlowRow:
        """Return one dataflow, whoever runs it.

        Raises:
            UnknownDataflow: there is none of that name.
        """
        return self._row(self.store.listing(name))

    def _row(self, listing: Listing) -> FlowRow:
        definition, lease = listing.definition, listing.lease
        name = definition.name
        flow = self.hosted(name)
        state, words = "waiting", "no agent has it yet"
        owned = lease.owner is not None and lease.until > time.time()
        if name in self._broken and self._broken[name][0] == definition.revision:
            state, words = "failed", self._broken[name][1]
        elif flow is not None:
            try:
                status = self.call(flow, lambda runtime, now: runtime.status(now), 1.0)
                state, words = status.phase.value, status.words
            except (Unreachable, Refused) as error:
                state, words = "waiting", str(error)
        elif owned and lease.owner == self.owner:
            words = "this agent is taking it over"
        elif owned and lease.owner is not None:
            state, words = "elsewhere", f"with agent {lease.owner.name}"
        return FlowRow(
            name=name,
            revision=definition.revision,
            submitted=definition.submitted,
            owner=lease.owner.name if lease.owner is not None and owned else "",
            address=lease.owner.address if lease.owner is not None and owned else "",
            until=lease.until,
            epoch=lease.epoch,
            here=flow is not None,
            state=state,
            words=words,
            profile=definition.profile,
            shadow=definition.shadow,
        )

    def refresh_measures(self) -> None:
        """Set the gauges that are asked for rather than counted."""
        with self._lock:
            hosted = dict(self._hosted)
        self.measures.owned.set(len(hosted))
        self.measures.observers.set(len(self.observers.live(time.time())))
        for flow in hosted.values():
            try:
                self.call(flow, lambda runtime, now: runtime.measure(now), 1.0)
            except AgentError as error:
                log.info("not measured", dataflow=flow.name, reason=str(error))

    def _tell_resources(self, samples: tuple[ResourceSample, ...]) -> None:
        with self._lock:
            hosted = list(self._hosted.values())
        for flow in hosted:
            flow.post_samples(samples)

    # -- taking over -----------------------------------------------------------------------------

    def _watch_flows(self) -> None:
        """Be a member of the group: it says which partitions' dataflows this agent may take."""
        consumer = self._broker.group(self.configuration.kafka.group)

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            with self._lock:
                self._assigned |= {p.partition for p in partitions}
            self._look.set()

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            # What runs here stays here while this agent lives: moving it would cost a warm session.
            with self._lock:
                self._assigned -= {p.partition for p in partitions}

        try:
            consumer.subscribe(
                [FLOWS_TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked
            )
            while not self._stopping.is_set():
                message = consumer.poll(_POLL)
                if message is None:
                    continue
                if message.error() is not None:
                    log.warning("flows topic", problem=str(message.error()))
                else:
                    self._look.set()
        finally:
            consumer.close()

    def _adopt_flows(self) -> None:
        """Take over dataflows that are this agent's to take and that nobody else runs."""
        while not self._stopping.is_set():
            self._look.wait(self.configuration.lease_seconds / 3)
            self._look.clear()
            if self._stopping.is_set():
                return
            try:
                listings = self.store.listings()
            except AgentError as error:
                log.warning("dataflows not looked through", reason=str(error))
                continue
            for listing in listings:
                if self._mine(listing.definition):
                    self._try(listing)

    def _try(self, listing: Listing) -> None:
        try:
            self._adopt(listing)
        except DamagedState as error:
            self._broken[listing.definition.name] = (listing.definition.revision, str(error))
            log.warning("not taken", dataflow=listing.definition.name, reason=str(error))
        except AgentError as error:
            log.warning("not taken", dataflow=listing.definition.name, reason=str(error))

    def _mine(self, definition: Definition) -> bool:
        name = definition.name
        broken = self._broken.get(name)
        with self._lock:
            return (
                partition_of(name.encode(), self._broker.flow_partitions) in self._assigned
                and name not in self._hosted
                and name not in self._removing
                and (broken is None or broken[0] != definition.revision)
            )

    def _adopt(self, listing: Listing) -> None:
        name = listing.definition.name
        try:
            ownership = self.store.acquire(
                name, self.owner, time.time(), self.configuration.lease_seconds
            )
        except Held as held:
            if name not in self._standing_by:
                log.info(
                    "standing by",
                    dataflow=name,
                    owner=held.owner,
                    owner_address=held.address,
                    seconds=round(held.until - time.time(), 1),
                )
            self._standing_by[name] = held
            return
        held_before = self._standing_by.pop(name, None)
        log.info(
            "taken over" if held_before else "taken",
            dataflow=name,
            epoch=ownership.epoch,
            former=held_before.owner if held_before else None,
        )
        try:
            definition = ownership.definition
            dataflow = parse_dataflow(definition.source, name, definition.profile, name)
        except DataflowErrors as error:
            self._broken[name] = (ownership.definition.revision, f"its definition: {error}")
            self.store.release(name, ownership.epoch)
            return
        flow = Hosted(
            name, lambda hosted: self._build(hosted, ownership, dataflow), self._flow_ended
        )
        with self._lock:
            self._epochs[name] = ownership.epoch
            self._hosted[name] = flow
        flow.begin()

    def _build(self, hosted: Hosted, ownership: Ownership, dataflow: Dataflow) -> Runtime:
        configuration = self.configuration
        directory = configuration.workers.path / dataflow.name
        launcher = FlowLaunchers(
            SessionLauncher(
                session_start(dataflow, ownership.definition),
                directory,
                configuration.workers.python,
                configuration.workers.start_seconds,
                hosted.post_report,
            ),
            JobsLauncher(
                AttendedJobs(directory / "jobs", configuration.history), hosted.post_report
            ),
            configuration.workers,
            configuration.launchers,
        )
        try:
            return Runtime(
                ownership,
                dataflow,
                Surroundings(
                    store=_FlowStore(self.store, dataflow.name, ownership.epoch),
                    broker=self._broker,
                    storage=CellStorage(configuration.cells.memory, configuration.cells.path),
                    launcher=launcher,
                    admission=self._admission,
                    ledger=self._ledger,
                    scanner=self._scanner,
                    observation=_Observation(self._scans, dataflow.name),
                    families=_Families(self._families, dataflow.name),
                    observers=self.observers,
                    measures=self.measures.of(dataflow.name),
                    requester=f"agent/{self.owner.incarnation[:12]}",
                    hbase=self._hbase,
                    kafka=configuration.kafka.bootstrap,
                    kafka_properties=configuration.kafka.properties,
                    ledger_table=configuration.hbase.state_table,
                    checkpoint_seconds=configuration.checkpoint_seconds,
                    barrier_repeat=configuration.barriers.repeat_seconds,
                    history=configuration.history,
                    post=hosted.post,
                    deliver=hosted.deliver,
                ),
            )
        except Exception:
            launcher.close()
            raise

    def _flow_ended(self, flow: Hosted, error: Exception | None) -> None:
        self._scans.rest(flow.name)
        with self._lock:
            epoch = self._epochs.get(flow.name)
            if self._hosted.get(flow.name) is flow:
                del self._hosted[flow.name]
                self._epochs.pop(flow.name, None)
        if error is not None and not isinstance(error, AgentError):
            # The same would happen again at once; a new submit is a new attempt.
            listing = self.store.listing(flow.name)
            self._broken[flow.name] = (
                listing.definition.revision,
                f"{type(error).__name__}: {error}",
            )
        elif error is not None:
            # Kafka or HBase was away: look again soon, not at once.
            again = threading.Timer(_AGAIN, self._look.set)
            again.daemon = True
            again.start()
        if epoch is None or isinstance(error, Fenced) or not flow.saves:
            return
        try:
            self.store.release(flow.name, epoch)
        except AgentError as problem:
            log.warning("lease not released", dataflow=flow.name, reason=str(problem))

    def _renew_leases(self) -> None:
        while not self._halting.wait(self.configuration.lease_seconds / 3):
            with self._lock:
                owned = dict(self._epochs)
            for name, epoch in owned.items():
                until = time.time() + self.configuration.lease_seconds
                try:
                    self.store.renew(name, epoch, self.owner, until)
                except Fenced as error:
                    flow = self.hosted(name)
                    if flow is not None:
                        log.warning("taken over", dataflow=name, reason=str(error))
                        flow.stop(0.0, save=False)
                except Unreachable as error:
                    log.warning("lease not renewed", dataflow=name, reason=str(error))


def tables_of(dataflow: Dataflow) -> tuple[str, ...]:
    """Return the tables in which a dataflow's containers lie."""
    containers = (watched.container for watched in dataflow.spec.containers)
    return tuple(dict.fromkeys(table for one in containers for table in one.tables))
