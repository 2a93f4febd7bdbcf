"""The engine against an oracle that computes everything from the list of all updates.

Random dataflows, bounds and updates: whatever the order between partitions, however often messages
come twice, and wherever the engine is restarted, the same runs happen with the same causes and
cuts, and no update is lost.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.engine import (
    ActionSpec,
    Bound,
    BoundReached,
    BoundResult,
    Codec,
    CodecName,
    Condition,
    Count,
    DataflowSpec,
    Dimension,
    Engine,
    Launch,
    Metric,
    Paused,
    PredecessorsResult,
    ReadCells,
    Restarted,
    Resumed,
    RetryPolicy,
    Role,
    RunFailed,
    RunFinished,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    SpecificationChanged,
    Tick,
    ValueBound,
    WatchedContainer,
    WaveEnded,
    all_of,
    at_least_one,
    check_invariants,
    majority,
)
from headgate.engine.protocol.stimuli import ContainerScanned, RecordArrived, Stimulus
from headgate.engine.spec.conditions import leaves
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    partition_of,
    updates_topic,
)

PARTITIONS = 3
EDGES = [2**63 - 1, -(2**63), 10**308, -(10**308)]
"""What a type's least and largest values are, where somebody writes them by mistake."""
ROWS = [b"r%d" % i for i in range(7)]
COLUMNS = [b"f:a", b"f:b", b"g:a"]
TABLES = {"in": "t-in", "one": "t-one", "two": "t-two"}

CONTAINERS = {
    "whole": lambda table: (Item(table),),
    "family": lambda table: (Item(table, b"f"),),
    "column": lambda table: (Item(table, b"f", b"a"),),
    "range": lambda table: (Item(table, b"f", None, b"r2", b"r5"),),
    "columns": lambda table: (Item(table, b"f", b"a"), Item(table, b"g", b"a")),
    "tables": lambda table: (Item(table, b"f", b"a"), Item("t-in", b"f", b"b")),
}


@dataclass(frozen=True)
class Update:
    """One cell of one request; ``request`` tells requests apart."""

    request: int
    writer: str | None
    table: str
    row: bytes
    column: bytes
    value: int | None


@st.composite
def bounds(draw: st.DrawFn, name: str, container: str, codec: CodecName) -> Bound:
    sequence = value = None
    kinds = draw(st.sampled_from(["sequence", "value", "both"]))
    if kinds != "value":
        unit = draw(st.sampled_from(SequenceUnit))
        limit = draw(st.sampled_from([1, 2, 5, 9] if unit == "updates" else [15, 50, 100, 160]))
        sequence = SequenceBound(float(limit), unit, draw(st.booleans()))
    if kinds != "sequence":
        metric = draw(st.sampled_from(Metric))
        if codec is CodecName.OPAQUE:
            metric = Metric.CHANGED
        limit = draw(st.sampled_from([0.2, 0.5, 1.0] if metric != "absolute" else [1.0, 4.0]))
        constant = 5.0 if metric is Metric.AGAINST else None
        value = ValueBound(metric, limit, constant)
    return Bound(name, ContainerId(container), None, sequence, value)


