"""The agent: its parts, its life, and what its API asks of it."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Collection
from typing import TypeVar

import anyio.to_thread
import structlog
from msgspec import Struct

from headgate.agent.configuration import AgentConfiguration
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.errors import AgentError, Held, Refused, Unreachable
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.retention import RetentionKeeper
from headgate.agent.launchers.admission import Admission
from headgate.agent.launchers.permitted import refusal
from headgate.agent.launchers.warm.pools import SessionPools
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership.entrance import Presence, require_observer
from headgate.agent.ownership.flow_rows import FlowRow, FlowRows
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.leases import LeaseManager, LeaseSettings
from headgate.agent.ownership.runtime_factory import RuntimeFactory
from headgate.agent.ownership.submissions import Submissions
from headgate.agent.resources.sampling import Sampling
from headgate.agent.scans.container_rows import RowsLimit
from headgate.agent.scans.hosting import ScanSettings, TableScans
from headgate.agent.scans.notify_families import NotifyFamilies
from headgate.agent.scans.reader import TableScanner
from headgate.agent.scans.store import ScanStore
from headgate.agent.state.rows import HBaseConnections, HBaseRows
from headgate.agent.state.sealed import (
    Definition,
    Owner,
    RowSetAside,
    SavedRevisions,
    Seals,
    check_name,
)
from headgate.agent.state.store import StateStore
from headgate.agent.supervision import Supervision
from headgate.agent.training.knowledge import FAMILIES, Knowledge
from headgate.agent.training.trainer import Trainer
from headgate.engine import ResourceSample
from headgate.events import NOTIFY_FAMILY
from headgate.flows import Dataflow, parse_dataflow
from headgate.settings import knowledge_table, parse_address, shared_keys
from headgate.spark import RunKey, StartSession, Thrift2Address

log = structlog.get_logger("headgate.agent")

T = TypeVar("T")

_DAY = 86_400.0  # seconds
_LAST = 5.0  # seconds for the last checkpoints, after those that steps under way may take
_ANSWER = 10.0  # seconds an answer of a dataflow may take before the API says what it does
_GLANCE = 1.0  # seconds the same may take where many dataflows are asked for little
_STORE = 15.0  # seconds HBase may take to answer a request
_STUCK = 60.0  # seconds one piece of a dataflow's work may take


class UnsignedRow(Struct, frozen=True):
    """The state table, and the bytes in it that a signature must be of."""

    table: str
    value: bytes


class Agent:
    """One agent process.

    Args:
        configuration: its settings.
        address: where its API listens, as others reach it.
    """

    def __init__(self, configuration: AgentConfiguration, address: str) -> None:
        self.configuration = configuration
        self.metrics = AgentMetrics()
        self.owner = Owner(configuration.owner, uuid.uuid4().hex, address)
        self.observers = ObserverTable(configuration.barriers.grace_seconds)
        self._halting = threading.Event()
        self.supervision = Supervision(
            lambda kind: self.metrics.thread_failures.labels(kind.value).inc()
        )
        host, port = parse_address(configuration.hbase.thrift2)
        requester = f"agent/{self.owner.incarnation[:12]}"
        self._connections = HBaseConnections(host, port, self._halting)
        table = configuration.hbase.state_table
        seals = Seals(shared_keys(configuration.key_file), table)
        self._rows = HBaseRows(self._connections, table, seals.proof)
        self._revisions = SavedRevisions(configuration.workers.revisions)
        self.store = StateStore(self._rows, seals, self._revisions)
        stretch = RowsLimit(configuration.scans.cells, configuration.scans.bytes)
        self._scanner = TableScanner(self._connections, self.supervision, stretch)
        self._broker = KafkaBroker(
            configuration.kafka,
            self.observers,
            self.supervision,
            lambda topic: self.metrics.undelivered.labels(topic).inc(),
        )
        self._scans = TableScans(
            ScanSettings(
                store=ScanStore(self._rows, seals),
                broker=self._broker,
                reader=self._scanner,
                observers=self.observers,
                owner=self.owner,
                requester=requester,
                rows=configuration.scans.rows,
                window=configuration.scans.window,
                clock_skew=configuration.scans.clock_skew_seconds,
                barrier_repeat=configuration.barriers.repeat_seconds,
                lease=configuration.lease_seconds,
                metrics=self.metrics,
                supervision=self.supervision,
            )
        )
        self._retention = RetentionKeeper(
            self._rows,
            self._broker,
            configuration.kafka.longest_retention_days * _DAY,
            self.supervision,
        )
        self._sampling = Sampling(
            configuration.resources,
            self._broker.bystander,
            self._post_samples,
            self.supervision,
        )
        workers = configuration.workers
        self._spares = SpareSessions(
            workers.spares,
            StartSession(workers.spare_spark),
            workers.path / ".spares",
            workers.python,
            workers.start_seconds,
            self.supervision,
        )
        self.knowledge = self._make_knowledge(configuration, seals)
        self._trainer = Trainer(workers.path, configuration.training.seconds, self.supervision)
        factory = RuntimeFactory(
            configuration=configuration,
            requester=requester,
            hbase=Thrift2Address(host, port),
            connections=self._connections,
            seals=seals,
            store=self.store,
            broker=self._broker,
            admission=Admission(configuration.launchers.concurrency),
            scanner=self._scanner,
            scans=self._scans,
            retention=self._retention,
            families=NotifyFamilies(self._connections, self._rows),
            observers=self.observers,
            metrics=self.metrics,
            supervision=self.supervision,
            spares=self._spares,
            pools=SessionPools(workers.path / ".pools", workers.python, self._spares),
            trainer=self._trainer,
            knowledge=self.knowledge,
            suspects={},
        )
        self._presence = None
        """Of an agent that was given a name: names made of host and process are never shared."""
        if configuration.name:
            lease = configuration.lease_seconds
            self._presence = Presence(self._rows, seals, self.owner, lease)
        self._leases = LeaseManager(
            LeaseSettings(
                store=self.store,
                broker=self._broker,
                group=configuration.kafka.group,
                owner=self.owner,
                lease=configuration.lease_seconds,
                build=factory.runtime,
                refusal=lambda dataflow, definition: refusal(
                    dataflow, definition.directory, configuration.launchers
                ),
                ended=self._rest,
                threads=configuration.dataflow_threads,
                supervision=self.supervision,
                presence=self._presence,
            ),
            self._halting,
        )
        self._submissions = Submissions(self.store, self._connections, configuration.launchers)
        self._flow_rows = FlowRows(self.owner, self._leases, self._status)

    def _make_knowledge(self, configuration: AgentConfiguration, seals: Seals) -> Knowledge:
        table = knowledge_table(configuration.hbase.state_table)
        own = seals.of(table)
        rows = HBaseRows(self._connections, table, own.proof, FAMILIES)
        training = configuration.training
        return Knowledge(
            rows,
            own,
            training.kept_waves,
            training.kept_models,
            lambda: rows.create(configuration.start_seconds),
            rows.exists,
        )

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for HBase and Kafka and begin to take dataflows over.

        Raises:
            ConfigurationError: the workers' directory cannot be used, something else answers in the
                observer's place, or another agent has the name.
            Unreachable: one of them did not answer in the configured time.
        """
        patience = self.configuration.start_seconds
        require_observer(*parse_address(self.configuration.hbase.thrift2), patience)
        self._rows.create(patience)
        if self._presence is not None:
            self._presence.begin(time.time())
        self._broker.start(patience, machines=self.configuration.resources.topic)
        self._revisions.open(f"{self._broker.cluster}/{self.configuration.hbase.state_table}")
        self._sampling.start()
        self._leases.start()
        self._retention.start()
        self._spares.start()

    def stop(self) -> None:
        """Let steps under way end, save everything, stop workers and hand the dataflows over."""
        self._sampling.stop()
        self._leases.stop(self.configuration.shutdown_seconds)
        # An end needs HBase: without it nothing more is saved, and leases run out by themselves.
        if not self._leases.join(self.configuration.shutdown_seconds + _LAST):
            self._halting.set()
            self._broker.halt()
            self._leases.join()
        self._spares.close()
        self._trainer.close()
        self._retention.close()
        self._scans.close()
        self._halting.set()
        self._leases.close()
        if self._presence is not None:
            self._presence.end()
        self._scanner.close()
        self._broker.stop()
        self._connections.close()
        self._revisions.close()

    # -- what the API asks -----------------------------------------------------------------------

    def trouble(self) -> str | None:
        """Return what keeps the agent from working, in words; None when all is well."""
        return self._connections.trouble or self.supervision.trouble

    def hosted(self, name: str) -> HostedDataflow | None:
        """Return the dataflow if this agent runs it."""
        return self._leases.hosted(name)

    def hosted_count(self) -> int:
        """Return how many dataflows run here."""
        return len(self._leases.flows())

    def stuck(self) -> tuple[str, ...]:
        """Say of each dataflow whose loop no longer turns what is the matter, in words.

        While HBase is away loops wait for it, which nothing that is done here would change.
        """
        if self._connections.trouble is not None:
            return ()
        found = []
        for flow in self._leases.flows():
            seconds = flow.busy_seconds(time.monotonic())
            if not flow.alive:
                found.append(f"dataflow {flow.name} has ended and is not given up yet")
            elif seconds > _STUCK:
                found.append(f"the loop of dataflow {flow.name} has not turned for {seconds:.0f} s")
        return tuple(found)

    async def call(
        self, flow: HostedDataflow, work: Callable[[Runtime, float], T], seconds: float = _ANSWER
    ) -> T:
        """Do something on a dataflow's turn and return the result; holds no thread meanwhile.

        Raises:
            Refused: the dataflow does not allow it.
            Unreachable: its thread did not answer in time, because HBase or Kafka is away.
        """
        future = asyncio.wrap_future(flow.call(work))
        await asyncio.wait({future}, timeout=seconds)
        if not future.done():
            future.cancel()
            raise Unreachable(
                f"dataflow {flow.name} does not answer: {self.trouble() or 'it is busy'}"
            )
        return future.result()

    async def blocking(self, work: Callable[[], T]) -> T:
        """Do something that may wait for HBase on a thread, and return the result.

        Raises:
            Unreachable: it took too long. A call under way may still be done; none is repeated.
        """
        gone = threading.Event()

        def wanted() -> T:
            with self._connections.while_wanted(gone.is_set):
                return work()

        try:
            async with asyncio.timeout(_STORE):
                return await anyio.to_thread.run_sync(wanted, abandon_on_cancel=True)
        except TimeoutError as error:
            raise Unreachable(
                f"HBase did not answer in {_STORE:g} s: {self.trouble() or 'it is busy'}"
            ) from error
        finally:
            gone.set()

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
        self._submissions.check_tables(dataflow, known)

    def define(self, dataflow: Dataflow, directory: str, *, shadow: bool) -> Definition:
        """Save a submitted dataflow and wake the agent that is to run it.

        Raises:
            Refused: it uses what no dataflow may use here.
        """
        definition = self._submissions.define(dataflow, directory, shadow=shadow)
        self._broker.announce(dataflow.name)
        self._leases.look()
        return definition

    async def change(
        self, flow: HostedDataflow, definition: Definition, dataflow: Dataflow
    ) -> None:
        """Go on with another definition of a dataflow that runs here."""
        await self.call(
            flow, lambda runtime, now: runtime.commands.change(definition, dataflow, now)
        )

    async def remove(self, flow: HostedDataflow) -> None:
        """Stop a dataflow that runs here and delete all that is known of it."""
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()

        def cleaned() -> None:
            loop.call_soon_threadsafe(gone.set)

        await self.call(flow, lambda runtime, now: runtime.commands.withdraw(cleaned, now))
        try:
            async with asyncio.timeout(self.configuration.submit_seconds):
                await gone.wait()
        except TimeoutError:
            log.warning(
                "the family of notify columns stays",
                dataflow=flow.name,
                reason="an observer did not say that it sets them no more",
                cure=f"remove family {NOTIFY_FAMILY.decode()!r} of its tables in the HBase shell",
            )
        await self.blocking(lambda: self._forget(flow))

    def _rest(self, dataflow: str) -> None:
        """Do no more for a dataflow that has ended here."""
        self._scans.rest(dataflow)
        self._retention.rest(dataflow)

    def _forget(self, flow: HostedDataflow) -> None:
        self._leases.remove(flow)
        self._retention.remove(flow.name)
        runs = RunKey(flow.name, "", "").row.removesuffix(b"/")
        for row, _ in self._rows.scan(runs, runs[:-1] + b"0"):
            self._rows.delete(row)

    async def running(self, flow: HostedDataflow) -> Definition:
        """Return the definition by which a dataflow runs here."""
        return await self.call(flow, lambda runtime, _: runtime.definition)

    def stands(self, definition: Definition) -> bool:
        """Return whether the state table has a definition as it runs, signed."""
        try:
            return self.store.listing(definition.name).definition == definition
        except RowSetAside:
            return False

    def discard(self, name: str) -> None:
        """Delete a dataflow that is not run as it stands in the state table, and nowhere runs.

        Raises:
            Refused: an agent has it.
        """
        try:
            self.store.discard(name, self.owner, time.time())
        except Held as error:
            raise Refused(str(error)) from error
        self._leases.look()

    def unsigned(self, name: str) -> UnsignedRow:
        """Return what stands in a row, for a holder of the key to judge and to sign."""
        return UnsignedRow(self.configuration.hbase.state_table, self.store.definition_bytes(name))

    def sign(self, name: str, value: bytes, seal: bytes) -> None:
        """Run a definition from now on that a holder of the key has signed."""
        self.store.sign(name, value, seal)
        self._broker.announce(name)
        self._leases.look()

    async def rows(self) -> list[FlowRow]:
        """Return all dataflows, whoever runs them, and all rows that are not run."""
        found = await self.blocking(self.store.listings)
        return await self._flow_rows.every(found)

    async def row(self, name: str) -> FlowRow:
        """Return one dataflow, whoever runs it.

        Raises:
            UnknownDataflow: there is none of that name.
        """
        try:
            return await self._flow_rows.row(await self.blocking(lambda: self.store.listing(name)))
        except RowSetAside as error:
            return self._flow_rows.set_aside(error.row)

    async def _status(self, flow: HostedDataflow) -> FlowStatus:
        return await self.call(flow, lambda runtime, now: runtime.reporting.status(now), _GLANCE)

    async def refresh_metrics(self) -> None:
        """Set the gauges that are asked for rather than counted."""
        hosted = self._leases.flows()
        self.metrics.owned.set(len(hosted))
        self.metrics.spares.set(self._spares.warm)
        self.metrics.broken.set(self._leases.broken_count())
        self.metrics.observers.set(len(self.observers.live(time.time())))
        for state, count in self._leases.set_aside().items():
            self.metrics.set_aside.labels(state).set(count)
        await asyncio.gather(*(self._measure(flow) for flow in hosted))

    async def _measure(self, flow: HostedDataflow) -> None:
        try:
            await self.call(flow, lambda runtime, now: runtime.reporting.measure(now), _GLANCE)
        except AgentError as error:
            log.info("not measured", dataflow=flow.name, reason=str(error))

    def _post_samples(self, samples: tuple[ResourceSample, ...]) -> None:
        for flow in self._leases.flows():
            flow.post_samples(samples)
