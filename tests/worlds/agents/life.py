"""The life of one dataflow with its agents in a hostile world: what happens, happens by chance.

No case is written here for any fault: happenings are drawn, the world remembers what they were, and
an oracle computes from that what must be true.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from contradiction import require
from engine.oracle import Base
from hostile_store import Cell, Fate
from msgspec.structs import replace

from agents.dataflows import INPUTS, STEPS, DataflowFile
from agents.kafka import Damaged
from agents.oracle import AgentOracle, Commits, differing, start_of
from agents.process import GRACE, HostileAgent
from agents.world import LEASE, HostileWorld
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.engine import DataflowSpec, Engine
from headgate.engine.actions.runs import RunState
from headgate.events import (
    ContainerId,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)
from headgate.flows import WaveEnd, parse_dataflow

ROWS = tuple(b"r%02d" % n for n in range(12))
COLUMNS = (b"c:v", b"c:v", b"c:w")
TEMPERS: dict[str, tuple[float, ...]] = {
    "write": (8.0,),
    "step": (8.0,),
    "time": (2.0, 5.0),
    "rest": (2.0,),
    "mark": (1.0, 3.0),
    "ask": (0.0, 0.5, 2.0),
    "mend": (0.5, 1.0),
    "pause": (0.0, 0.0, 0.5),
    "cancel": (0.0, 0.0, 0.5),
    "edit": (0.0, 0.0, 1.0),
    "kill": (0.0, 1.0, 3.0),
    "take_over": (0.0, 0.0, 1.0),
    "hand_over": (0.0, 0.0, 0.5),
    "observer": (0.0, 0.0, 1.0),
    "stand": (0.0, 0.0, 1.0),
    "grow": (0.0, 0.0, 0.5),
    "leap": (0.0, 0.0, 0.5),
    "damage": (0.0, 0.3, 0.7),
    "away": (0.0, 0.0, 0.7),
    "fail": (0.0, 1.0),
    "hang": (0.0, 0.0, 1.0),
    "end_agents": (0.0, 0.0, 0.3),
    "retention": (0.0, 0.0, 0.3),
    "repeat": (0.0, 0.0, 1.0),
}
"""How often each happens in a life, beside the others; a life draws one of them for each."""
FATES: dict[Fate, tuple[float, ...]] = {
    Fate.TOLD: (10.0,),
    Fate.LATE: (0.0, 2.0),
    Fate.UNKNOWN: (0.0, 0.0, 1.0),
    Fate.REFUSED: (0.0, 0.0, 1.0),
    Fate.PASSED: (0.0, 0.0, 0.5),
    Fate.LOST: (0.0, 0.0, 0.5),
}
_WAVES_LATE = 50.0  # seconds by which a wave may be late, beside twice its period
_DEAD = LEASE + GRACE + 15.0  # seconds after which an observer counts as lost
_MOST_PARTITIONS = 5


class AgentLife:
    """One dataflow, its agents, their world, and what may happen to them."""

    most_attempts = 16
    """Of a run, whatever becomes of them: each failure, and three losses before each."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self._file = DataflowFile(chance)
        self.world = HostileWorld(parse_dataflow(self._file.text(), "file"), chance)
        self._stand()
        self.world.commits = Commits(self.world)
        self.world.unsure = chance.choice((0.0, 0.0, 0.2))
        self.oracle = AgentOracle(self)
        self.leapt = self.repeated = False
        self.shadow = False
        self.certain = False
        self.waves = 0
        """How many waves somebody knows of."""
        self._bases: dict[tuple[str, str], Base | None] = {}
        self._read_late: set[tuple[str, str]] = set()
        """Actions, and tables that they have not read from the submit on."""
        self._promised: dict[str, str] = {}
        self._waiting: dict[str, float] = {}
        self._unwaved: tuple[int, float] | None = None
        self._tempers = {name: chance.choice(some) for name, some in TEMPERS.items()}
        self._fates = {fate: chance.choice(some) for fate, some in FATES.items()}
        self._quiet_since = 0.0
        self._lost_at = -2 * _DEAD
        self._happenings: dict[str, Callable[[], None]] = {
            "write": self._write,
            "step": self._step,
            "time": self._time,
            "rest": self._rest,
            "mark": self._mark,
            "ask": self._ask,
            "mend": self._mend,
            "pause": self._pause,
            "cancel": self._cancel,
            "edit": self._edit,
            "kill": self._kill,
            "take_over": self._take_over,
            "hand_over": self._hand_over,
            "observer": self._observer,
            "stand": self._stand_still,
            "grow": self._grow,
            "leap": self._leap,
            "damage": self._damage,
            "away": self._away,
            "fail": self._fail,
            "hang": self._hang,
            "end_agents": self._end_agents,
            "retention": self._retention,
            "repeat": self._repeat,
        }
        self.world.live_on(1.0)
        for action, container, base in start_of(self):
            self._bases[action, container] = base

    def _stand(self) -> None:
        """Have rows stand that nobody will tell of."""
        for table in INPUTS:
            for row in self.chance.sample(ROWS, self.chance.choice((0, 0, 4, 10))):
                self.world.telling.apply(table, [Cell(row, b"c:v", UpdateKind.PUT, self._value())])

    # -- what the oracles ask for ------------------------------------------------------------------

    @property
    def spec(self) -> DataflowSpec:
        """The dataflow as it is now."""
        return self.world.dataflow.spec

    @property
    def store(self) -> Any:
        """Tables and topics, and who tells of them."""
        return self.world.telling

    @property
    def agent(self) -> HostileAgent:
        """The newest agent."""
        return self.world.agents[-1]

    @property
    def works(self) -> bool:
        """Whether the newest agent has the dataflow, and nothing that it needs is away."""
        world = self.world
        away = world.kafka_away or world.table_away
        return bool(world.agents) and self.agent.works and not self.agent.stopped and not away

    @property
    def runtime(self) -> Runtime:
        """The newest agent's runtime."""
        assert self.agent.runtime is not None
        return self.agent.runtime

    @property
    def engine(self) -> Engine:
        """The newest agent's engine."""
        return self.runtime.state.engine

    @property
    def agents_ended(self) -> bool:
        """Whether one agent has ended so lately that its gates may be closed."""
        return self.leapt or self.world.lived < self.world.begun_at + 15.0

    def base(self, action: str, container: ContainerId) -> Base | None:
        """Return from where on a container counts for an action; None where nobody can say."""
        known = None if self.rehearsed else self._bases.get((action, container))
        cut = self._commits.cuts.get(action)
        if known is None or cut is None:
            return known
        topics = {
            updates_topic(table)
            for watched in self.spec.containers
            if watched.id == container
            for table in watched.container.tables
        }
        if any(topic not in cut.offsets or cut.has_lost(topic) for topic in topics):
            return None
        later = {
            topic: tuple(
                max(at, known.cut.position(topic, p)) for p, at in enumerate(cut.offsets[topic])
            )
            for topic in topics
        }
        return Base(type(cut)(later), 0)

    @property
    def _commits(self) -> Commits:
        assert isinstance(self.world.commits, Commits)
        return self.world.commits

    def told_rows(self, action: str, table: str) -> set[bytes]:
        """Return the rows of which somebody told since the submit; none of what is read later."""
        if (action, table) in self._read_late:
            return set()
        topic = updates_topic(table)
        start = self.runtime.state.start
        return {
            row
            for partition, log in enumerate(self.world.topic(topic))
            for message in log[max(0, start.position(topic, partition)) :]
            if isinstance(message, UpdateBatch)
            for row, column in zip(message.rows, message.columns, strict=True)
            if column == b"c:v"
        }

    def said(self, action: str) -> str:
        """Return what the engine says of an action."""
        explained = self.engine.explain(self.world.now)
        return next(a.words for a in explained.actions if a.action == action)

    # -- a life ------------------------------------------------------------------------------------

    def live(self, happenings: int) -> None:
        """Have so many things happen, and look at the end whether all is well."""
        names = list(self._tempers)
        weights = [self._tempers[name] for name in names]
        for _ in range(happenings):
            self._happenings[self.chance.choices(names, weights)[0]]()
        self.end()

    def end(self) -> None:
        """Let all that was begun end well: then nothing is under way, and all agrees."""
        self.mend()
        waves = self.world.dataflow.waves
        self._disturbed()
        self.world.live_on(_DEAD)
        if waves.seconds is not None:
            self.world.live_on(2 * waves.seconds + _WAVES_LATE)
        require(holds=self.works, words="no agent has the dataflow at the end")
        self._check_waves()
        self._check_answers()
        self.oracle.check_needs()
        self._file.eager = self._file.has_aside = True
        self._submit(shadow=False)
        self.world.live_on(30.0)
        for table in INPUTS:
            self._write_to(table, [Cell(b"last", b"c:v", UpdateKind.PUT, self._value())], Fate.TOLD)
        period = self.world.dataflow.waves.seconds
        self.world.live_on(2.0 if period is None else 2 * period + 10.0)
        self._mark_now()
        self.world.live_on(100.0)
        self._look_at_rest()
        # What comes after it may wait for the end of steps that have nothing to do.
        self.oracle.check_nothing_pending(STEPS[:1])
        for action in self.spec.actions:
            if action.name in STEPS:  # some look at other containers than they read
                self._ask_of(lambda runtime, now: runtime.commands.run(action.name, now))  # noqa: B023
                self.world.live_on(10.0)
        self.oracle.check_nothing_pending(STEPS)
        self.oracle.check_shown()
        self.oracle.check_attempts()
        self.oracle.check_decisions()
        status = self.runtime.reporting.status(self.world.now)
        words = f"of {status.waves} waves {status.settled} are settled at the end"
        require(holds=status.settled == status.waves >= self.waves, words=words)

    def mend(self) -> None:
        """Have nothing fail from here on, and what was given up or paused go on."""
        world = self.world
        world.kill_at = 0
        world.kafka_away = world.table_away = False
        world.unsure = 0.0
        world.failing.clear()
        world.hanging.clear()
        world.deadly.clear()
        for ear in world.ears.values():
            ear.stopped_until = 0.0
        for agent in world.agents:
            agent.stopped_until = 0.0
        world.live_on(LEASE + 10.0)
        if self.shadow:
            self._submit(shadow=False)
        for _ in range(3):
            self._ask_of(lambda runtime, now: runtime.commands.resume(now))
            self._ask_of(lambda runtime, now: runtime.commands.release(None, now))
            if self.works:
                break
            # It finds that another has taken over while it stood still; whoever asked asks again.
            world.live_on(LEASE + 10.0)

    # -- what people do ----------------------------------------------------------------------------

    def _ask_of(self, what: Callable[[Runtime, float], Any]) -> Any:
        """Ask the newest agent for something; None where there is no answer, or it refuses."""
        found: list[Any] = []
        if self.works:
            with suppress(Refused):
                self.agent.ask(lambda runtime, now: found.append(what(runtime, now)))
        return found[0] if found else None

    def _mark(self) -> None:
        number = self._mark_now()
        if number is not None and self.chance.random() < 0.7:
            told: list[WaveStatus] = []
            self._ask_of(lambda runtime, now: runtime.waves.when_settled(number, told.append))
            agent = self.agent
            for _ in range(self.chance.choice((0, 20, 400))):
                if told:
                    break
                self.world.step()
            if told and told[0].settled and agent is self.agent and self.works:
                self.oracle.check_settled(told[0])

    def _mark_now(self) -> int | None:
        number = self._ask_of(lambda runtime, now: runtime.waves.mark((), now))
        self.waves = max(self.waves, number or 0)
        return None if number is None else int(number)

    def _ask(self) -> None:
        action = self.chance.choice([a.name for a in self.spec.actions if a.name in STEPS])
        answer = self._ask_of(lambda runtime, now: runtime.commands.run(action, now))
        if answer is None:
            return
        words = f"a run of {action} is parked without a word"
        require(holds=bool(answer.run or answer.waits), words=words)
        if answer.run is not None:
            self._promised[answer.run] = action
        else:
            self._waiting[action] = self.world.lived

    def _mend(self) -> None:
        """Somebody looks after what failed."""
        kind = self.chance.choice(("release", "retry", "retry"))
        self._ask_of(lambda runtime, now: getattr(runtime.commands, kind)(None, now))

    def _pause(self) -> None:
        if self.works and self.engine.state.paused:
            self._ask_of(lambda runtime, now: runtime.commands.resume(now))
        else:
            self._ask_of(lambda runtime, now: runtime.commands.pause(now))
        self._disturbed()

    def _cancel(self) -> None:
        action = self.chance.choice(STEPS)
        self._ask_of(lambda runtime, _: runtime.commands.cancel(action))

    def _edit(self) -> None:
        kind = self.chance.choice(("limits", "limits", "code", "tables", "waves", "shadow"))
        match kind:
            case "limits":
                self._file.limits()
            case "tables":
                self._file.has_aside = not self._file.has_aside
            case "waves":
                self._file.waves()
            case _:
                pass
        self._submit(shadow=self.shadow != (kind == "shadow"))

    def _submit(self, *, shadow: bool) -> None:
        """Submit the file as it is now."""
        world = self.world
        if not self.works:
            return
        before, watched = self.spec, {(a.name, b.container) for a, b in _bounds(self.spec)}
        read = {action.name: before.tables(action) for action in before.actions}
        dataflow = parse_dataflow(self._file.text(), "file")
        former = self.runtime.state.definition
        folder = self.chance.choice((".", "other"))
        definition = world.store.define(
            replace(former, source=dataflow.source, directory=folder, shadow=shadow)
        )
        world.dataflow, self.shadow = dataflow, shadow
        self._ask_of(lambda runtime, now: runtime.commands.change(definition, dataflow, now))
        gone = before.tables() - self.spec.tables()
        for action in self.spec.actions:
            other = self.spec.tables(action) - read[action.name]
            self._commits.forget(action.name, {updates_topic(table) for table in gone | other})
            self._read_late |= {(action.name, table) for table in gone | other}
        others = differing(before.containers, self.spec.containers)
        for action, bound in _bounds(self.spec):
            place = (action.name, bound.container)
            if place not in watched or bound.container in others or gone:
                here = self.works and self.runtime.state.definition.revision == definition.revision
                self._bases[place] = Base(self.runtime.state.position, 0) if here else None
        self._disturbed()
        if not self.works:
            world.live_on(LEASE + 5.0)

    # -- what is written ---------------------------------------------------------------------------

    def _value(self) -> bytes:
        kind = self.chance.random()
        if kind < 0.05:
            return self.chance.choice(
                (b"", b"\xff\xfe", b"null", b"nan", b'{"v":' * 1200, b"9" * 4000)
            )
        number = self.chance.randrange(100)
        return b'{"v":%d}' % number if self.chance.random() < 0.3 else b"%d" % number

    def _write(self) -> None:
        table = self.chance.choice(INPUTS)
        fates = list(self._fates)
        fate = self.chance.choices(fates, [self._fates[fate] for fate in fates])[0]
        cells: dict[tuple[bytes, bytes], Cell] = {}
        for _ in range(self.chance.choice((1, 1, 2, 6))):
            row, column = self.chance.choice(ROWS), self.chance.choice(COLUMNS)
            kind = self.chance.random()
            if kind < 0.05:
                self._write_to(table, [Cell(row, b"", UpdateKind.DELETE_ROW)], fate)
            elif kind < 0.15:
                cells[row, column] = Cell(row, column, UpdateKind.DELETE_COLUMN)
            else:
                cells[row, column] = Cell(row, column, UpdateKind.PUT, self._value())
        if self.chance.random() < 0.02:
            for number in range(500):
                cells[b"w%03d" % number, b"c:v"] = Cell(
                    b"w%03d" % number, b"c:v", UpdateKind.PUT, self._value()
                )
        if cells:
            self._write_to(table, list(cells.values()), fate)

    def _write_to(self, table: str, cells: list[Cell], fate: Fate) -> None:
        told = self.world.write_cells(table, cells, fate)
        seen = any(cell.column == b"c:v" and cell.row in ROWS for cell in cells)
        quiet = self.world.dataflow.waves.end is WaveEnd.QUIET
        if told and seen and fate is Fate.TOLD and self.works and table in self.spec.tables():
            if self._unwaved is None:
                self._unwaved = (self.agent.waves(), self.world.lived)
            elif quiet:
                self._unwaved = (self._unwaved[0], self.world.lived)

    def _damage(self) -> None:
        """Something comes into a topic that nothing of headgate wrote."""
        table = self.chance.choice(INPUTS)
        logs = self.world.topic(updates_topic(table))
        damaged = self.chance.choice((None, b"", b"junk"))
        self.chance.choice(logs).append(Damaged(damaged))  # type: ignore[arg-type]

    def _repeat(self) -> None:
        if not self.world.kafka_away:
            self.repeated = True
            self.world.telling.repeat(self.chance.choice(INPUTS))

    def _retention(self) -> None:
        """Kafka deletes what was not read yet, or what was."""
        topic = updates_topic(self.chance.choice(INPUTS))
        logs = self.world.topic(topic)
        partition = self.chance.randrange(len(logs))
        until = self.chance.randint(0, len(logs[partition]))
        self.world.telling.delete_records(topic, partition, until)

    # -- what passes -------------------------------------------------------------------------------

    def _step(self) -> None:
        for _ in range(self.chance.randint(1, 40)):
            self.world.step()

    def _time(self) -> None:
        for _ in range(self.chance.choice((1, 1, 4, 12))):
            self.world.live_on(self.chance.choice((3.0, 10.0, 30.0)))
            self._look_at_time()

    def _look_at_time(self) -> None:
        if not self.works:
            self._disturbed()
            return
        self._quiet_since = max(self._quiet_since, self.world.begun_at)
        if self.world.begun_at >= self.world.lived - 35.0:
            self.oracle.begin_anew()
        if not self.shadow and not self.world.hanging:
            self.oracle.check_time()
        self._check_waves()

    def _disturbed(self) -> None:
        """Something has happened that may put off what is due."""
        self._quiet_since = self.world.lived
        self.oracle.begin_anew()

    def _check_waves(self) -> None:
        """A wave that is due ends, whoever has the dataflow."""
        waves = self.world.dataflow.waves
        if self._unwaved is None or waves.seconds is None:
            return
        known, since = self._unwaved
        if self.agent.waves() > known:
            self._unwaved = None
            return
        passed = self.world.lived - max(since, self._quiet_since)
        words = f"nothing has ended a wave for {passed:.0f} s, {waves}"
        require(holds=passed <= 2 * waves.seconds + _WAVES_LATE, words=words)

    def _rest(self) -> None:
        self.world.live_on(2.0)
        self._look_at_rest()

    def _look_at_rest(self) -> None:
        """Look, where nothing is under way and all was read."""
        if not self.works or self.world.readings or self.agent.has_work():
            return
        late = any(o.late or o.unshown for o in self.world.telling.observers)
        late |= self.world.lived < self._lost_at + 2 * _DEAD
        scanning = any(cells.scans.current is not None for cells in self.engine.cells.values())
        if not late and not scanning and self.runtime.state.watching:
            self.oracle.look()

    # -- what fails --------------------------------------------------------------------------------

    def _kill(self) -> None:
        some = (frozenset({"agent"}), frozenset({"worker"}), frozenset({"agent", "worker"}))
        if self.works and self.chance.random() < 0.4:
            self.agent.alive = False  # in the midst of nothing
            return
        self.world.kill_soon(self.chance.randint(1, 30), self.chance.choice(some))

    def _take_over(self) -> None:
        """The agent stands still for longer than its lease, and another goes on; then it does."""
        if self.works:
            self.agent.stopped_until = self.world.lived + self.chance.choice((15.0, 60.0))
            self.world.live_on(LEASE + 1.0)
            self.world.start_agent()

    def _hand_over(self) -> None:
        """The agent is told to end, and ends as it should."""
        if self.works:
            self._ask_of(lambda runtime, _: runtime.drain())
            if self.chance.random() < 0.5:
                self.world.live_on(1.0)
            if self.agent.works:
                self.agent.end(None)

    def _observer(self) -> None:
        observer = self.chance.choice(self.world.telling.observers)
        if self.world.kafka_away:
            return
        if self.chance.random() < 0.6:
            self.world.restart_observer(observer)
        else:
            self.world.lose_observer(observer)
            self._lost_at = self.world.lived

    def _stand_still(self) -> None:
        """An observer does nothing for a while."""
        observer = self.chance.choice(self.world.telling.observers)
        self.world.stop_observer(observer, self.chance.choice((3.0, 12.0, 25.0)))
        self._disturbed()

    def _grow(self) -> None:
        telling = self.world.telling
        if telling.partitions < _MOST_PARTITIONS:
            telling.grow(telling.partitions + self.chance.randint(1, 2))

    def _leap(self) -> None:
        self.leapt = True
        self.world.leap(self.chance.choice((-86_400.0, 86_400.0, -7.0, 7.0)))

    def _away(self) -> None:
        """Kafka or the state table does not answer for a while."""
        world = self.world
        which = self.chance.choice(("kafka_away", "table_away"))
        setattr(world, which, True)
        for _ in range(self.chance.randint(0, 3)):
            self.chance.choice((self._write, self._step, self._mark))()
        world.live_on(self.chance.choice((1.0, 20.0, 60.0)))
        setattr(world, which, False)
        self._disturbed()

    def _fail(self) -> None:
        self.world.failing[self.chance.choice(STEPS)] = self.chance.choice((1, 1, 2, 5))

    def _hang(self) -> None:
        if self.world.hanging:
            self.world.hanging.clear()
        else:
            self.world.hanging.add(self.chance.choice(STEPS))
        self._disturbed()

    def _end_agents(self) -> None:
        """Steps of an action end their agent, from here on or no more."""
        if self.world.deadly:
            self.world.deadly.clear()
        else:
            self.world.deadly.add(self.chance.choice(STEPS))

    # -- answers -----------------------------------------------------------------------------------

    def _check_answers(self) -> None:
        """Whoever asked for a run or a wave has got it, or is told why not."""
        known = {record.run for record in self.runtime.history.records}
        for run, action in self._promised.items():
            require(holds=run in known, words=f"nobody knows of {run}, which was asked for")
            ended = next(r for r in self.runtime.history.records if r.run == run).outcome
            words = f"{run} of {action}, which was asked for, is {ended} for ever"
            require(holds=ended not in ("waiting", "running"), words=words)
        for action, asked in self._waiting.items():
            began = any(r.action == action and at >= asked for at, r in self.world.starts)
            state = self.engine.actions[action]
            waits = state.requested or state.state is RunState.QUARANTINED or self.rehearsed
            words = f"a run of {action} was asked for, and nothing has come of it"
            require(holds=began or waits, words=words)

    @property
    def rehearsed(self) -> bool:
        """Whether runs were decided on that nobody launched."""
        return any(record.outcome == "shadow" for record in self.runtime.history.records)


def _bounds(spec: DataflowSpec) -> list[tuple[Any, Any]]:
    return [(action, bound) for action in spec.actions for bound in action.bounds]