def conditions(names: list[str]) -> st.SearchStrategy[Condition | None]:
    expression = BoundReached(names[0]) | BoundReached(names[-1]) & BoundReached(
        names[len(names) // 2]
    )
    return st.sampled_from([None, all_of(names), at_least_one(names), majority(names), expression])


@st.composite
def dataflows(draw: st.DrawFn) -> DataflowSpec:
    watched = {}
    for table in TABLES.values():
        for shape, items in CONTAINERS.items():
            name = f"{table}/{shape}"
            codec = Codec(draw(st.sampled_from([CodecName.UTF8, CodecName.OPAQUE])))
            count = draw(st.sampled_from(Count))
            container = Container(ContainerId(name), items(table))
            watched[name] = WatchedContainer(container, codec, count)
    actions = [ActionSpec("in", Role.INPUT, writes=(ContainerId("t-in/whole"),))]
    after = {"one": ("in",), "two": draw(st.sampled_from([("one",), ("in",), ("in", "one")]))}
    after["three"] = draw(st.sampled_from([("one", "two"), ("two",), ("in", "two")]))
    for name, before in after.items():
        number = draw(st.sampled_from([0, 1, 2, 3]))
        made = []
        for i in range(number):
            table = TABLES[draw(st.sampled_from(before))]
            container = f"{table}/{draw(st.sampled_from(sorted(CONTAINERS)))}"
            made.append(draw(bounds(f"k{i}", container, watched[container].codec.name)))
        condition = draw(conditions([b.name for b in made])) if made else None
        actions.append(
            ActionSpec(
                name,
                after=before,
                bounds=tuple(made),
                condition=condition,
                own=draw(st.booleans()),
                retry=RetryPolicy(attempts=2, first=1.0, maximum=1.0),
            )
        )
    used = {b.container for a in actions for b in a.bounds} | {ContainerId("t-in/whole")}
    containers = tuple(watched[name] for name in sorted(used))
    return DataflowSpec("flow", containers, tuple(actions))


cells = st.dictionaries(
    st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS)),
    st.one_of(st.none(), st.integers(0, 5), st.integers(0, 5), st.sampled_from(EDGES)),
    min_size=1,
    max_size=8,
)
requests = st.tuples(st.sampled_from(["t-in", "t-in", "t-one", "t-two"]), cells)
first_wave = st.tuples(st.just("t-in"), cells).map(lambda request: [request])
waves = st.tuples(first_wave, st.lists(st.lists(requests, max_size=4), max_size=6)).map(
    lambda parts: [parts[0], *parts[1]]
)


chances = st.integers(0, 2**32).map(random.Random)


class Oracle:
    """Remembers every update and computes everything again each time."""

    def __init__(self, spec: DataflowSpec) -> None:
        self.spec = spec
        self.history: list[Update] = []
        self.steps = {a.name: a for a in spec.actions}
        self.watched = {w.id: w for w in spec.containers}
        self.cut = dict.fromkeys(self.steps, 0)
        self.before = dict.fromkeys(self.steps, 0)
        self.fresh = dict.fromkeys(self.steps, True)
        self.fresh_before = dict.fromkeys(self.steps, True)
        self.ended: dict[str, set[str]] = {name: set() for name in self.steps}
        self.ended_before: dict[str, set[str]] = {name: set() for name in self.steps}
        self.has_run: set[str] = set()
        self.active: set[str] = set()
        self.quarantined: set[str] = set()
        self.missed: set[str] = set()

    def cells(self, container: str, history: list[Update]) -> Iterator[Update]:
        items = self.watched[ContainerId(container)].container.items
        for update in history:
            if any(
                i.table == update.table and i.has_row(update.row) and i.has_column(update.column)
                for i in items
            ):
                yield update

    def measure(self, action: str, bound: Bound) -> tuple[float | None, float | None]:
        own = self.steps[action].own
        watched = self.watched[bound.container]
        known = list(self.cells(bound.container, self.history))
        old = list(self.cells(bound.container, self.history[: self.cut[action]]))
        new = known[len(old) :]
        present: dict[tuple[str, bytes, bytes], int] = {}
        then: dict[tuple[str, bytes, bytes], int] = {}
        for i, update in enumerate(known):
            key = (update.table, update.row, update.column)
            follows = i < len(old) and not self.fresh[action]
            follows |= i >= len(old) and update.writer == action and not own
            follows |= self.fresh[action] and update.writer == action and not own
            for state, applies in ((present, True), (then, follows)):
                if applies and update.value is None:
                    state.pop(key, None)
                elif applies and update.value is not None:
                    state[key] = update.value
        counting = [u for u in new if own or u.writer != action]
        by_row = watched.count is Count.ROWS
        elements = [(u.table, u.row, b"" if by_row else u.column) for u in counting]
        n = len({key[:2] for key in present}) if by_row else len(present)
        sigma = nu = None
        if bound.sequence is not None:
            each = set(elements)
            once = {(u.request, *e) for u, e in zip(counting, elements, strict=True)}
            sigma = float(len(each if bound.sequence.distinct else once))
            if bound.sequence.unit is SequenceUnit.PERCENT:
                sigma = float(Fraction(100 * int(sigma), n)) if n else _ratio(sigma, n)
        if bound.value is not None:
            opaque = watched.codec.name is CodecName.OPAQUE
            read = (lambda x: x) if opaque else (lambda x: float(x or 0))
            both = {k: (read(present.get(k)), read(then.get(k))) for k in present | then}
            m = sum(x != y for x, y in both.values())
            if bound.value.metric is Metric.CHANGED:
                nu = _ratio(m, len(present))
            else:
                differences = [abs(x - y) for x, y in both.values()]
                before = min(_sum(abs(read(y)) for y in then.values()), sys.float_info.max)
                nu = {
                    Metric.RELATIVE: _ratio(_sum(differences), before),
                    Metric.ABSOLUTE: max(differences, default=0.0),
                    Metric.AGAINST: _ratio(_sum(differences), len(present) * 5.0),
                }[bound.value.metric]
        return sigma, nu

    def reached(self, action: str) -> bool:
        spec = self.steps[action]
        condition = spec.effective_condition
        if condition is None:
            return self.ended[action] >= set(spec.after)
        return _holds(condition, {b.name: self._bound(action, b) for b in spec.bounds})

    def _bound(self, action: str, bound: Bound) -> bool:
        sigma, nu = self.measure(action, bound)
        over_sigma = bound.sequence is not None and sigma is not None
        over_nu = bound.value is not None and nu is not None
        return bool(
            (over_sigma and sigma >= bound.sequence.limit) or (over_nu and nu >= bound.value.limit)
        )

    def end(self, names: list[str]) -> list[str]:
        followers = {n for n, a in self.steps.items() if set(a.after) & set(names)}
        for follower in followers:
            self.ended[follower] |= set(names) & set(self.steps[follower].after)
        return [name for name in self.steps if name in followers and self.consider(name)]

    def consider(self, name: str) -> bool:
        if (
            name in self.active | self.quarantined
            or not set(self.steps[name].after) <= self.has_run
        ):
            self.missed.add(name)
            return False
        self.missed.discard(name)
        if not self.reached(name):
            return False
        self.active.add(name)
        self.before[name], self.cut[name] = self.cut[name], len(self.history)
        self.fresh_before[name], self.fresh[name] = self.fresh[name], False
        self.ended_before[name], self.ended[name] = self.ended[name], set()
        return True

    def finish(self, name: str) -> list[str]:
        self.active.discard(name)
        self.has_run.add(name)
        launched = self.end([name])
        if name in self.missed and self.consider(name):
            launched.append(name)
        return launched

    def give_up(self, name: str) -> None:
        self.active.discard(name)
        self.quarantined.add(name)
        self.cut[name] = self.before[name]
        self.fresh[name] = self.fresh_before[name]
        self.ended[name] |= self.ended_before[name]


