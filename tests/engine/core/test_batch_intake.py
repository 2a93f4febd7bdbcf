"""Records taken together leave what the same records leave one by one, and decide the same."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    BoundReached,
    CellsRead,
    Codec,
    CodecName,
    Condition,
    ContainerScanned,
    Count,
    DataflowSpec,
    DecisionKind,
    Engine,
    Evaluation,
    Instruction,
    Launch,
    Metric,
    ReadCells,
    RecordArrived,
    RecordDecision,
    RunFailed,
    RunFinished,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    Tick,
    ValueBound,
    WatchedContainer,
    all_of,
    at_least_one,
    check_invariants,
)
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.checkpoint.saved import CellsState, ConsumedState
from headgate.engine.checkpoint.snapshot import read_snapshot
from headgate.events import (
    VERSION,
    BarrierMark,
    Container,
    ContainerId,
    Item,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    updates_topic,
)

ROWS = [b"r%d" % i for i in range(8)]
COLUMNS = [b"f:a", b"f:b", b"g:a"]
SHAPES = {
    "fed": (Item("t", b"f"),),
    "low": (Item("t", b"f", b"a", b"r0", b"r4"),),
    "high": (Item("t", b"f", b"a", b"r4"),),
    "some": (Item("t", None, None, b"r2", b"r6"),),
    "both": (Item("t", b"g", b"a"), Item("u", b"f")),
}
STEPS = ("one", "two", "three")

sequences = st.builds(
    lambda unit, limit, distinct: SequenceBound(
        {"updates": limit, "percent": 20 * limit}[unit.value], unit, distinct
    ),
    st.sampled_from(SequenceUnit),
    st.sampled_from([3.0, 15.0, 60.0, 300.0]),
    st.booleans(),
)
divergences = st.builds(
    lambda metric, limit: ValueBound(metric, limit, 2.0 if metric is Metric.AGAINST else None),
    st.sampled_from(Metric),
    st.sampled_from([0.5, 2.0, 8.0, 90.0]),
)
vectors = st.one_of(st.tuples(sequences, st.none()), st.tuples(st.none(), divergences))


@st.composite
def dataflows(draw: st.DrawFn) -> DataflowSpec:
    watched, actions = [], [ActionSpec("in", ActionRole.INPUT, writes=(ContainerId("fed"),))]
    codecs = {}
    for name, items in SHAPES.items():
        codecs[name] = draw(st.sampled_from([CodecName.UTF8, CodecName.UTF8, CodecName.OPAQUE]))
        count = draw(st.sampled_from(Count))
        container = Container(ContainerId(name), items)
        watched.append(WatchedContainer(container, Codec(codecs[name]), count))
    for step in STEPS:
        bounds = []
        for number in range(draw(st.integers(1, 2))):
            place = ContainerId(draw(st.sampled_from(sorted(SHAPES))))
            sequence, value = draw(vectors)
            if value is not None and codecs[place] is CodecName.OPAQUE:
                value = ValueBound(Metric.CHANGED, value.limit)
            bounds.append(Bound(f"k{number}", place, None, sequence, value))
        names = [bound.name for bound in bounds]
        conditions: list[Condition] = [all_of(names), at_least_one(names), BoundReached(names[0])]
        actions.append(
            ActionSpec(
                step,
                after=("in",),
                bounds=tuple(bounds),
                condition=draw(st.sampled_from(conditions)),
                own=draw(st.booleans()),
                evaluation=Evaluation(write=True),
            )
        )
    used = {bound.container for action in actions for bound in action.bounds} | {"fed"}
    return DataflowSpec("flow", tuple(w for w in watched if w.id in used), tuple(actions))


puts = st.tuples(
    st.just(UpdateKind.PUT),
    st.sampled_from(ROWS),
    st.sampled_from(COLUMNS),
    st.sampled_from([b"0", b"1", b"1.5", b"2", b"-3", b"junk"]),
)
deletes = st.tuples(
    st.just(UpdateKind.DELETE_COLUMN), st.sampled_from(ROWS), st.sampled_from(COLUMNS), st.none()
)
requests = st.lists(puts, min_size=1, max_size=4)
tables = st.sampled_from("tttu")
writers = st.sampled_from([*[None] * 12, "one", "two"])
written = st.tuples(st.just("write"), tables, writers, st.lists(requests, min_size=1, max_size=4))
rare = st.one_of(
    st.tuples(
        st.just("write"),
        tables,
        writers,
        st.just([[]]).flatmap(
            lambda _: st.lists(
                st.lists(st.one_of(puts, deletes), min_size=1, max_size=3), min_size=1, max_size=2
            )
        ),
    ),
    st.tuples(st.just("again"), st.integers(0, 20)),
    st.tuples(st.just("read again"), st.integers(0, 20)),
    st.tuples(st.just("lost")),
    st.tuples(st.just("mark")),
    st.tuples(st.just("truncated"), tables),
    st.tuples(st.just("unknown"), tables, requests),
)
events = st.one_of(*[written] * 30, rare)
polls = st.lists(
    st.tuples(st.lists(events, min_size=3, max_size=30), st.integers(0, 7)), max_size=8
)


class Log:
    """What observers have published: one partition of each table."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._records: dict[str, list[UpdateMessage]] = {"t": [], "u": []}
        self._sequence = {"t": 0, "u": 0}
        self._intent = 0

    def record(self, event: tuple) -> RecordArrived:
        """Return the record that an event makes."""
        match event:
            case ("write", table, writer, parts):
                return self._append(table, self._batch(table, writer, parts))
            case ("again", number) if self._records["t"]:
                log = self._records["t"]
                return self._append("t", log[number % len(log)])
            case ("read again", number) if self._records["t"]:
                offset = number % len(self._records["t"])
                return self._at("t", offset)
            case ("lost",):
                self._sequence["t"] += 1
            case ("truncated", table):
                self._intent += 1
                kind, known = TableChangeKind.TRUNCATED, Outcome.APPLIED
                place = (self._next(table), self._intent, table)
                change = TableChange(VERSION, "o", 1, *place, kind, known, self.now)
                return self._append(table, change)
            case ("unknown", table, part):
                batch = self._batch(table, None, [part], Outcome.UNKNOWN)
                return self._append(table, batch)
        return self._append("t", BarrierMark(VERSION, "o", 1, self._next("t"), "b", 1))

    def _next(self, table: str) -> int:
        self._sequence[table] += 1
        return self._sequence[table] - 1

    def _append(self, table: str, message: UpdateMessage) -> RecordArrived:
        self._records[table].append(message)
        return self._at(table, len(self._records[table]) - 1)

    def _at(self, table: str, offset: int) -> RecordArrived:
        message = self._records[table][offset]
        return RecordArrived(self.now, updates_topic(table), 0, offset, message, 1)

    def _batch(
        self, table: str, writer: str | None, parts: list, outcome: Outcome = Outcome.APPLIED
    ) -> UpdateBatch:
        origin = None if writer is None else Origin("flow", writer, "run", 1)
        made = []
        for part in parts:
            self._intent += 1
            received = self.now
            made.append(RequestPart(self._intent, "m", outcome, received, len(part), 0, origin))
        kinds, rows, columns, values = zip(*(cell for part in parts for cell in part), strict=True)
        times = (-1,) * len(rows)
        head = (VERSION, "o", 1, self._next(table), 0, table)
        return UpdateBatch(*head, tuple(made), bytes(kinds), rows, columns, times, values)


