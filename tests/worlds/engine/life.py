"""The life of one engine in a hostile world: what happens, happens by chance.

No case is written here for any fault: happenings are drawn, the world remembers what they were, and
an oracle computes from that what must be true.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from contradiction import require
from hostile_store import Fate, HostileStore

from engine import dataflows as flows
from engine.delivery import Delivery
from engine.edges import usual
from engine.oracle import Base, Oracle, pairs
from engine.questions import Questions
from engine.runs import Runs
from engine.writing import FATES, Writing
from headgate.engine import (
    ActionRole,
    ActionSpec,
    ClockMoved,
    Engine,
    FirstChanges,
    Instruction,
    Launch,
    NotifyAt,
    ObserverLost,
    Paused,
    Quarantine,
    ReadCells,
    ReconciliationDue,
    RecordArrived,
    Released,
    Resource,
    ResourceSample,
    ResourcesSampled,
    Restarted,
    Resumed,
    RetryRequested,
    RunRequested,
    SavedEngine,
    ScanContainer,
    SpecificationChanged,
    Stimulus,
    Storage,
    Tick,
    TopicsOpened,
    WaveEnded,
    check_invariants,
)
from headgate.engine.actions.runs import RunState
from headgate.events import ContainerId, Cut, TableChangeKind, updates_topic

TEMPERS: dict[str, tuple[float, ...]] = {
    "write": (8.0,),
    "trickle": (0.0, 3.0),
    "deliver": (8.0,),
    "settle": (2.0, 5.0),
    "run": (4.0, 8.0),
    "time": (2.0, 5.0),
    "tell": (0.0, 3.0),
    "answer": (1.0, 6.0),
    "wave": (0.0, 1.0),
    "ask": (0.0, 0.5, 3.0),
    "pause": (0.0, 0.0, 0.7),
    "edit": (0.0, 0.0, 0.7),
    "restart": (0.0, 0.0, 1.0),
    "leap": (0.0, 0.0, 1.0),
    "sample": (0.0, 1.0, 4.0),
    "observer": (0.0, 0.0, 1.0),
    "change": (0.0, 0.0, 0.5),
    "reconcile": (0.0, 0.0, 0.5),
    "retention": (0.0, 0.0, 0.3),
    "flood": (0.0, 0.0, 0.0, 0.3),
}
"""How often each happens in a life, beside the others; a life draws one of them for each.

