"""What each dataflow gets of its agent: a runtime, a worker, its part of the connections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.advisers.runnables import RunnableAdviser
from headgate.agent.children.code_process import CodeWorker
from headgate.agent.configuration import AgentConfiguration
from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.runs.starting import python_path, session_start
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.suspects import Suspects
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.retention import RetentionKeeper
from headgate.agent.launchers import FlowLaunchers, JobsLauncher, LocalJobs
from headgate.agent.launchers.admission import Admission
from headgate.agent.launchers.warm.pools import SessionPools
from headgate.agent.launchers.warm.resting import Rest
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.policies import POLICIES, Advised, advisers_of
from headgate.agent.ports import Extent, TimeRange
from headgate.agent.scans.hosting import TableScans
from headgate.agent.scans.notify_families import NotifyFamilies
from headgate.agent.scans.reader import TableScanner
from headgate.agent.state.cell_storage import CellStorage
from headgate.agent.state.rows import HBaseConnections
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.saved_state import SavedState
from headgate.agent.state.sealed import Seals
from headgate.agent.state.store import Ownership, StateStore
from headgate.agent.supervision import Supervision
from headgate.agent.training.knowledge import Knowledge
from headgate.agent.training.trainer import Trainer
from headgate.engine import PYTHON_RUNNABLE, Kept
from headgate.events import agent_origin
from headgate.flows import Dataflow
from headgate.spark import RunKey, RunLedger, RunState, Thrift2Address


class RuntimeFactory(Struct, frozen=True):
    """What the dataflows of an agent share."""

    configuration: AgentConfiguration
    requester: str
    """Names the agent in barrier requests."""
    hbase: Thrift2Address
    connections: HBaseConnections
    seals: Seals
    store: StateStore
    broker: KafkaBroker
    admission: Admission
    scanner: TableScanner
    scans: TableScans
    retention: RetentionKeeper
    families: NotifyFamilies
    observers: ObserverTable
    metrics: AgentMetrics
    supervision: Supervision
    spares: SpareSessions
    pools: SessionPools
    trainer: Trainer
    knowledge: Knowledge
    suspects: dict[str, Suspects]
    """By dataflow: what its thread failed on here."""

    def runtime(self, hosted: HostedDataflow, ownership: Ownership, dataflow: Dataflow) -> Runtime:
        """Return the runtime of a dataflow, which posts to ``hosted``; its worker is started."""
        configuration = self.configuration
        directory = configuration.workers.path / dataflow.name
        launcher = FlowLaunchers(
            WarmSession(
                session_start(dataflow, ownership.definition),
                directory,
                configuration.workers.python,
                configuration.workers.start_seconds,
                hosted.post_report,
                self.supervision,
                self.spares,
                Rest(configuration.workers.idle_seconds),
                self.pools,
            ),
            JobsLauncher(
                LocalJobs(directory / "jobs", configuration.history),
                hosted.post_report,
                self.supervision,
                dataflow.name,
            ),
            configuration.workers,
            configuration.launchers,
        )
        metrics = MetricAdviser(
            dataflow.name,
            configuration.workers.python,
            directory,
            configuration.workers.metric_seconds,
            configuration.workers.start_seconds,
            configuration.workers.idle_seconds,
            self.supervision,
        )
        advisers = advisers_of(
            Advised(
                dataflow.spec,
                configuration,
                self.trainer,
                self.knowledge,
                metrics,
                self.metrics.of(dataflow.name),
                self.supervision,
            )
        )
        advisers[PYTHON_RUNNABLE] = RunnableAdviser(
            dataflow.name,
            CodeWorker(
                configuration.workers.python,
                str(directory / "runnables.log"),
                configuration.workers.runnable_seconds,
                configuration.workers.start_seconds,
            ),
            configuration.workers.idle_seconds,
            self.supervision,
        )
        roots = python_path(dataflow.python_path, ownership.definition)
        for adviser in advisers.values():
            adviser.use(roots, dataflow.spec)
        try:
            return Runtime(
                ownership,
                dataflow,
                RuntimeContext(
                    store=_FlowStore(self.store, ownership),
                    broker=self.broker,
                    storage=CellStorage(configuration.cells.memory, configuration.cells.path),
                    launcher=launcher,
                    admission=self.admission,
                    ledger=_HBaseLedger(self.connections, self.seals),
                    scanner=self.scanner,
                    observation=_Observation(self.scans, dataflow.name),
                    retention=_Retention(self.retention, dataflow.name),
                    families=_Families(self.families, dataflow.name),
                    observers=self.observers,
                    metrics=self.metrics.of(dataflow.name),
                    requester=self.requester,
                    hbase=self.hbase,
                    kafka=configuration.kafka.bootstrap,
                    kafka_properties=configuration.kafka.properties,
                    seals=self.seals,
                    checkpoint_seconds=configuration.checkpoint_seconds,
                    saved_whole=configuration.cells.saved_whole,
                    barrier_repeat=configuration.barriers.repeat_seconds,
                    history=configuration.history,
                    post=hosted.post,
                    suspects=self.suspects.setdefault(dataflow.name, Suspects()),
                    deliver=hosted.deliver,
                    stages=str(configuration.workers.stages.absolute()),
                    policies=POLICIES,
                    advisers=advisers,
                ),
            )
        except BaseException:
            launcher.close()
            for adviser in advisers.values():
                adviser.close()
            raise


class _FlowStore:
    """The state store as one dataflow's owner uses it."""

    def __init__(self, store: StateStore, ownership: Ownership) -> None:
        self._store = store
        self._definition = ownership.definition
        self._name = ownership.definition.name
        self._epoch = ownership.epoch

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """See ``context.Store``."""
        self._store.save(self._name, self._epoch, state, records, now)

    def segments(self, kept: Iterable[Kept]) -> Iterator[bytes]:
        """See ``context.Store``."""
        return self._store.segments(self._definition, self._epoch, kept)

    def trim(self, numbers: Iterable[int]) -> None:
        """See ``context.Store``."""
        self._store.trim(self._name, numbers)