def _sum(numbers: Iterable[float]) -> float:
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else (float("inf") if part else 0.0)


def _holds(condition: Condition, reached: dict[str, bool]) -> bool:
    if isinstance(condition, BoundReached):
        return reached[condition.bound]
    true = sum(_holds(part, reached) for part in condition.parts)
    match type(condition).__name__:
        case "AllOf":
            return true == len(condition.parts)
        case "AnyOf":
            return true > 0
        case _:
            return true >= condition.number


@dataclass
class World:
    """Publishes requests into partitions and delivers them to an engine, well or badly behaved."""

    spec: DataflowSpec
    chance: random.Random
    disorder: bool = False
    redeliver: bool = False
    republish: bool = False
    restart: bool = False
    engine: Engine = field(init=False)
    now: float = 1000.0
    launched: list[Launch] = field(default_factory=list)
    attempts: list[Launch] = field(default_factory=list)
    log: dict[tuple[str, int], list[UpdateBatch]] = field(default_factory=dict)
    read: dict[tuple[str, int], int] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(self.spec)
        self.tell(Tick(self.now))

    def tell(self, stimulus: Stimulus) -> list[str]:
        names = []
        waiting = [stimulus]
        while waiting:
            for instruction in self.engine.handle(waiting.pop(0)):
                assert not isinstance(instruction, ReadCells)
                if isinstance(instruction, ScanContainer):
                    place = (instruction.container, instruction.table)
                    waiting.append(ContainerScanned(self.now, *place, [], []))
                if isinstance(instruction, Launch):
                    self.attempts.append(instruction)
                    if instruction.run not in {launch.run for launch in self.launched}:
                        self.launched.append(instruction)
                        names.append(instruction.action)
        return names

    def publish(self, updates: list[Update]) -> None:
        self.updates += updates
        parts: dict[tuple[str, int], list[Update]] = {}
        for update in updates:
            partition = partition_of(update.row, PARTITIONS)
            parts.setdefault((update.table, partition), []).append(update)
        for place, part in parts.items():
            log = self.log.setdefault(place, [])
            sequence = len({message.sequence for message in log})
            log.append(_batch(place[0], part, sequence))
            if self.republish and self.chance.random() < 0.3:
                log.append(self.chance.choice(log))

    def deliver(self) -> None:
        while True:
            places = [p for p, log in self.log.items() if self.read.get(p, 0) < len(log)]
            if not places:
                return
            place = self.chance.choice(places) if self.disorder else min(places)
            if self.redeliver and self.chance.random() < 0.3:
                self.read[place] = self.chance.randint(0, self.read.get(place, 0))
            offset = self.read.get(place, 0)
            topic = updates_topic(place[0])
            message = self.log[place][offset]
            self.tell(RecordArrived(self.now, topic, place[1], offset, message, PARTITIONS))
            self.read[place] = offset + 1
            self.maybe_restart()

    def maybe_restart(self) -> None:
        # A run that loses more attempts in a row is given up, which no story here tells.
        often = any(a.run and a.run.losses >= 3 for a in self.engine.actions.values())
        if self.restart and not often and self.chance.random() < 0.2:
            self.engine = Engine(self.spec, self.engine.snapshot())
            assert self.tell(Restarted(self.now)) == []