class Driven:
    """An engine that is told all records, together or singly, and what it wanted."""

    def __init__(self, spec: DataflowSpec, *, together: bool) -> None:
        self.engine = Engine(spec)
        self.together = together
        self.told: list[Instruction] = []
        self._answer(self.engine.handle(Tick(1000.0)), 1000.0)

    def take(self, records: list[RecordArrived]) -> None:
        """Take what was polled at once."""
        while records and self.together:
            taken, told = self.engine.arrive(records)
            self._answer(told, records[0].now)
            records = records[taken:]
        for record in records:
            self._answer(self.engine.handle(record), record.now)

    def end_runs(self, which: int, now: float) -> None:
        """Let runs end: of the steps whose bit is set; the third fails."""
        for number, step in enumerate(STEPS):
            run = self.engine.actions[step].run
            if run is not None and which >> number & 1:
                end: RunFinished | RunFailed = RunFinished(now, step, run.run, run.attempt)
                if step == "three":
                    end = RunFailed(now, step, run.run, run.attempt, "scripted")
                self._answer(self.engine.handle(end), now)

    def _answer(self, told: list[Instruction], now: float) -> None:
        self.told += told
        for one in told:
            if isinstance(one, ScanContainer):
                found = ContainerScanned(now, one.container, one.table, [], [])
                self._answer(self.engine.handle(found), now)
            if isinstance(one, ReadCells):
                values = [b"1"] * len(one.rows)
                place = (one.container, one.table, one.rows, one.columns, values)
                self._answer(self.engine.handle(CellsRead(now, *place)), now)


