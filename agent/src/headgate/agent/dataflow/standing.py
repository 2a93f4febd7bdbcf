"""How a dataflow stands with its agent: its definition, its position, its checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from headgate.agent.dataflow.purposes import Purpose
from headgate.agent.dataflow.surroundings import Surroundings
from headgate.agent.dataflow.views import Phase, WaveStatus
from headgate.agent.errors import Refused
from headgate.agent.kafka.barriers import Barriers
from headgate.agent.kafka.feed import Feed
from headgate.agent.kafka.outbox import Outbox
from headgate.agent.ports import WorkerState
from headgate.agent.state.log_segments import first_piece
from headgate.agent.state.store import Ownership, Progress, RunRecord, SavedState
from headgate.engine import (
    Bound,
    Decision,
    DecisionKind,
    Engine,
    Launch,
    Role,
    SavedEngine,
    ScanContainer,
    Stimulus,
    TopicsOpened,
)
from headgate.events import (
    VERSION,
    Container,
    ControlMessage,
    Cut,
    Notify,
    Watch,
    WatchList,
    updates_topic,
)
from headgate.flows import Dataflow, JobLauncher
from headgate.replay import PLACED, RecordedDecision
from headgate.spark import RunKey

GatePlace = tuple[str, str]
"""An action and a bound of it."""
COUNTER_BITS = 32
"""Of fencing tokens and revisions of watches: the epoch above, a counter within it below."""
_DECISIONS_KEPT = 100
_WAVES_KEPT = 100


class Attempt(Struct):
    """One attempt of a run, as the service carries it. ``deadline`` is Unix time in seconds."""

    launch: Launch
    record: RunRecord
    token: int
    deadline: float | None = None
    stopped: str = ""
    shadow: bool = False
    cancelled: bool = False
    """Whether somebody had it ended."""
    recovered: bool = False
    """Whether it goes on with what outlived an agent before this one."""
    begun: float | None = None
    """When the work began that it goes on with, where an agent before this one began it."""


class Standing(ABC):
    """What a runtime remembers; see ``Runtime`` for the arguments."""

    def __init__(self, ownership: Ownership, dataflow: Dataflow, around: Surroundings) -> None:
        self.definition = ownership.definition
        self.epoch = ownership.epoch
        self.name = dataflow.name
        self.phase = Phase.STARTING
        self.decisions: deque[Decision] = deque(maxlen=_DECISIONS_KEPT)
        self.records = deque(ownership.history[: around.history], maxlen=around.history)
        self._around = around
        self._dataflow = dataflow
        state = ownership.state
        self._restored = state is not None
        self._engine = Engine(
            dataflow.spec,
            None
            if state is None
            else SavedEngine(state.snapshot, state.log.kept, around.store.pieces(state.log.kept)),
            incarnation=f"{int(ownership.definition.submitted * 1000):x}",
            storage=around.storage,
            log_number=first_piece(ownership.epoch),
        )
        self._progress = state.progress if state else Progress()
        self._outbox = Outbox(around.broker, dataflow.name, around.post, self._progress.decisions)
        self._topics: dict[str, int] = {}
        self._retention: dict[str, float] = {}
        """Seconds for which Kafka keeps the topics' records."""
        self._feed: Feed | None = None
        self._token = 0
        self._barriers: Barriers[Purpose] = Barriers(
            around.broker,
            around.observers,
            requester=f"{around.requester}/{dataflow.name}",
            epoch=ownership.epoch,
            repeat=around.barrier_repeat,
            passed=self._barrier_passed,
        )
        self._notify: float | None = None
        self._foreseen: float | None = None
        """When the launcher was told that the next run may be due."""
        self._queue: deque[Attempt] = deque()
        self._active: dict[str, Attempt] = {}
        """By run: of an action that went and came back there may be two."""
        self._under_way: dict[str, Attempt] = {}
        """Attempts that are with a launcher, by run."""
        self._quarantined = dict(self._progress.quarantined)
        self._outside = 0
        self._scans: dict[tuple[str, str], ScanContainer] = {}
        self._edges: dict[tuple[str, str], bytes] = {}
        """Where the next stretch begins of a container of which one has just come."""
        """The newest scan asked for, by container and table."""
        self._changed_records: dict[int, RunRecord] = {}
        self._given_up: dict[int, RunKey] = {}
        """Records that are too old, by number, and their runs."""
        self._forgettable: dict[int, RunKey | None] = {}
        """Those of them that can go; None where another record of the run is kept."""
        for old in ownership.history[around.history :]:
            self._give_up(old)
        self._dirty = False
        self._saved_at = 0.0
        self._wave_at = self._progress.wave_due
        self._reconcile_at: float | None = None
        self._needs_at = 0.0
        self._gates: dict[GatePlace, tuple[Container, float]] = {}
        """Closed ones: what they hold, and the end of the lease."""
        self._blocking_of: Dataflow | None = None
        self._blocking_bounds: dict[GatePlace, Bound] = {}
        """Of the dataflow in ``_blocking_of``."""
        self._gate_revision = 0
        self._notify_column: Notify | None = None
        self._notified: frozenset[str] = frozenset()
        """Tables in which observers are asked to set the notify column."""
        self._new_input = self._progress.new_input
        self._marked: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=_WAVES_KEPT)
        """The newest waves and their input actions."""
        self._waiters: list[tuple[int, Callable[[WaveStatus], None]]] = []
        self._worker = WorkerState(ready=False, words="not started yet")
        self._consumed = self._progress.consumed
        self._skipped = Counter(self._progress.skipped)
        self._runs = Counter(self._progress.runs)
        self._turns = Counter(self._progress.turns)
        self._draining = False
        self._withdrawn = False
        self._unplaced = False

    @property
    def _working(self) -> Phase:
        return Phase.PAUSED if self._progress.paused else Phase.RUNNING

    def _tell(self, now: float, kind: DecisionKind, words: str, **details: Any) -> None:
        """Publish what nobody decided and a replay must know."""
        self._record(Decision(now, self.name, kind, words), **details)
        self._outbox.send()

    def _record(self, decision: Decision, **details: Any) -> None:
        """Have a decision published, with the next that is sent."""
        if decision.kind in PLACED:
            details["cut"] = self._position()
        if decision.kind in {DecisionKind.SUBMITTED, DecisionKind.SPECIFICATION_CHANGED}:
            details |= {"source": self.definition.source, "profile": self.definition.profile}
        recorded = RecordedDecision(**msgspec.structs.asdict(decision), **details)
        self._outbox.add(msgspec.json.encode(recorded))

    def _ask(
        self,
        purpose: Purpose,
        tables: Iterable[str],
        now: float,
        prelude: ControlMessage | None = None,
    ) -> None:
        """Ask for a barrier; ``prelude`` is published first, so that who marks has obeyed it."""
        topics = {table: self._topics[updates_topic(table)] for table in tables}
        self._barriers.ask(purpose, topics, now, prelude)

    def _position(self) -> Cut:
        return self._from_start(self._engine.cut)

    def _from_start(self, position: Cut) -> Cut:
        """Raise a cut to where reading began: the engine counts partitions it has not seen as 0."""
        raised = dict(position.offsets)
        for topic, first in self._progress.start.offsets.items():
            known = raised.get(topic, first)
            raised[topic] = tuple(
                at if at < 0 else max(begun, at)  # what is lost stays so
                for begun, at in zip_longest(first, known, fillvalue=0)
            )
        return Cut(raised)

    def _subscribe(self, now: float) -> None:
        """Read the topics of the dataflow, those that are new to it from where they end now."""
        self._topics = self._around.broker.topics(self._tables())
        self._retention = self._around.broker.retention(self._topics)
        start = {t: at for t, at in self._progress.start.offsets.items() if t in self._topics}
        new = {topic: count for topic, count in self._topics.items() if topic not in start}
        start |= self._around.broker.ends(new).offsets
        self._progress = msgspec.structs.replace(self._progress, start=Cut(start))
        self._handle(TopicsOpened(now, self._position()))
        self._feed = self._around.broker.feed(self._topics, self._position(), self._around.deliver)

    def _save(self, now: float) -> None:
        with self._around.measures.checkpoint_seconds.time():
            written = self._save_now(now)
        self._around.measures.snapshot_bytes.replace({(): written})
        self._changed_records.clear()
        self._dirty = False
        self._saved_at = now
        for number, key in tuple(self._given_up.items()):
            if not self._is_active(key):
                del self._given_up[number]
                kept = any(record.run == key.run for record in self.records)
                self._forgettable[number] = None if kept else key

    def _save_now(self, now: float) -> int:
        """Save a checkpoint and return how many bytes of the engine's state it wrote."""
        self._skipped += self._engine.take_rests()
        checkpoint = self._engine.checkpoint(self._around.saved_whole)
        self._progress = msgspec.structs.replace(
            self._progress,
            consumed=self._consumed,
            quarantined=dict(self._quarantined),
            runs=dict(self._runs),
            skipped=dict(self._skipped),
            decisions=self._outbox.left,
            turns=dict(self._turns),
            new_input=self._new_input,
            wave_due=self._wave_at,
        )
        state = SavedState(checkpoint.head, self._position(), self._progress, checkpoint.log)
        self._around.store.save(state, tuple(self._changed_records.values()), now)
        return len(state.snapshot) + sum(len(piece.data) for piece in state.log.written)

    def _give_up(self, old: RunRecord) -> None:
        """Have a record that is too old deleted, and what the ledger has of its run.

        Until the next checkpoint the ledger alone may know that a run has committed. So neither
        goes before a checkpoint in which the run is over; and no launch waits for it.
        """
        self._changed_records.pop(old.number, None)
        self._given_up[old.number] = RunKey(self.name, old.action, old.run)

    def _is_active(self, key: RunKey) -> bool:
        """Tell whether a run is not over."""
        action = self._engine.actions.get(key.action)
        active = None if action is None else action.run
        return key.run in self._active or (active is not None and active.run == key.run)

    def _forget_old(self) -> None:
        """Delete what was given up and can go."""
        old, self._forgettable = self._forgettable, {}
        for key in dict.fromkeys(old.values()):
            if key is not None:
                self._around.ledger.forget(key)
        if old:
            self._around.store.trim(old)

    def _not_needed(self, action: str) -> int:
        """Return how many runs of an action its bounds, or those before it, have saved.

        Evaluations after which nothing had to run; where more waves ended before it than it has
        run and been evaluated, because a step between them rested, waves without a run of it.
        """
        self._skipped += self._engine.take_rests()
        return max(self._skipped[action], self._turns[action] - self._runs[action])

    def _step(self, action: str) -> None:
        for spec in self._dataflow.spec.actions:
            if spec.name == action:
                if spec.role is Role.INPUT:
                    raise Refused(f"{action!r} of {self.name} is fed from outside; it never runs")
                return
        known = ", ".join(a.name for a in self._dataflow.spec.actions if a.role is Role.STEP)
        raise Refused(f"{self.name} has no action {action!r}; it has: {known}")

    def _inputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self._dataflow.spec.actions if a.role is Role.INPUT)

    def _tables(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                table
                for watched in self._dataflow.spec.containers
                for table in watched.container.tables
            )
        )

    def _tables_written(self, actions: Iterable[str]) -> tuple[str, ...]:
        """Tables the actions say they write; all of the dataflow's, if one of them says nothing."""
        spec = self._dataflow.spec
        writes = [action.writes for action in spec.actions if action.name in set(actions)]
        if not all(writes):
            return self._tables()
        named = {container for containers in writes for container in containers}
        return tuple(
            dict.fromkeys(
                table
                for watched in spec.containers
                if watched.id in named
                for table in watched.container.tables
            )
        )

    def _watch_list(self) -> WatchList:
        return WatchList(
            VERSION,
            self.name,
            self._watch_revision(),
            tuple(
                Watch(table, notify=self._notify_column if table in self._notified else None)
                for table in self._tables()
            ),
        )

    def _watch_revision(self) -> int:
        """Return a number that grows with every owner and with every submit to one owner.

        Whatever revision a dataflow has that is submitted after a removal, its epoch is higher: its
        list counts even where the end of the old one's was never heard.
        """
        return (self.epoch << COUNTER_BITS) + self.definition.revision

    def _action_state(self, action: str) -> str:
        active = [a for a in self._active.values() if a.launch.action == action]
        if active:
            return active[-1].record.outcome.value
        if action in self._quarantined:
            return "quarantined"
        return "retrying" if action in self._engine.busy else "idle"

    def _unrest(self) -> str | None:
        """Say what is under way or due, None if nothing is."""
        busy = self._engine.busy
        if not busy:
            return None
        names = ", ".join(f"{name} ({self._action_state(name)})" for name in busy)
        cold = self._session_is_busy and not self._worker.ready
        return f"{names}; worker: {self._worker.words}" if cold else names

    @property
    def _session_is_busy(self) -> bool:
        """Whether an attempt is with the warm session."""
        launchers = self._dataflow.launchers
        return any(
            not isinstance(launchers.get(a.launch.action), JobLauncher)
            for a in self._under_way.values()
        )

    @abstractmethod
    def _handle(self, stimulus: Stimulus) -> None:
        """Have the engine take a stimulus, save, and carry its instructions out."""

    @abstractmethod
    def _barrier_passed(self, purpose: Purpose, started: float, now: float) -> None:
        """Do what the barrier was asked for."""
