"""The life of one engine in a hostile world: what happens, happens by chance.

No case is written here for any fault: happenings are drawn, the world remembers what they were, and
an oracle computes from that what must be true.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from contradiction import require
from hostile_store import Cell, Fate, HostileStore

from engine import dataflows as flows
from engine.edges import extreme, usual
from engine.oracle import Base, Oracle, Taken, pairs
from headgate.engine import (
    CellsRead,
    ClockMoved,
    ContainerScanned,
    Engine,
    FirstChanges,
    Instruction,
    Launch,
    NotifyAt,
    ObserverLost,
    PartitionReset,
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
    Role,
    RunFailed,
    RunFinished,
    RunRequested,
    RunStarted,
    SavedEngine,
    ScanBegun,
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
from headgate.events import (
    ContainerId,
    Cut,
    Origin,
    TableChangeKind,
    UpdateKind,
    updates_topic,
)

TABLES = (*flows.INPUTS, flows.OUTPUT)
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
FATES: dict[Fate, tuple[float, ...]] = {
    Fate.TOLD: (10.0,),
    Fate.LATE: (0.0, 3.0),
    Fate.LOST: (0.0, 0.0, 1.0),
    Fate.UNKNOWN: (0.0, 0.0, 1.0),
    Fate.REFUSED: (0.0, 0.0, 1.0),
    Fate.PASSED: (0.0, 0.0, 0.5),
}
MOST_ATTEMPTS = 16
"""Attempts after which a run that never ends well must have been given up, however it fails."""


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
        self._fates = {fate: chance.choice(some) for fate, some in FATES.items()}
        self._orderly = chance.random() < 0.3
        if self._orderly:
            self._tempers |= dict.fromkeys(("edit", "observer", "retention"), 0.0)
            self._tempers["reconcile"] = 1.0
            self._fates |= dict.fromkeys((Fate.LATE, Fate.LOST, Fate.PASSED), 0.0)
        self._wild = chance.choice((0.0, 0.0, 0.1, 0.5))
        self._poisoned = chance.choice((0.0, 0.0, 0.5))
        self._failing = chance.choice((0.35, 0.35, 0.9))
        self._deadly = {a.name for a in self.spec.actions if chance.random() < 0.05}
        """Actions whose every run ends its agent."""
        self._notify_at: float | None = None
        self._questions: dict[tuple[str, ContainerId, str], ScanContainer | ReadCells] = {}
        self._runs: dict[str, Launch] = {}
        self._shown: dict[str, set[str]] = {}
        """Topics that an action has read without a break since its newest launch."""
        self._read: dict[tuple[str, int], int] = {}
        self._segments: dict[tuple[str, int], bytes] = {}
        self._whole = chance.choice((1 << 30, -1))
        self._floods = self._agents = 0
        self._storage: Storage | None = None
        self._own_rows: dict[str, set[bytes]] = {}
        self._standing()
        self.store.mark(TABLES)
        self.taken = {a.name: [Taken({})] for a in self.spec.actions}
        self.committed: dict[str, Cut] = {}
        self.oracle = Oracle(self)
        self._happenings: dict[str, Callable[[], None]] = {
            "write": self._write,
            "trickle": self._trickle,
            "deliver": self._deliver,
            "settle": self.settle,
            "run": self._run,
            "time": self._time,
            "tell": self._tell,
            "answer": self._answer,
            "wave": self._wave,
            "ask": self._ask,
            "pause": self._pause,
            "edit": self.edit,
            "restart": self._restart,
            "leap": self._leap,
            "sample": self._sample,
            "observer": self._observer,
            "change": self._change,
            "reconcile": self._reconcile,
            "retention": self._retention,
            "flood": self._flood,
        }
        self.engine = Engine(self.spec)
        self._saved: tuple[bytes | SavedEngine, float, float] = (b"", 0.0, 0.0)
        positions = {updates_topic(t): self.store.topic(updates_topic(t)) for t in TABLES}
        begun = Cut({t: tuple(0 for _ in logs) for t, logs in positions.items()})
        for action, container in pairs(self):
            self.taken[action][-1].bases[container] = Base(begun, 0, {})
        self.tell(TopicsOpened(self.store.now, begun))

    def _standing(self) -> None:
        """Have rows stand that nobody will tell of."""
        for table in TABLES:
            for number in range(self.chance.choice((0, 0, 5, 24, 50, 100))):
                column = self.chance.choice(flows.COLUMNS) if number < 24 else b"f:a"
                value = usual(self.spec.containers[0].codec.name, self.chance)
                self.store.tables.setdefault(table, {})[b"r%02d" % number, column] = value

    # -- what the engine is told, and what it wants ------------------------------------------------

    def tell(self, stimulus: Stimulus) -> None:
        """Hand over a stimulus; carry out what the engine wants."""
        self.step += 1
        told = self.engine.handle(stimulus)
        record = isinstance(stimulus, RecordArrived | Tick | ResourcesSampled)
        if not record or any(isinstance(one, Launch) for one in told):
            self._save()
        self._carry_out(told)

    def _carry_out(self, told: list[Instruction]) -> None:
        for one in told:
            match one:
                case Launch():
                    self._launched(one)
                case NotifyAt():
                    self._notify_at = one.time
                case ScanContainer() | ReadCells():
                    self._questions[type(one).__name__, one.container, one.table] = one
                case Quarantine():
                    self._runs.pop(one.action, None)
                    self.taken[one.action].pop()
                case _:
                    pass

    def _save(self) -> None:
        checkpoint = self.engine.checkpoint(self._whole)
        for segment in checkpoint.log.written:
            self._segments[segment.stream, segment.number] = segment.data
        places = [(k.stream, n) for k in checkpoint.log.kept for n in range(k.first, k.end)]
        self._segments = {place: self._segments[place] for place in places}
        segments = [self._segments[place] for place in places]
        saved = SavedEngine(checkpoint.head, checkpoint.log.kept, segments)
        self._saved = (saved, self.store.now, self.lived)

    def _launched(self, launch: Launch) -> None:
        self._runs[launch.action] = launch
        words = f"{launch.run} is at its attempt {launch.attempt}"
        require(holds=launch.attempt <= MOST_ATTEMPTS, words=words)
        action = self.engine.actions[launch.action]
        if launch.attempt > 1:
            return
        self.oracle.history.take(self.store.topics)
        self.oracle.check_launch(action, launch)
        self._shown[launch.action] = {updates_topic(t) for t in self.spec.tables(action.spec)}
        taken = Taken({}, (self.lived, self.lived_at_most))
        for container in dict.fromkeys(bound.container for bound in action.spec.bounds):
            taken.bases[container] = self._base_now(container)
        self.taken[launch.action].append(taken)

    def _base_now(self, container: ContainerId) -> Base:
        known: dict | None = {}
        for cells in self.oracle.parts(container):
            if (
                known is None
                or not cells.scans.complete
                or cells.reads.unsettled
                or cells.columns.values is None
            ):
                known = None
            else:
                known[cells.table] = cells.columns.contents()
        return Base(self._position(), self.step, known)

    def _position(self) -> Cut:
        """Return the engine's cut; of what Kafka has deleted nothing will come."""
        cut = self.engine.cut
        for topic, logs in self.store.topics.items():
            for partition in range(len(logs)):
                cut = cut.advanced(topic, partition, self.store.kept_from(topic, partition))
        return cut

    def base(self, action: str, container: ContainerId) -> Base | None:
        """Return from where on a container counts for an action; None where nobody can say."""
        return self.taken[action][-1].bases.get(container)

    def shows_everything(self, action: str) -> bool:
        """Return whether an action's first run is to be shown all that stands."""
        everything = self.engine.actions[action].spec.first_changes is FirstChanges.SNAPSHOT
        return everything and self.edits == 0

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
            self.tell(Resumed(self.store.now))
        self.settle()
        for _ in range(60):
            active = [name for name, a in self.engine.actions.items() if a.run is not None]
            if not active:
                return
            self._poisoned = 0.0
            for name in active:
                self._finish(name)
            self.settle()
        require(holds=False, words=f"runs begin for ever: {active}")

    def _origin(self) -> Origin | None:
        kinds = [None, None, Origin("", "", "", 0, "collector"), Origin("other", "x", "r", 1)]
        if self.spec.feeders is not None:
            kinds += [Origin("", "", "", 0, "collector")] * 4
        return self.chance.choice(kinds)

    def _value(self) -> bytes:
        codec = self.spec.containers[0].codec.name
        wild = self.chance.random() < self._wild
        return (extreme if wild else usual)(codec, self.chance)

    def _cell(self) -> Cell:
        row, column = self.chance.choice(flows.ROWS), self.chance.choice(flows.COLUMNS)
        kind = self.chance.random()
        if kind < 0.85:
            return Cell(row, column, UpdateKind.PUT, self._value())
        if kind < 0.94:
            return Cell(row, column, UpdateKind.DELETE_COLUMN)
        if kind < 0.97:
            return Cell(row, self.chance.choice(flows.FAMILIES), UpdateKind.DELETE_FAMILY)
        return Cell(row, b"", UpdateKind.DELETE_ROW)

    def _write_cells(self, table: str, cells: list[Cell], origin: Origin | None) -> None:
        fates = list(self._fates)
        fate = self.chance.choices(fates, [self._fates[fate] for fate in fates])[0]
        counts = self.spec.feeders is None or self._is_own(origin)
        if self._orderly and counts:
            fate = Fate.TOLD
        # A stranger's write counts nothing, whatever came of it, if only it was told.
        if fate not in (Fate.TOLD, Fate.LATE) and (counts or fate in (Fate.LOST, Fate.PASSED)):
            self.certain = False
        if self._is_own(origin):
            self._own_rows.setdefault(table, set()).update(cell.row for cell in cells)
        self._write_as(table, cells, fate, origin)

    def _write_as(
        self, table: str, cells: list[Cell], fate: Fate, origin: Origin | None = None
    ) -> None:
        self.store.write(table, cells, fate, origin)
        self.certain &= not self.store.disordered

    def _write(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            cells = [self._cell() for _ in range(self.chance.choice((1, 1, 2, 9)))]
            unique = {(cell.row, cell.column): cell for cell in cells}
            wide = any(
                cell.kind not in (UpdateKind.PUT, UpdateKind.DELETE_COLUMN) for cell in cells
            )
            chosen = cells[:1] if wide else list(unique.values())
            if chosen:
                self._write_cells(self.chance.choice(flows.INPUTS), chosen, self._origin())

    @staticmethod
    def _is_own(origin: Origin | None) -> bool:
        return origin is not None and (origin.dataflow == flows.NAME or origin.name == "collector")

    def _trickle(self) -> None:
        """Rows are written one by one, and each is looked at."""
        table = self.chance.choice(flows.INPUTS)
        for number in self.chance.sample(range(100), self.chance.randint(5, 60)):
            row = b"r%02d" % number
            column = b"f:a"
            cell = Cell(row, column, UpdateKind.PUT, self._value())
            self._write_as(table, [cell], Fate.TOLD)
            self.deliver_all()
            self._check_launched()

    def _flood(self) -> None:
        """A client invents names, and takes them all back."""
        self._floods += 1
        table = self.chance.choice(flows.INPUTS)
        wide = self.chance.random() < 0.5
        for start in range(0, 1500, 250):
            cells = []
            for n in range(start, start + 250):
                name = b"%d-%d-" % (self._floods, n) + b"x" * 60
                row, column = (b"one", b"f:" + name) if wide else (name, b"f:a")
                cells.append(Cell(row, column, UpdateKind.PUT, self._value()))
            self._write_as(table, cells, Fate.TOLD)
        self.deliver_all()
        known = self.store.tables[table]
        gone = [key for key in known if b"x" * 60 in key[0] + key[1]]
        deletes = [Cell(row, column, UpdateKind.DELETE_COLUMN) for row, column in gone]
        for start in range(0, len(deletes), 300):
            self._write_as(table, deletes[start : start + 300], Fate.TOLD)
        self.deliver_all()

    def _tell(self) -> None:
        observer = self.chance.choice(self.store.observers)
        self.store.flush(observer, self.chance.randint(1, 3))
        if self.chance.random() < 0.3:
            self.store.repeat(self.chance.choice(TABLES))

    def _observer(self) -> None:
        observer = self.chance.choice(self.store.observers)
        if self.chance.random() < 0.7:
            self.store.restart(observer)
            return
        self.certain = False
        untold = self.store.lose_host(observer)
        for missing in untold:
            missing.said = self.step + 1
        self.tell(ObserverLost(self.store.now, observer.name))

    def _deliver(self) -> None:
        unread = [
            (topic, partition)
            for topic, logs in self.store.topics.items()
            for partition, log in enumerate(logs)
            if self._read.get((topic, partition), 0) < len(log)
        ]
        if unread:
            self._deliver_some(self.chance.choice(unread), self.chance.randint(1, 12))
        if self.chance.random() < 0.1 and self._read:
            place = self.chance.choice(list(self._read))
            self._read[place] = max(0, self._read[place] - self.chance.randint(0, 3))

    def _deliver_some(self, place: tuple[str, int], most: int) -> None:
        (topic, partition), start = place, self._read.get(place, 0)
        logs = self.store.topic(topic)
        messages = logs[partition][start : start + most]
        records = [
            RecordArrived(self.store.now, topic, partition, offset, message, len(logs))
            for offset, message in enumerate(messages, start)
            if message is not None
        ]
        self._read[place] = start + len(messages)
        if self.chance.random() < 0.5:
            for record in records:
                self.tell(record)
            return
        while records:
            self.step += 1
            taken, told = self.engine.arrive(records)
            del records[:taken]
            if any(isinstance(one, Launch) for one in told):
                self._save()
            self._carry_out(told)

    def deliver_all(self) -> None:
        """Deliver all that topics hold."""
        while True:
            unread = [
                (topic, partition)
                for topic, logs in self.store.topics.items()
                for partition, log in enumerate(logs)
                if self._read.get((topic, partition), 0) < len(log)
            ]
            if not unread:
                return
            self._deliver_some(self.chance.choice(unread), 1 << 20)

    def _answer(self) -> None:
        """A scan, or a read, that was asked for has come to its end."""
        if not self._questions:
            return
        self._answer_one(self.chance.choice((1, 3, 1 << 20)), self.chance.choice((0, 0, 1)))

    def _answer_one(self, most: int, writes: int) -> None:
        place = self.chance.choice(list(self._questions))
        question = self._questions[place]
        if isinstance(question, ReadCells):
            known = self.store.tables.get(question.table, {})
            keys = zip(question.rows, question.columns, strict=True)
            values = [known.get(key) for key in keys]
            del self._questions[place]
            where = (question.container, question.table, question.rows, question.columns)
            self.tell(CellsRead(self.store.now, *where, values))
            return
        self.store.mark((question.table,))
        self.deliver_all()
        if self._questions.get(place) is not question:
            return
        self.tell(ScanBegun(self.store.now, question.container, question.table, question.start))
        answer = self._scan(question, most)
        for _ in range(writes):
            self._write()  # while the barrier behind the scan is awaited
        self.store.mark((question.table,))
        self.deliver_all()
        if self._questions.get(place) is question:
            del self._questions[place]
            self.tell(replaced_now(answer, self.store.now))

    def _scan(self, question: ScanContainer, most: int) -> ContainerScanned:
        truth = self.oracle.truth(question.container, question.table)
        keys = sorted(key for key in truth if key[0] >= question.start)
        rows = sorted({row for row, _ in keys})
        stop = rows[most] if len(rows) > most else None
        keys = [key for key in keys if stop is None or key[0] < stop]
        return ContainerScanned(
            self.store.now,
            question.container,
            question.table,
            [row for row, _ in keys],
            [column for _, column in keys],
            [truth[key] for key in keys] if question.values else [],
            marked=frozenset(self._own_rows.get(question.table, ())),
            start=question.start,
            stop=stop,
        )

    def _run(self) -> None:
        """Something comes of a run: it begins, ends well or badly, or ends its agent."""
        if not self._runs:
            return
        name = self.chance.choice(list(self._runs))
        launch = self._runs[name]
        if self.chance.random() < 0.5:
            self.tell(RunStarted(self.store.now, name, launch.run, launch.attempt))
            if self.chance.random() < self._poisoned:
                self._restart()
                return
            for _ in range(self.chance.randint(0, 2)):
                self._write_output(launch)
        if self.chance.random() < self._failing:
            del self._runs[name]
            self.tell(RunFailed(self.store.now, name, launch.run, launch.attempt, "by chance"))
        elif self.chance.random() < 0.7:
            self._finish(name)

    def _write_output(self, launch: Launch) -> None:
        written = next(a for a in self.spec.actions if a.name == launch.action).writes
        table = flows.OUTPUT if written == ("output",) else "t"
        cells = {}
        for _ in range(self.chance.randint(1, 6)):
            row, column = self.chance.choice(flows.ROWS), self.chance.choice(flows.COLUMNS[:2])
            cells[row, column] = Cell(row, column, UpdateKind.PUT, self._value())
        origin = Origin(flows.NAME, launch.action, launch.run, launch.attempt)
        self._write_cells(table, list(cells.values()), origin)
        for container, base in self.taken[launch.action][-1].bases.items():
            if table in {c.table for c in self.oracle.parts(container)}:
                base.known = None  # x′ follows what the action itself writes

    def _finish(self, name: str) -> None:
        launch = self._runs.pop(name, None)
        action = self.engine.actions[name]
        if launch is None:
            if action.state is RunState.BACKOFF:
                self._pass(60.0)
            return
        if name in self._deadly:
            self.tell(RunStarted(self.store.now, name, launch.run, launch.attempt))
            self._runs[name] = launch
            self._restart()
            return
        self.store.mark(TABLES)
        self.deliver_all()
        if self.engine.actions[name].run is None:
            return
        stack = self.taken[name]
        self.taken[name] = stack[-1:]
        self.committed[name] = launch.cut.without(set(launch.cut.offsets) - self._shown[name])
        self.tell(RunFinished(self.store.now, name, launch.run, launch.attempt))

    def _time(self) -> None:
        self._pass(self.chance.choice((0.5, 3.0, 30.0, 500.0)))

    def _pass(self, seconds: float) -> None:
        """Let time pass; ticks come when the engine asked for them."""
        until = self.store.now + seconds
        for _ in range(1000):
            if self._notify_at is None or self._notify_at > until:
                break
            passed = max(0.0, self._notify_at - self.store.now)
            self.store.now += passed
            self._age(passed)
            self._notify_at = None
            self.tell(Tick(self.store.now))
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
        self.tell(ClockMoved(self.store.now, by))

    def mend(self) -> None:
        """Have all runs end well from here on, and what was given up go on."""
        self._deadly.clear()
        self._failing = self._poisoned = 0.0
        for name, action in self.engine.actions.items():
            if action.state is RunState.QUARANTINED:
                self.tell(Released(self.store.now, name))

    def begin_anew(self, storage: Storage) -> None:
        """Have another agent go on at once, with cells in another storage."""
        self._save()
        self._storage = storage
        self._restart()

    def _restart(self) -> None:
        """The agent ends, and another goes on from what was saved."""
        saved, saved_at, lived = self._saved
        away = self.chance.choice((0.0, 5.0, 200.0))
        leapt = self.chance.choice((0.0, 0.0, -86_400.0, -50.0))
        self.store.now += away + leapt
        # What a clock that was set back meanwhile hides, nobody can know.
        self.lived = lived + max(0.0, self.store.now - saved_at)
        self.lived_at_most += away
        self._notify_at = None
        self._questions.clear()
        self._runs.clear()
        self._agents += 1
        number = self._agents << 40  # an agent's segments are numbered above those of all before
        self.engine = Engine(self.spec, saved, storage=self._storage, log_number=number)
        cut = self.engine.cut
        self._read = {
            (topic, partition): cut.position(topic, partition)
            for topic, logs in self.store.topics.items()
            for partition in range(len(logs))
        }
        self.tell(Restarted(self.store.now))

    def _wave(self) -> None:
        self.store.mark(flows.INPUTS)
        self.deliver_all()
        self.tell(WaveEnded(self.store.now, ("feed",)))

    def _ask(self) -> None:
        name = self.chance.choice([a.name for a in self.spec.actions if a.role is Role.STEP])
        kind = self.chance.choice((RunRequested, RetryRequested, Released))
        self.tell(kind(self.store.now, name))

    def _pause(self) -> None:
        self.tell((Resumed if self.engine.state.paused else Paused)(self.store.now))

    def edit(self) -> None:
        """Somebody edits limits; what was watched before goes on counting."""
        self.edits += 1
        self.certain = False
        former = {w.id: w for w in self.spec.containers}
        own = {a.name: a.own for a in self.spec.actions}
        watched = set(pairs(self))
        self.spec = flows.edited(self.spec, self.chance)
        # What counts in another way begins anew.
        others = {w.id for w in self.spec.containers if w != former[w.id]}
        others_own = {a.name for a in self.spec.actions if a.own != own[a.name]}
        watched = {(a, c) for a, c in watched if c not in others and a not in others_own}
        step = self.step + 1
        self.tell(SpecificationChanged(self.store.now, self.spec))
        for action in self.spec.actions:
            read = {updates_topic(table) for table in self.spec.tables(action)}
            self._shown[action.name] = self._shown.get(action.name, read) & read
            known = self.committed.get(action.name)
            if known is not None:
                self.committed[action.name] = known.without(set(known.offsets) - read)
        watching = set(pairs(self))
        for name, stack in self.taken.items():
            for taken in stack:
                kept = {c: base for c, base in taken.bases.items() if (name, c) in watching}
                taken.bases = kept
        for action, container in watching:
            for taken in self.taken[action]:
                if (action, container) not in watched:
                    taken.bases[container] = Base(self._position(), step)
                elif container in taken.bases:
                    taken.bases[container].known = None

    def _sample(self) -> None:
        used = {Resource.CPU: self.chance.choice((1.0, 50.0, 99.0))}
        sample = ResourceSample("host", self.store.now, used)
        self.tell(ResourcesSampled(self.store.now, (sample,)))

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
        self.tell(ReconciliationDue(self.store.now))

    def _retention(self) -> None:
        """Kafka deletes what was not read yet."""
        # What is read again was read: that Kafka deletes it is no loss.
        cut = self.engine.cut
        read = {
            (topic, partition): max(
                self._read.get((topic, partition), 0), cut.position(topic, partition)
            )
            for topic, logs in self.store.topics.items()
            for partition, log in enumerate(logs)
        }
        unread = [
            (topic, partition)
            for topic, partition in read
            if read[topic, partition] + 1 < len(self.store.topic(topic)[partition])
        ]
        if not unread:
            return
        self.certain = False
        topic, partition = self.chance.choice(unread)
        until = read[topic, partition] + 1
        self._read[topic, partition] = until
        self.store.delete_records(topic, partition, until)
        self.tell(PartitionReset(self.store.now, topic, partition))

    # -- looks -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let all that was written be told and read, and compare."""
        for _ in range(200):
            self.store.mark(TABLES)
            self.deliver_all()
            if not self._questions:
                break
            self._answer_one(1 << 20, 0)
        require(holds=not self._questions, words=f"asked for ever: {list(self._questions)}")
        self._pass(0.0)
        self._check_launched()
        self.oracle.check_contents()
        self.oracle.check_counts()
        self.oracle.check_gates()
        check_invariants(self.engine)
        self.engine.explain(self.store.now)

    def _check_launched(self) -> None:
        self.oracle.history.take(self.store.topics)
        if not self._questions:
            self.oracle.check_launched()


def replaced_now(answer: ContainerScanned, now: float) -> ContainerScanned:
    """Return an answer as it is handed over now."""
    return ContainerScanned(now, *(getattr(answer, name) for name in answer.__struct_fields__[1:]))