class _HBaseLedger:
    """The run ledger through the agent's connections."""

    def __init__(self, connections: HBaseConnections, seals: Seals) -> None:
        self._connections = connections
        self._seals = seals

    def state(self, key: RunKey) -> RunState:
        """See ``ports.Ledger``."""
        return self._connections.call(lambda c: RunLedger(c, self._seals.table).state(key))

    def forget(self, key: RunKey) -> None:
        """See ``ports.Ledger``."""
        rows = (key.row, key.result_row)
        origin = agent_origin(self._seals.proof(rows))
        self._connections.call(lambda c: c.delete(self._seals.table, rows, origin=origin))


class _Observation:
    """The scans of the agent, as one dataflow asks for them."""

    def __init__(self, scans: TableScans, dataflow: str) -> None:
        self._scans = scans
        self._dataflow = dataflow

    def want(self, extents: Mapping[str, Extent]) -> None:
        """See ``ports.Observation``."""
        self._scans.want(self._dataflow, extents)

    def unpublished(self, table: str, now: float) -> TimeRange | None:
        """See ``ports.Observation``."""
        return self._scans.unpublished(table, now)

    def withdraw(self, tables: Sequence[str]) -> None:
        """See ``ports.Observation``."""
        self._scans.withdraw(self._dataflow, tables)


class _Retention:
    """The retention of topics, as one dataflow needs it."""

    def __init__(self, retention: RetentionKeeper, dataflow: str) -> None:
        self._retention = retention
        self._dataflow = dataflow

    def need(self, ages: Mapping[str, float]) -> None:
        """See ``ports.RetentionNeeds``."""
        self._retention.need(self._dataflow, ages)

    def kept(self, topic: str) -> float | None:
        """See ``ports.RetentionNeeds``."""
        return self._retention.kept(topic)


class _Families:
    """The families of notify columns, as one dataflow asks for them."""

    def __init__(self, families: NotifyFamilies, dataflow: str) -> None:
        self._families = families
        self._dataflow = dataflow

    def provide(self, tables: Iterable[str]) -> frozenset[str]:
        """See ``ports.Families``."""
        return self._families.provide(self._dataflow, tables)

    def drop(self, tables: Collection[str]) -> None:
        """See ``ports.Families``."""
        self._families.drop(self._dataflow, tables)
