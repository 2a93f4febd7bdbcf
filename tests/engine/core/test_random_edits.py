"""Random edits of random running dataflows: in the end they know what those begun anew would.

A stage's state is what it has read: cells of its container, and what its makers have put out. Each
run puts out what it has read. So what it must know can be worked out from scratch: every cell of
every container that it reads, however far, once for each way.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from msgspec import Struct
from msgspec.structs import replace
from tests.seeds import each_seed

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Bound,
    Codec,
    CodecName,
    DataflowSpec,
    Engine,
    EngineTester,
    FlowId,
    Launch,
    Produced,
    RetryPolicy,
    RunPurpose,
    SequenceBound,
    SpecificationChanged,
    Tick,
    WatchedContainer,
    check_invariants,
)
from headgate.engine.actions.runs import RunState
from headgate.events import Container, ContainerId, Item, updates_topic

COLUMNS = (b"p", b"q", b"r")
NAMES = ("a", "b", "c", "d", "e", "f")
CONTAINERS = (ContainerId("one"), ContainerId("two"))
TOPIC = updates_topic("in")

CODECS = (CodecName.UTF8, CodecName.FLOAT64, CodecName.OPAQUE)
ROWS = (b"", b"r0005", b"r0010", b"r0020")
"""Begins and ends of ranges of rows."""
Write = tuple[int, bytes]
"""Offset and column of a write; no two writes have the same row."""
Cell = tuple[int, bytes, CodecName]
"""Offset and column of a cell, and the codec by which it was read."""
Known = Counter[Cell]


class Contents(Struct, frozen=True):
    """Columns, rows and codec of a container."""

    columns: tuple[bytes, ...]
    start: bytes
    stop: bytes | None
    codec: CodecName

    def watched(self, name: ContainerId) -> WatchedContainer:
        items = (Item("in", b"f", one, self.start, self.stop) for one in self.columns)
        return WatchedContainer(Container(name, tuple(items)), Codec(self.codec))

    def has(self, write: Write) -> bool:
        row = row_of(write[0])
        return (
            write[1] in self.columns
            and self.start <= row
            and (self.stop is None or row < self.stop)
        )


def row_of(offset: int) -> bytes:
    return b"r%04d" % offset


class Shape(Struct, frozen=True):
    """A random dataflow: its containers, and what its stages and its step read."""

    containers: dict[ContainerId, Contents]
    stages: dict[str, tuple[ContainerId | str, ...]]
    """Containers and earlier stages that each stage reads."""
    step: tuple[ContainerId, ...]

    def spec(self) -> DataflowSpec:
        containers = tuple(one.watched(name) for name, one in self.containers.items())
        stages = tuple(_stage(name, reads) for name, reads in self.stages.items())
        bounds = tuple(Bound(one, one, sequence=SequenceBound(2)) for one in self.step)
        step = ActionSpec("step", reads=self.step, bounds=bounds, retry=RetryPolicy(2))
        return DataflowSpec("flow", containers, (*stages, step))


def _stage(name: str, reads: tuple[ContainerId | str, ...]) -> ActionSpec:
    containers = tuple(ContainerId(one) for one in reads if one in CONTAINERS)
    flows = {f"of_{one}": FlowId(one, "u") for one in reads if one not in CONTAINERS}
    bounds = tuple(Bound(one, one, sequence=SequenceBound(1)) for one in containers)
    return ActionSpec(
        name,
        reads=containers,
        bounds=bounds,
        stage=ActionFlows(flows, ("u",)),
        retry=RetryPolicy(2),
    )


def drawn_shape(draw: random.Random) -> Shape:
    names = draw.sample(NAMES, draw.randint(2, 4))
    contents = {name: drawn_contents(draw) for name in CONTAINERS}
    stages = {name: drawn_reads(draw, names[:at]) for at, name in enumerate(names)}
    return Shape(contents, stages, tuple(draw.sample(CONTAINERS, draw.randint(1, 2))))


def drawn_columns(draw: random.Random) -> tuple[bytes, ...]:
    return tuple(sorted(draw.sample(COLUMNS, draw.randint(1, 3))))


def drawn_contents(draw: random.Random) -> Contents:
    start, stop = draw.choice(ROWS[:2]), draw.choice((*ROWS[2:], None, None))
    return Contents(drawn_columns(draw), start, stop, draw.choice(CODECS))


def edited_contents(draw: random.Random, contents: Contents) -> Contents:
    """Return a container with other columns, other rows or another codec."""
    other = drawn_contents(draw)
    match draw.choice(["columns", "rows", "codec"]):
        case "columns":
            return replace(contents, columns=other.columns)
        case "rows":
            return replace(contents, start=other.start, stop=other.stop)
        case _:
            return replace(contents, codec=other.codec)


def drawn_reads(draw: random.Random, before: list[str]) -> tuple[ContainerId | str, ...]:
    """Either a container or some stages: with bounds of both a stage may wait for ever."""
    if not before or draw.random() < 0.3:
        return (draw.choice(CONTAINERS),)
    return tuple(draw.sample(before, draw.randint(1, min(2, len(before)))))


def edited(draw: random.Random, shape: Shape) -> Shape:
    """Return another dataflow: a stage more or less, renamed or rewired, or another container."""
    stages, names = dict(shape.stages), list(shape.stages)
    match draw.choice(["add", "remove", "rename", *["rewire"] * 3, *["container"] * 2, "step"]):
        case "add" if free := [one for one in NAMES if one not in stages]:
            stages[draw.choice(free)] = drawn_reads(draw, names)
        case "remove" if len(names) > 1:
            gone = draw.choice(names)
            del stages[gone]
            for name, reads in stages.items():
                kept = tuple(one for one in reads if one != gone)
                stages[name] = kept or (draw.choice(CONTAINERS),)
        case "rename" if free := [one for one in NAMES if one not in stages]:
            old, new = draw.choice(names), draw.choice(free)
            stages = {
                new if name == old else name: tuple(new if one == old else one for one in reads)
                for name, reads in stages.items()
            }
        case "rewire":
            at = draw.randrange(len(names))
            stages[names[at]] = drawn_reads(draw, names[:at])
        case "step":
            return replace(shape, step=tuple(draw.sample(CONTAINERS, draw.randint(1, 2))))
        case _:
            name = draw.choice(CONTAINERS)
            other = edited_contents(draw, shape.containers[name])
            return replace(shape, containers={**shape.containers, name: other})
    return replace(shape, stages=stages)


class World:
    """A dataflow that runs, and what its actions have been told."""

    def __init__(self, shape: Shape, draw: random.Random) -> None:
        self.shape = shape
        self.draw = draw
        self.tester = EngineTester(shape.spec())
        self.writes: list[Write] = []
        self.committed: dict[str, tuple[Known, int]] = {}
        """Known cells, and the offset up to which the containers were read, by manifest."""
        self.made: dict[str, Known] = {}
        """Cells that are in each increment, by its name."""
        self.shown: dict[str, Known] = defaultdict(Counter)

    def write(self) -> None:
        column = self.draw.choice(COLUMNS)
        self.tester.write("in", {row_of(len(self.writes)): {b"f:" + column: b"1"}})
        self.writes.append((len(self.writes), column))

    def of(self, containers: tuple[ContainerId, ...], since: int, cut: int) -> Known:
        found: Known = Counter()
        for name in containers:
            contents = self.shape.containers[name]
            written = self.writes[max(0, since) : cut]
            found.update((*one, contents.codec) for one in written if contents.has(one))
        return found

    def finish(self, name: str) -> None:
        action = self.tester.engine.actions[name]
        run = action.run
        assert run is not None
        if run.retry_at is not None:
            self.tester.pass_time(100)
            return
        launch = next(one for one in reversed(self.tester.launches(name)) if one.run == run.run)
        if name not in self.tester.engine.stages:
            self.show(launch)
            self.tester.finish(name)
            return
        known, since = self.committed.get(launch.previous, (Counter(), 0))
        if launch.work.purpose is RunPurpose.REBUILD:
            known, since = Counter(), 0
        cut = launch.cut.position(TOPIC, 0)
        came = self.of(action.spec.reads, since, cut)
        for part in launch.work.taken.values():
            for increment in part.read:
                came += self.made[increment.name]
        manifest = f"{name}/{run.run}-{run.attempt}"
        self.committed[manifest] = (known + came, cut)
        self.made[f"{manifest}#u"] = came
        self.tester.finish(name, Produced("u", f"{manifest}#u", None, 1), result=manifest)

    def show(self, launch: Launch) -> None:
        since, cut = (one.position(TOPIC, 0) for one in (launch.since, launch.cut))
        reads = self.tester.engine.actions[launch.action].spec.reads
        self.shown[launch.action] |= self.of(reads, since, cut)

    def active(self) -> list[str]:
        return [name for name, one in self.tester.engine.actions.items() if one.run is not None]

    def edit(self) -> None:
        for _ in range(self.draw.choice([1, 1, 2])):
            other = edited(self.draw, self.shape)
            if self.draw.random() < 0.3:
                self.tester.engine = Engine(other.spec(), self.tester.engine.snapshot())
                self.tester.notify_at = None  # it was the former engine that asked
                self.tester.handle(Tick(self.tester.now))
            else:
                self.tester.handle(SpecificationChanged(self.tester.now, other.spec()))
            self.shape, self.tester.spec = other, other.spec()

    def happen(self) -> None:
        match self.draw.choice(["write", "write", "finish", "finish", "fail", "restart", "edit"]):
            case "write":
                self.write()
            case "finish" if active := self.active():
                self.finish(self.draw.choice(active))
            case "fail" if active := self.active():
                name = self.draw.choice(active)
                run = self.tester.engine.actions[name].run
                if run is not None and run.retry_at is None:
                    self.tester.fail(name)
            case "restart":
                self.tester.restart()
            case "edit":
                self.edit()
        self.release()

    def release(self) -> None:
        for name, action in self.tester.engine.actions.items():
            if action.state is RunState.QUARANTINED:
                self.tester.release(name)

    def settle(self) -> None:
        for _ in range(500):
            active = self.active()
            if not active:
                return
            self.finish(active[0])
            self.release()
        raise AssertionError(f"they run for ever: {self.active()}")

    def wanted(self) -> dict[str, Known]:
        """Work out what each stage must know."""
        found: dict[str, Known] = {}
        waiting = dict(self.shape.stages)
        while waiting:
            for name, reads in tuple(waiting.items()):
                if any(one in waiting for one in reads):
                    continue
                containers = tuple(ContainerId(one) for one in reads if one in CONTAINERS)
                known = self.of(containers, 0, len(self.writes))
                for one in reads:
                    known += found.get(one, Counter())
                found[name] = known
                del waiting[name]
        return found


@each_seed(40, 1000)
def test_after_any_edits_a_dataflow_knows_what_one_begun_anew_would(seed: int) -> None:
    draw = random.Random(seed)
    world = World(drawn_shape(draw), draw)
    for _ in range(draw.randint(10, 40)):
        world.happen()
    world.settle()
    world.edit()  # the last one, which no other makes good
    for _ in range(2):
        # Each stage and each step runs once more, on whatever it has not read.
        for name in (*world.shape.stages, "step"):
            world.tester.pass_time(200)
            world.tester.request(name)
            world.settle()
    check_invariants(world.tester.engine)
    wanted = world.wanted()
    for name, known in wanted.items():
        last = world.tester.engine.actions[name].last
        assert last is not None
        assert world.committed[last.result][0] == known, f"seed {seed}, stage {name}"
    missing = world.of(world.shape.step, 0, len(world.writes)) - world.shown["step"]
    assert not Counter(set(missing)) - Counter(set(world.shown["step"])), f"seed {seed}, step"
