"""An agent whose state table is in memory, with dataflows that a test has it run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

from simulation import SEALS, MemoryRows

from headgate.agent.configuration import AgentConfiguration, HBase, KafkaOptions
from headgate.agent.dataflow.views import FlowStatus, Phase, RebuildAnswer, RunAnswer, WaveStatus
from headgate.agent.errors import Refused
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ownership.flow_rows import FlowRows
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.leases import LeaseManager, LeaseSettings
from headgate.agent.ownership.service import Agent
from headgate.agent.ownership.submissions import Submissions
from headgate.agent.ports import WorkerState
from headgate.agent.state.run_records import RunOutcome, RunRecord
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.agent.supervision import Supervision
from headgate.agent.training.knowledge import Knowledge
from headgate.flows import Dataflow

SOURCE = """
name: air
containers: {input: in c:v, output: out c:v}
actions:
  feed: {input: input}
  clean:
    step: steps:clean
    after: feed
    reads: input
    writes: output
    when: {input: {sequence: 1}}
profiles:
  eager: {clean: {input: {sequence: 3}}}
"""
LEASE = 10.0
NOW = 1_000_000.0

RECORD = RunRecord(1, "r1", "clean", 1, "asked for", "write", RunOutcome.COMMITTED, NOW)


class ScriptedWaves:
    """Waves that settle when a test says so."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self.waiters: list[Callable[[WaveStatus], None]] = []
        self.settled = False
        self.times: dict[int, float] = {}

    def mark(self, actions: tuple[str, ...], now: float, time: float | None) -> int:
        self._note("mark", actions, now, time)
        self.times[4] = now if time is None else time
        return 4

    def when_settled(self, wave: int, settled: Callable[[WaveStatus], None]) -> None:
        self._note("when settled", wave)
        self.waiters.append(settled)

    def settle(self, wave: int) -> None:
        self.settled = True
        for settled in self.waiters:
            settled(self.status(wave))

    def status(self, wave: int) -> WaveStatus:
        return WaveStatus(wave, settled=self.settled)


