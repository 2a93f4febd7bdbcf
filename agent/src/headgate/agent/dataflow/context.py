"""What a runtime works with: its ports, and where its checkpoints go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from headgate.agent.dataflow.suspects import Suspects
from headgate.agent.kafka.broker import Broker
from headgate.agent.kafka.feed import Deliver
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.launchers.admission import Admission
from headgate.agent.metrics import DataflowMetrics
from headgate.agent.ports import (
    Adviser,
    Families,
    Launcher,
    Ledger,
    Observation,
    RetentionNeeds,
    Scanner,
)
from headgate.agent.state.cell_storage import CellStorage
from headgate.agent.state.run_records import RunRecord
from headgate.agent.state.saved_state import SavedState
from headgate.agent.state.sealed import Seals
from headgate.engine import Kept, PolicyFactory, policies_of
from headgate.spark import Thrift2Address


class Store(Protocol):
    """Where this dataflow's checkpoints go; the epoch is known to it."""

    def save(self, state: SavedState, records: Iterable[RunRecord], now: float) -> None:
        """Save in one step. Raises ``Fenced`` when another agent has taken the dataflow over."""

    def segments(self, kept: Iterable[Kept]) -> Iterator[bytes]:
        """Yield segments of the engine's log. Raises ``DamagedState`` and ``Fenced``."""

    def trim(self, numbers: Iterable[int]) -> None:
        """Delete records, by their numbers."""


class RuntimeContext(Struct, frozen=True):
    """What a runtime works with."""

    store: Store
    broker: Broker
    storage: CellStorage
    launcher: Launcher
    admission: Admission
    ledger: Ledger
    scanner: Scanner
    observation: Observation
    retention: RetentionNeeds
    families: Families
    observers: ObserverTable
    metrics: DataflowMetrics
    requester: str
    """Names this agent in barrier requests."""
    hbase: Thrift2Address
    kafka: str
    kafka_properties: dict[str, str | int | float | bool]
    seals: Seals
    """Of the state table, in which the run ledger is."""
    checkpoint_seconds: float
    saved_whole: int
    """Cells up to which a checkpoint is the whole state."""
    barrier_repeat: float
    history: int
    post: Callable[[Callable[[float], None]], None]
    """Has a call made on the runtime's next turn, with the time; for seams that answer later."""
    suspects: Suspects
    """Of the dataflow; they outlive the runtime."""
    deliver: Deliver
    """Where the feed hands records to; they come back by ``Runtime.consume``."""
    stages: str
    """Where stages keep their files whose dataflow does not say it."""
    policies: PolicyFactory = policies_of
    """Makes trigger policies."""
    advisers: Mapping[str, Adviser] = {}
    """Who works out what these ask, by their kind."""