def state_of(engine: Engine) -> object:
    """Return the snapshot, without x′ of cells that have come back to it: it says nothing."""
    state = read_snapshot(engine.snapshot())
    return (
        [getattr(state, name) for name in state.__struct_fields__ if name != "cells"],
        [_cells(cells) for cells in state.cells],
    )


def _cells(state: CellsState) -> object:
    values = map(repr, state.values or state.keys.rows)
    known = dict(zip(state.keys.keys(), values, strict=True))
    others = {"keys", "values", "pendings"}
    rest = [getattr(state, name) for name in state.__struct_fields__ if name not in others]
    opaque = state.watched.codec.name is CodecName.OPAQUE
    pendings = [
        (
            p.action,
            p.received,
            p.committed,
            _consumed(p.now, known, opaque=opaque),
            None if p.taken is None else _consumed(p.taken, {}, opaque=opaque),
        )
        for p in state.pendings
    ]
    return known, rest, pendings


def _consumed(state: ConsumedState, known: dict, *, opaque: bool) -> object:
    nothing = repr(None if opaque else 0.0)
    before = dict(zip(state.keys.keys(), map(repr, state.previous), strict=True))
    moved = {key: old for key, old in before.items() if known.get(key, nothing) != old}
    return state.updates, state.distinct, moved, state.fresh


@given(dataflows(), polls)
def test_records_together_and_records_singly_come_to_the_same(spec, story):
    _come_to_the_same(spec, story)


@pytest.mark.soak
@settings(deadline=None, max_examples=10_000)
@given(dataflows(), polls)
def test_records_together_and_singly_come_to_the_same_for_long(spec, story):
    _come_to_the_same(spec, story)


def _come_to_the_same(spec: DataflowSpec, story: list) -> None:
    log = Log()
    together, singly = Driven(spec, together=True), Driven(spec, together=False)
    for polled, ending in story:
        log.now += 1
        records = [log.record(event) for event in polled]
        for driven in (together, singly):
            driven.take(records)
            driven.end_runs(ending, log.now)
            check_invariants(driven.engine)
        assert together.told == singly.told
        assert state_of(together.engine) == state_of(singly.engine)
        assert together.engine.explain(log.now) == singly.engine.explain(log.now)


def flow(*bounds: Bound) -> Driven:
    """Return an engine with a step that these bounds decide at each write to table ``t``."""
    watched = WatchedContainer(Container(ContainerId("c"), (Item("t", b"f", b"a"),)))
    step = ActionSpec("s", bounds=bounds, evaluation=Evaluation(write=True))
    return Driven(DataflowSpec("flow", (watched,), (step,)), together=True)


def records_of(log: Log, number: int, value: bytes = b"1") -> list[RecordArrived]:
    """Return so many records of one put each, to a few rows in turn."""
    return [
        log.record(("write", "t", None, [[(UpdateKind.PUT, b"r%d" % (i % 5), b"f:a", value)]]))
        for i in range(number)
    ]


def test_elements_are_told_apart_where_a_table_is_written_to_late_in_a_poll():
    kinds = (WatchedContainer(Container(ContainerId("both"), SHAPES["both"])),)
    bounds = (
        Bound("k0", ContainerId("both"), sequence=SequenceBound(3.0, distinct=True)),
        Bound("k1", ContainerId("both"), sequence=SequenceBound(6.0)),
    )
    step = ActionSpec("s", bounds=bounds, evaluation=Evaluation(write=True))
    driven, log = Driven(DataflowSpec("flow", kinds, (step,)), together=True), Log()

    def written(table: str, row: bytes) -> RecordArrived:
        column = b"g:a" if table == "t" else b"f:a"
        return log.record(("write", table, None, [[(UpdateKind.PUT, row, column, b"1")]]))

    driven.take([written("t", b"r0")])
    driven.take(
        [*(written("t", b"r0") for _ in range(4)), written("u", b"r1"), written("u", b"r2")]
    )
    (launch,) = [one for one in driven.told if isinstance(one, Launch)]
    assert launch.cut.position(updates_topic("t"), 0) == 5
    assert launch.cut.position(updates_topic("u"), 0) == 2


def test_records_that_decide_nothing_are_taken_in_few_passes():
    driven = flow(Bound("k", ContainerId("c"), sequence=SequenceBound(1000.0)))
    passes = []
    with patch.object(
        ContainerCells, "take", autospec=True, side_effect=lambda *args: passes.append(args)
    ):
        driven.take(records_of(Log(), 300))
    assert len(passes) <= 12