class ScriptedRuntime:
    """Notes what is asked of it; what it answers is the test's."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.asked: list[tuple[Any, ...]] = []
        self.phase = Phase.RUNNING
        self.coming: list[Phase] = []
        """Phases at the next looks."""
        self.refused = ""
        self.log: Any = None
        self.waves = ScriptedWaves(self._note)
        self.withdrawing: Callable[[Callable[[], None]], None] = lambda gone: gone()
        self.commands = self.reporting = self.stages = self
        self.history = SimpleNamespace(records=[RECORD], identities=dict)
        self.decisions = SimpleNamespace(newest=["decided"])

    def _note(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.refused:
            raise Refused(self.refused)

    def pause(self, now: float) -> None:
        self._note("pause", now)

    def resume(self, now: float) -> None:
        self._note("resume", now)

    def run(self, action: str, now: float) -> RunAnswer:
        self._note("run", action, now)
        return RunAnswer(action, "r2")

    def cancel(self, action: str) -> None:
        self._note("cancel", action)

    def release(self, action: str | None, now: float) -> tuple[str, ...]:
        self._note("release", action, now)
        return (action or "all",)

    def retry(self, action: str | None, now: float) -> tuple[str, ...]:
        self._note("retry", action, now)
        return (action or "all",)

    def listed(self, now: float) -> tuple[str, ...]:
        self._note("stages", now)
        return ("clean",)

    def rebuild(self, action: str, *, with_sources: bool, now: float) -> RebuildAnswer:
        self._note("rebuild", action, with_sources, now)
        return RebuildAnswer((action,), {action: "r2"}, {})

    def compact(self, action: str, now: float) -> RunAnswer:
        self._note("compact", action, now)
        return RunAnswer(action, "r2")

    def log_of(self, of: str, attempt: int | None) -> Any:
        self._note("log", of, attempt)
        return RECORD, self.log

    def reload(self) -> None:
        self._note("reload")

    def change(self, definition: Definition, dataflow: Dataflow, now: float) -> None:
        self._note("change", definition, dataflow.name, now)
        self.definition = definition

    def withdraw(self, gone: Callable[[], None], now: float) -> None:
        self._note("withdraw", now)
        self.withdrawing(gone)

    def explain(self, now: float) -> dict[str, float]:
        self._note("explain", now)
        return {"explained": now}

    def measure(self, now: float) -> None:
        self._note("measure", now)

    def status(self, _: float) -> FlowStatus:
        if self.coming:
            self.phase = self.coming.pop(0)
        return FlowStatus(
            self.definition.name,
            self.phase,
            "as the test says",
            self.definition.revision,
            1,
            WorkerState(ready=True, words="warm"),
            (),
            waves=4,
            settled=3,
            lag=0,
            consumed=9,
        )


class HostedFlow:
    """A dataflow's thread that does at once whatever it is called for."""

    def __init__(self, definition: Definition) -> None:
        self.name = definition.name
        self.runtime = ScriptedRuntime(definition)
        self.alive = True
        self.silent = False
        self.busy = 0.0
        self.stopped: list[tuple[float, bool]] = []

    @property
    def revision(self) -> int:
        return self.runtime.definition.revision

    def call(self, work: Callable[[Any, float], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        if not self.silent:
            try:
                answer.set_result(work(self.runtime, NOW))
            except Refused as error:
                answer.set_exception(error)
        return answer

    def busy_seconds(self, _: float) -> float:
        return self.busy

    def stop(self, seconds: float, *, save: bool = True) -> None:
        self.stopped.append((seconds, save))

    def join(self, seconds: float | None = None) -> None:
        self.alive = False


class MemoryAgent(Agent):
    """The agent itself, over what is in memory; it starts no thread.

    Args:
        name: the agent's.
        address: where others ask it.
        rows: the state table, which other agents may share.
        settings: of the configuration.
    """

    def __init__(
        self,
        name: str = "one",
        address: str = "one:1",
        rows: MemoryRows | None = None,
        **settings: Any,
    ) -> None:
        self.configuration = AgentConfiguration(
            hbase=HBase("127.0.0.1:1"), kafka=KafkaOptions("k:1"), lease_seconds=LEASE, **settings
        )
        self.metrics = AgentMetrics()
        self.owner = Owner(name, name, address)
        self.live: dict[str, int] = {"observer": 1}
        self.observers = cast("Any", SimpleNamespace(live=lambda _: self.live))
        self.supervision = Supervision(lambda _: None)
        self.tables = {"in", "out"}
        self.on_announced: Callable[[str], object] = lambda _: None
        """Called with the name of a dataflow that any agent may take."""
        self.rested: list[str] = []
        self.memory = MemoryRows() if rows is None else rows
        self._rows = self.memory
        found = SimpleNamespace(table_exists=lambda table: table in self.tables)
        self._connections = cast(
            "Any",
            SimpleNamespace(
                trouble=None, call=lambda what, _: what(found), while_wanted=lambda _: nullcontext()
            ),
        )
        self._broker = cast("Any", SimpleNamespace(announce=lambda name: self.on_announced(name)))
        self._retention = cast("Any", SimpleNamespace(remove=self.rested.append))
        self._spares = cast("Any", SimpleNamespace(warm=2))
        self.store = StateStore(self.memory, SEALS, RememberedRevisions())
        self.knowledge = Knowledge(MemoryRows(), SEALS, 1000, 10)
        self._leases = LeaseManager(
            LeaseSettings(
                store=self.store,
                broker=self._broker,
                group="g",
                owner=self.owner,
                lease=LEASE,
                build=cast("Any", None),
                refusal=lambda *_: None,
                ended=lambda _: None,
                threads=4,
                supervision=self.supervision,
            ),
            threading.Event(),
        )
        self._submissions = Submissions(self.store, self._connections, self.configuration.launchers)
        self._flow_rows = FlowRows(self.owner, self._leases, self._status)

    def ail(self, words: str) -> None:
        """Be without HBase, for a reason."""
        cast("Any", self._connections).trouble = words

    def save(self, source: str = SOURCE, directory: str = ".", **parts: Any) -> Definition:
        """Have a definition in the table that nobody has taken."""
        dataflow = self.parse(source, "file", parts.get("profile"), parts.get("name"))
        shadow = parts.get("shadow", False)
        return self._submissions.define(dataflow, directory, shadow=shadow)

    def host(self, definition: Definition) -> HostedFlow:
        """Run a dataflow here."""
        flow = HostedFlow(definition)
        self._leases._hosted[flow.name] = cast("HostedDataflow", flow)
        self._leases._epochs[flow.name] = self.take(flow.name)
        return flow

    def take(self, name: str) -> int:
        """Have the lease of a dataflow, and return its epoch."""
        return self.store.acquire(name, self.owner, time.time(), LEASE).epoch

    def hand_over(self, name: str) -> None:
        """Let others have a dataflow."""
        self.store.release(name, self._leases._epochs.pop(name))
        del self._leases._hosted[name]

    def fail_on(self, definition: Definition, words: str) -> None:
        """Find that a definition cannot run here."""
        self._leases._takeovers.refuse(definition.name, definition.revision, words)
