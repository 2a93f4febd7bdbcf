"""The life of one dataflow with its agents in a hostile world: what happens, happens by chance.

No case is written here for any fault: happenings are drawn, the world remembers what they were, and
an oracle computes from that what must be true.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from contradiction import require
from engine.oracle import Base
from hostile_store import Cell, Fate

from agents.dataflows import INPUTS, STEPS, DataflowFile
from agents.editing import Editing
from agents.oracle import AgentOracle, Commits
from agents.people import People
from agents.process import GRACE, HostileAgent
from agents.wave_watch import WAVES_LATE, WaveWatch
from agents.world import LEASE, HostileWorld
from agents.writing import FATES, Writing, stand, value
from headgate.agent.dataflow.runtime import Runtime
from headgate.engine import DataflowSpec, Engine
from headgate.events import ContainerId, UpdateKind
from headgate.flows import parse_dataflow

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
_DEAD = LEASE + GRACE + 15.0  # seconds after which an observer counts as lost
_MOST_PARTITIONS = 5


class AgentLife:
    """One dataflow, its agents, their world, and what may happen to them."""

    most_attempts = 16
    """Of a run, whatever becomes of them: each failure, and three losses before each."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        file = DataflowFile(chance)
        self.world = HostileWorld(parse_dataflow(file.text(), "file"), chance)
        stand(self.world, chance)
        self.world.commits = Commits(self.world)
        self.world.unsure = chance.choice((0.0, 0.0, 0.2))
        self.oracle = AgentOracle(self)
        self.leapt = False
        self.certain = False
        self.people = People(self)
        self.editing = Editing(self, file)
        self.wave_watch = WaveWatch(self)
        self._tempers = {name: chance.choice(some) for name, some in TEMPERS.items()}
        self.writing = Writing(self, {fate: chance.choice(some) for fate, some in FATES.items()})
        self._lost_at = -2 * _DEAD
        self._happenings: dict[str, Callable[[], None]] = {
            "write": self.writing.write,
            "step": self._step,
            "time": self._time,
            "rest": self._rest,
            "mark": self.people.mark,
            "ask": self.people.ask,
            "mend": self.people.mend,
            "pause": self.people.pause,
            "cancel": self.people.cancel,
            "edit": self.editing.edit,
            "kill": self._kill,
            "take_over": self._take_over,
            "hand_over": self._hand_over,
            "observer": self._observer,
            "stand": self._stand_still,
            "grow": self._grow,
            "leap": self._leap,
            "damage": self.writing.damage,
            "away": self._away,
            "fail": self._fail,
            "hang": self._hang,
            "end_agents": self._end_agents,
            "retention": self.writing.delete_records,
            "repeat": self.writing.repeat,
        }
        self.world.live_on(1.0)
        self.editing.begin()

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
        return self.editing.base(action, container)

    @property
    def rehearsed(self) -> bool:
        """Whether runs were decided on that nobody launched."""
        return any(record.outcome == "shadow" for record in self.runtime.history.records)

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
        self.disturbed()
        self.world.live_on(_DEAD)
        if waves.seconds is not None:
            self.world.live_on(2 * waves.seconds + WAVES_LATE)
        require(holds=self.works, words="no agent has the dataflow at the end")
        self.wave_watch.check()
        self.people.check_answers()
        self.oracle.check_needs()
        self.editing.make_eager()
        self.world.live_on(30.0)
        for table in INPUTS:
            cell = Cell(b"last", b"c:v", UpdateKind.PUT, value(self.chance))
            self.writing.write_to(table, [cell], Fate.TOLD)
        period = self.world.dataflow.waves.seconds
        self.world.live_on(2.0 if period is None else 2 * period + 10.0)
        self.people.mark_now()
        self.world.live_on(100.0)
        self._look_at_rest()
        # What comes after it may wait for the end of steps that have nothing to do.
        self.oracle.check_nothing_pending(STEPS[:1])
        for action in self.spec.actions:
            if action.name in STEPS:  # some look at other containers than they read
                self.people.ask_of(lambda runtime, now: runtime.commands.run(action.name, now))  # noqa: B023
                self.world.live_on(10.0)
        self.oracle.check_nothing_pending(STEPS)
        self.oracle.check_shown()
        self.oracle.check_attempts()
        self.oracle.check_decisions()
        status = self.runtime.reporting.status(self.world.now)
        words = f"of {status.waves} waves {status.settled} are settled at the end"
        require(holds=status.settled == status.waves >= self.people.waves, words=words)

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
        if self.editing.shadow:
            self.editing.submit(shadow=False)
        for _ in range(3):
            self.people.ask_of(lambda runtime, now: runtime.commands.resume(now))
            self.people.ask_of(lambda runtime, now: runtime.commands.release(None, now))
            if self.works:
                break
            # It finds that another has taken over while it stood still; whoever asked asks again.
            world.live_on(LEASE + 10.0)

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
            self.disturbed()
            return
        self.wave_watch.disturbed(self.world.begun_at)
        if self.world.begun_at >= self.world.lived - 35.0:
            self.oracle.begin_anew()
        if not self.editing.shadow and not self.world.hanging:
            self.oracle.check_time()
        self.wave_watch.check()

    def disturbed(self) -> None:
        """Something has happened that may put off what is due."""
        self.wave_watch.disturbed(self.world.lived)
        self.oracle.begin_anew()

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
            self.people.ask_of(lambda runtime, _: runtime.drain())
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
        self.disturbed()

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
            self.chance.choice((self.writing.write, self._step, self.people.mark))()
        world.live_on(self.chance.choice((1.0, 20.0, 60.0)))
        setattr(world, which, False)
        self.disturbed()

    def _fail(self) -> None:
        self.world.failing[self.chance.choice(STEPS)] = self.chance.choice((1, 1, 2, 5))

    def _hang(self) -> None:
        if self.world.hanging:
            self.world.hanging.clear()
        else:
            self.world.hanging.add(self.chance.choice(STEPS))
        self.disturbed()

    def _end_agents(self) -> None:
        """Steps of an action end their agent, from here on or no more."""
        if self.world.deadly:
            self.world.deadly.clear()
        else:
            self.world.deadly.add(self.chance.choice(STEPS))