@pytest.mark.parametrize(
    "bound",
    [
        Bound("k", ContainerId("c"), sequence=SequenceBound(50.0)),
        Bound("k", ContainerId("c"), sequence=SequenceBound(5.0, distinct=True)),
        Bound("k", ContainerId("c"), value=ValueBound(Metric.ABSOLUTE, 7.0)),
        Bound("k", ContainerId("c"), value=ValueBound(Metric.AGAINST, 3.0, 1.0)),
    ],
)
def test_a_launch_has_the_cut_of_the_record_that_reached_the_bound(bound):
    driven, log = flow(bound), Log()
    records = [*records_of(log, 4), *records_of(log, 45), *records_of(log, 100, b"8")]
    driven.take(records)
    (launch,) = [one for one in driven.told if isinstance(one, Launch)]
    reached = {"updates": 50, "distinct": 9, "absolute": 50, "against": 51}
    sequence = "distinct" if bound.sequence and bound.sequence.distinct else "updates"
    kind = bound.value.metric if bound.value else sequence
    assert launch.cut.position(updates_topic("t"), 0) == reached[kind]
    assert driven.engine.cut.position(updates_topic("t"), 0) == 149


@pytest.mark.parametrize(
    ("limit", "standing", "written", "later"),
    [
        (3.0, [b"6", b"1", b"1", b"1", b"1"], [b"6", b"5", b"5"], b"1"),  # 10 of 15, and back
        (0.7, [b"0.5"] * 5, [b"0.9"] * 3, b"0.9"),  # 2.5 of 3.5, and 0.4 more each
    ],
)
def test_a_sum_launches_where_it_was_reached_whatever_comes_later_in_the_poll(
    limit, standing, written, later
):
    bound = Bound("k", ContainerId("c"), value=ValueBound(Metric.AGAINST, limit, 1.0))
    driven, log = flow(bound), Log()

    def put(row: int, value: bytes) -> RecordArrived:
        return log.record(("write", "t", None, [[(UpdateKind.PUT, ROWS[row], b"f:a", value)]]))

    driven.take([put(row, b"0.1") for row in range(5)])
    driven.take([put(row, value) for row, value in enumerate(standing)])
    driven.take([*map(put, range(3), written), *(put(0, later) for _ in range(30))])
    (launch,) = [one for one in driven.told if isinstance(one, Launch)]
    assert launch.cut.position(updates_topic("t"), 0) == 13


def test_a_message_that_is_missing_in_the_middle_of_a_poll_is_noticed():
    driven, log = flow(Bound("k", ContainerId("c"), sequence=SequenceBound(1000.0))), Log()
    driven.take(records_of(log, 20))
    records = records_of(log, 40)
    driven.take([*records[:20], *records[21:]])
    kinds = [one.decision.kind for one in driven.told if isinstance(one, RecordDecision)]
    assert kinds.count(DecisionKind.GAP) == 1


def test_evaluations_after_which_nothing_ran_are_counted_alike_together_and_singly():
    log = Log()
    bound = Bound("b", ContainerId("c"), sequence=SequenceBound(1000.0))
    apart = flow(bound)
    apart.together = False
    for driven, records in ((flow(bound), records_of(log, 300)), (apart, records_of(Log(), 300))):
        driven.take(records)
        skipped = sum(isinstance(one, RecordDecision) for one in driven.told)
        assert skipped == 1
        assert driven.engine.take_idle_evaluations() == {"s": 299}
        assert driven.engine.take_idle_evaluations() == {}


@pytest.mark.parametrize("together", [False, True])
def test_evaluations_before_a_launch_are_counted_each(together):
    driven = flow(Bound("b", ContainerId("c"), sequence=SequenceBound(50.0)))
    driven.together = together
    driven.take(records_of(Log(), 149))
    assert driven.engine.take_idle_evaluations() == {"s": 48}, (
        "all but the first, and the one that launched"
    )


def test_only_records_of_the_watched_container_are_evaluations():
    log = Log()
    driven = flow(Bound("b", ContainerId("c"), sequence=SequenceBound(1000.0)))
    cells = [[(UpdateKind.PUT, b"r1", b"f:a" if n % 3 else b"g:a", b"1")] for n in range(300)]
    driven.take([log.record(("write", "t", None, [cell])) for cell in cells])

    assert driven.engine.take_idle_evaluations() == {"s": 199}