def _batch(table: str, updates: list[Update], sequence: int) -> UpdateBatch:
    requests = []
    for number in dict.fromkeys(u.request for u in updates):
        part = [u for u in updates if u.request == number]
        writer = part[0].writer
        origin = Origin("flow", writer, "run", 1) if writer is not None else None
        requests.append(
            RequestPart(number, "mutateRows", Outcome.APPLIED, 1000.0, len(part), 0, origin)
        )
    return UpdateBatch(
        VERSION,
        "observer",
        1,
        sequence,
        0,
        table,
        tuple(requests),
        bytes(UpdateKind.DELETE_COLUMN if u.value is None else UpdateKind.PUT for u in updates),
        tuple(u.row for u in updates),
        tuple(u.column for u in updates),
        (-1,) * len(updates),
        tuple(None if u.value is None else str(u.value).encode() for u in updates),
    )


def _updates(numbers: Iterator[int], writer: str | None, table: str, written) -> list[Update]:
    request = next(numbers)
    return [Update(request, writer, table, row, c, v) for (row, c), v in written.items()]


def _output(run: str) -> dict[tuple[bytes, bytes], int | None]:
    chance = random.Random(run)
    keys = [(row, column) for row in ROWS for column in COLUMNS]
    return {
        key: chance.choice([None, 0, 1, 2, 3, 4, 5])
        for key in chance.sample(keys, chance.randint(0, 6))
    }


def _program(world: World, waves, failures: set[str], oracle: Oracle | None) -> None:
    """Play waves; each run writes what its id says, and fails for good if the script says so."""
    numbers = iter(range(1, 1_000_000))
    for wave in waves:
        for table, written in wave:
            updates = _updates(numbers, None, table, written)
            world.publish(updates)
            if oracle is not None:
                oracle.history += updates
        world.deliver()
        if oracle is not None and any(u.table == "t-in" for u in oracle.history):
            oracle.has_run.add("in")
        world.now += 1
        _check(world, oracle, world.tell(WaveEnded(world.now, ("in",))), lambda o: _wave_ended(o))
        while active := [a for a in world.engine.actions.values() if a.run is not None]:
            _play(world, active[0].name, failures, oracle, numbers)
            world.maybe_restart()


def _wave_ended(oracle: Oracle) -> list[str]:
    return oracle.end(["in"]) if "in" in oracle.has_run else []