In an orderly life nothing is lost, and looking again finds nothing: then every count is exact.
"""


class EngineLife:
    """One engine, its world, and what may happen to both."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.store = HostileStore(chance, chance.randint(1, 3), chance.randint(1, 3))
        self.spec = flows.dataflow(chance)
        self.step = 0
        self.lived = self.lived_at_most = 0.0
        self.certain = True
        self.edits = 0
        self._tempers = {name: chance.choice(some) for name, some in TEMPERS.items()}
        fates = {fate: chance.choice(some) for fate, some in FATES.items()}
        self._orderly = chance.random() < 0.3
        if self._orderly:
            self._tempers |= dict.fromkeys(("edit", "observer", "retention"), 0.0)
            self._tempers["reconcile"] = 1.0
            fates |= dict.fromkeys((Fate.LATE, Fate.LOST, Fate.PASSED), 0.0)
        wild = chance.choice((0.0, 0.0, 0.1, 0.5))
        self.writing = Writing(self, fates, wild, orderly=self._orderly)
        self.runs = Runs(self)
        self.questions = Questions(self)
        self.delivery = Delivery(self)
        self._notify_at: float | None = None
        self._segments: dict[tuple[str, int], bytes] = {}
        self._whole = chance.choice((1 << 30, -1))
        self._agents = 0
        self._storage: Storage | None = None
        self._standing()
        self.store.mark(flows.TABLES)
        self.oracle = Oracle(self)
        self._happenings: dict[str, Callable[[], None]] = {
            "write": self.writing.write,
            "trickle": self.writing.trickle,
            "deliver": self.delivery.deliver,
            "settle": self.settle,
            "run": self.runs.run_on,
            "time": self._time,
            "tell": self.writing.publish_late,
            "answer": self.questions.answer,
            "wave": self._wave,
            "ask": self._ask,
            "pause": self._pause,
            "edit": self.edit,
            "restart": self.restart,
            "leap": self._leap,
            "sample": self._sample,
            "observer": self._observer,
            "change": self._change,
            "reconcile": self._reconcile,
            "retention": self.delivery.delete_unread,
            "flood": self.writing.flood,
        }
        self.engine = Engine(self.spec)
        self._saved: tuple[bytes | SavedEngine, float, float] = (b"", 0.0, 0.0)
        positions = {updates_topic(t): self.store.topic(updates_topic(t)) for t in flows.TABLES}
        begun = Cut({t: tuple(0 for _ in logs) for t, logs in positions.items()})
        for action, container in pairs(self):
            self.runs.taken[action][-1].bases[container] = Base(begun, 0, {})
        self.handle(TopicsOpened(self.store.now, begun))

    def _standing(self) -> None:
        """Have rows stand that nobody will tell of."""
        for table in flows.TABLES:
            for number in range(self.chance.choice((0, 0, 5, 24, 50, 100))):
                column = self.chance.choice(flows.COLUMNS) if number < 24 else b"f:a"
                value = usual(self.spec.containers[0].codec.name, self.chance)
                self.store.tables.setdefault(table, {})[b"r%02d" % number, column] = value

    # -- what the engine is told, and what it wants ------------------------------------------------

    def handle(self, stimulus: Stimulus) -> None:
        """Hand over a stimulus; carry out what the engine wants."""
        self.step += 1
        told = self.engine.handle(stimulus)
        record = isinstance(stimulus, RecordArrived | Tick | ResourcesSampled)
        if not record or any(isinstance(one, Launch) for one in told):
            self.save()
        self.carry_out(told)

    def carry_out(self, told: list[Instruction]) -> None:
        """Do what the engine wants."""
        for one in told:
            match one:
                case Launch():
                    self.runs.begin(one)
                case NotifyAt():
                    self._notify_at = one.time
                case ScanContainer() | ReadCells():
                    self.questions.ask(one)
                case Quarantine():
                    self.runs.quarantined(one.action)
                case _:
                    pass

    def save(self) -> None:
        """Take a checkpoint, from which another agent may go on."""
        checkpoint = self.engine.checkpoint(self._whole)
        for segment in checkpoint.log.written:
            self._segments[segment.stream, segment.number] = segment.data
        places = [(k.stream, n) for k in checkpoint.log.kept for n in range(k.first, k.end)]
        self._segments = {place: self._segments[place] for place in places}
        segments = [self._segments[place] for place in places]
        saved = SavedEngine(checkpoint.head, checkpoint.log.kept, segments)
        self._saved = (saved, self.store.now, self.lived)

    def base(self, action: str, container: ContainerId) -> Base | None:
        """Return from where on a container counts for an action; None where nobody can say."""
        return self.runs.base(action, container)

    # -- what happens ------------------------------------------------------------------------------

    def live(self, happenings: int) -> None:
        """Have so many things happen, and look at the end whether all is well."""
        names = list(self._tempers)
        weights = [self._tempers[name] for name in names]
        for _ in range(happenings):
            self._happenings[self.chance.choices(names, weights)[0]]()
        self.end()

    def end(self) -> None:
        """Let all that was begun end well: then nothing is under way, and all agrees."""
        if self.engine.state.paused:
            self.handle(Resumed(self.store.now))
        self.settle()
        for _ in range(60):
            active = [name for name, a in self.engine.actions.items() if a.run is not None]
            if not active:
                return
            self.runs.end(active)
            self.settle()
        require(holds=False, words=f"runs begin for ever: {active}")

    def _observer(self) -> None:
        observer = self.chance.choice(self.store.observers)
        if self.chance.random() < 0.7:
            self.store.restart(observer)
            return
        self.certain = False
        untold = self.store.lose_host(observer)
        for missing in untold:
            missing.said = self.step + 1
        self.handle(ObserverLost(self.store.now, observer.name))

    def _time(self) -> None:
        self.pass_time(self.chance.choice((0.5, 3.0, 30.0, 500.0)))

    def pass_time(self, seconds: float) -> None:
        """Let time pass; ticks come when the engine asked for them."""
        until = self.store.now + seconds
        for _ in range(1000):
            if self._notify_at is None or self._notify_at > until:
                break
            passed = max(0.0, self._notify_at - self.store.now)
            self.store.now += passed
            self._age(passed)
            self._notify_at = None
            self.handle(Tick(self.store.now))
        self._age(max(0.0, until - self.store.now))
        self.store.now = max(self.store.now, until)

    def _age(self, passed: float) -> None:
        self.lived += passed
        self.lived_at_most += passed

    def _leap(self) -> None:
        """The clock is set; the service notices."""
        by = self.chance.choice((-86_400.0, 86_400.0, -7.0, 7.0))
        self.store.now += by
        if self._notify_at is not None:
            self._notify_at += by
        self.handle(ClockMoved(self.store.now, by))

    def mend(self) -> None:
        """Have all runs end well from here on, and what was given up go on."""
        self.runs.mend()
        for name, action in self.engine.actions.items():
            if action.state is RunState.QUARANTINED:
                self.handle(Released(self.store.now, name))

    def begin_anew(self, storage: Storage) -> None:
        """Have another agent go on at once, with cells in another storage."""
        self.save()
        self._storage = storage
        self.restart()

    def restart(self) -> None:
        """The agent ends, and another goes on from what was saved."""
        saved, saved_at, lived = self._saved
        away = self.chance.choice((0.0, 5.0, 200.0))
        leapt = self.chance.choice((0.0, 0.0, -86_400.0, -50.0))
        self.store.now += away + leapt
        # What a clock that was set back meanwhile hides, nobody can know.
        self.lived = lived + max(0.0, self.store.now - saved_at)
        self.lived_at_most += away
        self._notify_at = None
        self.questions.forget()
        self.runs.forget()
        self._agents += 1
        number = self._agents << 40  # an agent's segments are numbered above those of all before
        self.engine = Engine(self.spec, saved, storage=self._storage, log_number=number)
        self.delivery.begin_at(self.engine.cut)
        self.handle(Restarted(self.store.now))

    def _wave(self) -> None:
        self.store.mark(flows.INPUTS)
        self.delivery.deliver_all()
        self.handle(WaveEnded(self.store.now, ("feed",)))

    def _ask(self) -> None:
        name = self.chance.choice([a.name for a in self.spec.actions if a.role is ActionRole.STEP])
        kind = self.chance.choice((RunRequested, RetryRequested, Released))
        self.handle(kind(self.store.now, name))

    def _pause(self) -> None:
        self.handle((Resumed if self.engine.state.paused else Paused)(self.store.now))

    def edit(self) -> None:
        """Somebody edits limits; what was watched before goes on counting."""
        self.edits += 1
        self.certain = False
        former = {w.id: w for w in self.spec.containers}
        own = {a.name: a.own for a in self.spec.actions}
        watched = set(pairs(self))
        before = {a.name: _asked_for(a) for a in self.spec.actions}
        self.spec = flows.edited(self.spec, self.chance)
        # What counts in another way begins anew.
        others = {w.id for w in self.spec.containers if w != former[w.id]}
        others_own = {a.name for a in self.spec.actions if a.own != own[a.name]}
        watched = {(a, c) for a, c in watched if c not in others and a not in others_own}
        tables = {w.id: w.container.tables for w in self.spec.containers}
        for action in self.spec.actions:
            other = before[action.name] ^ _asked_for(action)
            topics = {updates_topic(table) for name in other for table in tables[name]}
            if action.first_changes is FirstChanges.SNAPSHOT:
                self.runs.show_anew(action.name, topics)
        step = self.step + 1
        self.handle(SpecificationChanged(self.store.now, self.spec))
        self.runs.follow(watched, step)

    def _sample(self) -> None:
        used = {Resource.CPU: self.chance.choice((1.0, 50.0, 99.0))}
        sample = ResourceSample("host", self.store.now, used)
        self.handle(ResourcesSampled(self.store.now, (sample,)))

    def _change(self) -> None:
        kinds = (TableChangeKind.MODIFIED, TableChangeKind.MODIFIED, TableChangeKind.TRUNCATED)
        kind = self.chance.choice((*kinds, TableChangeKind.FAMILY_DROPPED))
        if self._orderly:
            kind = TableChangeKind.MODIFIED
        family = self.chance.choice((b"f", b"g")) if kind is TableChangeKind.FAMILY_DROPPED else b""
        if kind is not TableChangeKind.MODIFIED:
            self.certain = False
        self.store.change_table(self.chance.choice(flows.INPUTS), kind, family)

    def _reconcile(self) -> None:
        self.handle(ReconciliationDue(self.store.now))

    # -- looks -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let all that was written be told and read, and compare."""
        for _ in range(200):
            self.store.mark(flows.TABLES)
            self.delivery.deliver_all()
            if not self.questions.places:
                break
            self.questions.answer_one(1 << 20, 0)
        left = self.questions.places
        require(holds=not left, words=f"asked for ever: {left}")
        self.pass_time(0.0)
        self.check_launched()
        self.oracle.check_contents()
        self.oracle.check_counts()
        self.oracle.check_gates()
        check_invariants(self.engine)
        self.engine.explain(self.store.now)

    def check_launched(self) -> None:
        """Look whether what was reached was launched, where nothing is asked any more."""
        self.oracle.history.take(self.store.topics)
        if not self.questions.places:
            self.oracle.check_launched()


def _asked_for(action: ActionSpec) -> set[ContainerId]:
    """Return the containers that a step may ask for: those that it reads, and of its bounds."""
    return {*action.reads, *(bound.container for bound in action.bounds)}