def _play(world: World, name: str, failures: set[str], oracle: Oracle | None, numbers) -> None:
    action = world.engine.actions[name]
    run = action.run
    table = {"one": "t-one", "two": "t-two"}.get(name, "t-in")
    updates = _updates(numbers, name, table, _output(run.run))
    world.publish(updates)
    if oracle is not None:
        oracle.history += updates
    world.deliver()
    world.now += 1
    run = world.engine.actions[name].run
    if run.run in failures:
        if world.engine.actions[name].state == "backoff":
            world.now = max(world.now, run.retry_at)
            world.tell(Tick(world.now))
            run = world.engine.actions[name].run
        world.tell(RunFailed(world.now, name, run.run, run.attempt, "scripted"))
        if world.engine.actions[name].run is None and oracle is not None:
            oracle.give_up(name)
        return
    stimulus = RunFinished(world.now, name, run.run, run.attempt)
    _check(world, oracle, world.tell(stimulus), lambda o: o.finish(name))


def _check(world: World, oracle: Oracle | None, names: list[str], expected) -> None:
    check_invariants(world.engine)
    if oracle is None:
        return
    assert names == expected(oracle)
    for action in world.engine.explain(world.now).actions:
        result = action.result
        if result is None or isinstance(result, PredecessorsResult):
            continue
        for leaf in leaves(result):
            _agree(oracle, action.action, leaf)


def _agree(oracle: Oracle, action: str, leaf: BoundResult) -> None:
    bound = next(b for b in oracle.steps[action].bounds if b.name == leaf.bound)
    sigma, nu = oracle.measure(action, bound)
    found = {vector.dimension: vector for vector in leaf.vectors}
    if sigma is not None:
        assert found[Dimension.SEQUENCE].value == sigma
    if nu is not None and not any(update.value in EDGES for update in oracle.history):
        assert found[Dimension.VALUE].value == nu
    if nu is not None and bound.value is not None:
        # Beside the largest values small ones are shown roughly; whether it is reached is exact.
        assert found[Dimension.VALUE].reached == (nu >= bound.value.limit)


def _failing(launched: list[Launch], chance: random.Random) -> set[str]:
    runs = [launch.run for launch in launched]
    return set(chance.sample(runs, min(1, len(runs))))


def _against_the_oracle(spec: DataflowSpec, waves, *, fail: bool) -> None:
    plain = World(spec, random.Random(0))
    _program(plain, waves, set(), Oracle(spec))
    if fail:
        failures = _failing(plain.launched, random.Random(1))
        _program(World(spec, random.Random(0)), waves, failures, Oracle(spec))


@settings(max_examples=100, deadline=None)
@given(dataflows(), waves, st.booleans())
def test_the_incremental_state_agrees_with_one_computed_from_all_updates(spec, waves, fail):
    _against_the_oracle(spec, waves, fail=fail)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None)
@given(dataflows(), waves, st.booleans())
def test_the_incremental_state_agrees_for_long(spec, waves, fail):
    _against_the_oracle(spec, waves, fail=fail)


@settings(max_examples=60, deadline=None)
@given(dataflows(), waves, chances, st.booleans())
def test_order_duplicates_and_restarts_change_no_run(spec, waves, chance, fail):
    plain = World(spec, random.Random(0))
    _program(plain, waves, set(), None)
    failures = _failing(plain.launched, random.Random(1)) if fail else set()
    if failures:
        plain = World(spec, random.Random(0))
        _program(plain, waves, failures, None)
    rough = World(spec, chance, disorder=True, redeliver=True, restart=True)
    _program(rough, waves, failures, None)
    assert rough.launched == plain.launched
    assert rough.engine.cut == plain.engine.cut
    assert [a.missing for a in rough.engine.explain(0).actions] == [
        a.missing for a in plain.engine.explain(0).actions
    ]


@settings(max_examples=40, deadline=None)
@given(dataflows(), waves, chances)
def test_a_request_published_twice_counts_once(spec, waves, chance):
    plain = World(spec, random.Random(0))
    _program(plain, waves, set(), None)
    rough = World(spec, chance, republish=True)
    _program(rough, waves, set(), None)
    # Offsets differ, since the log is longer; what ran and why does not.
    assert [(r.run, r.cause) for r in rough.launched] == [(r.run, r.cause) for r in plain.launched]


@settings(max_examples=40, deadline=None)
@given(dataflows(), waves, chances)
def test_a_further_attempt_has_the_run_cut_and_cause_of_the_first(spec, waves, chance):
    world = World(spec, chance, restart=True)
    _program(world, waves, set(), None)
    first = {launch.run: launch for launch in world.launched}
    for attempt in world.attempts:
        original = first[attempt.run]
        assert (attempt.cut, attempt.since, attempt.cause) == (
            original.cut,
            original.since,
            original.cause,
        )


@settings(max_examples=40, deadline=None)
@given(dataflows(), waves, chances)
def test_cuts_of_an_action_follow_each_other_without_hole(spec, waves, chance):
    world = World(spec, chance, disorder=True)
    _program(world, waves, set(), None)
    for name in ("one", "two", "three"):
        runs = [launch for launch in world.launched if launch.action == name]
        for earlier, later in pairwise(runs):
            assert later.since == earlier.cut
            assert later.cut.covers(earlier.cut)


@settings(max_examples=40, deadline=None)
@given(dataflows(), waves, chances, st.booleans())
def test_no_update_is_uncounted(spec, waves, chance, fail):
    failures = {"flow-one-1", "flow-three-1"} if fail else set()
    world = World(spec, chance, disorder=True, redeliver=True, republish=True, restart=True)
    _program(world, waves, failures, None)
    oracle = Oracle(spec)
    for action in world.engine.actions.values():
        for container, parts in action.parts.items():
            by_row = oracle.watched[container].count is Count.ROWS
            every = {
                (u.request, u.table, u.row, b"" if by_row else u.column)
                for u in oracle.cells(container, world.updates)
                if action.spec.own or u.writer != action.name
            }
            # No run is active at the end, so all else was consumed by runs that committed.
            counted = sum(pending.committed + pending.updates for _, pending in parts)
            assert counted == len(every)


def remembered(engine: Engine) -> object:
    """Return what an engine remembers of cells, and of what each action has not consumed."""
    found = {}
    for place, cells in engine.cells.items():
        found[place] = (
            cells.columns.contents(),
            cells.scans.complete,
            cells.reads.unsettled,
            cells.elements,
        )
        for one in cells.watchers.pendings:
            taken = cells.watchers.consumed.get(one.action)
            found[place, one.action] = (
                (one.updates, one.received, one.committed, set(one.distinct), one.uncounted),
                (
                    one.fresh,
                    one.measured(),
                    one.measured_magnitude(),
                    cells.columns.previous(one.past),
                ),
                None if taken is None else (taken.updates, set(taken.distinct), taken.fresh),
                None if taken is None else cells.columns.previous(taken.past),
            )
    return found


@settings(max_examples=60, deadline=None)
@given(dataflows(), dataflows(), waves, st.integers(0, 30), st.randoms(use_true_random=False))
def test_going_on_with_an_edit_is_what_beginning_anew_from_a_snapshot_is(
    first, second, story, moment, chance
):
    graph = {action.name: action.after for action in first.actions}
    actions = [replace(action, after=graph[action.name]) for action in second.actions]
    second = replace(second, actions=tuple(actions))
    world = World(first, random.Random(0))
    numbers = iter(range(1, 1_000_000))
    steps = iter(range(1_000_000))
    edited = False

    def maybe_edit() -> None:
        nonlocal edited
        if next(steps) != moment or edited:
            return
        edited = True
        world.tell(Paused(world.now))
        anew = Engine(second, world.engine.snapshot())
        world.spec = second
        world.engine.handle(SpecificationChanged(world.now, second))
        check_invariants(world.engine)
        check_invariants(anew)
        assert remembered(world.engine) == remembered(anew)
        for place, cells in world.engine.cells.items():
            if not cells.scans.complete:  # what the table holds is what the world has not told yet
                world.engine.handle(ContainerScanned(world.now, *place, [], []))
        world.tell(Resumed(world.now))

    for wave in story:
        for table, written in wave:
            world.publish(_updates(numbers, None, table, written))
        world.deliver()
        maybe_edit()
        world.now += 1
        world.tell(WaveEnded(world.now, ("in",)))
        for _ in range(20):
            active = [a for a in world.engine.actions.values() if a.run is not None]
            if not active:
                break
            maybe_edit()
            active = [a for a in world.engine.actions.values() if a.run is not None]
            if active:
                _play(world, chance.choice(active).name, set(), None, numbers)
            check_invariants(world.engine)
