"""One replay among tables that others have filled, and writes that it holds back."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Count,
    DataflowSpec,
    Engine,
    Evaluation,
    Metric,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
    WaveEnded,
    policies_of,
)
from headgate.events import (
    VERSION,
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
    updates_topic,
)
from headgate.replay.models import RecordedModels
from headgate.replay.outputs import OutputError, RecordedOutput
from headgate.replay.recording import NotRecorded, Recording, ReplayedDecision
from headgate.replay.replayer import RecordedState, Replayer
from headgate.replay.stream import RecordedUpdate
from headgate.replay.tables import ContainerExtent, RecordedTables

IN, OUT = ContainerId("in"), ContainerId("out")
WRITE = Evaluation(write=True)
B_RUN = Origin("flow", "b", "recorded", 1)
"""Who wrote what a run of ``b`` wrote that was recorded, and that no replay here has."""


def half(container: ContainerId) -> Bound:
    return Bound("half", container, sequence=SequenceBound(50, SequenceUnit.PERCENT))


def updates(container: ContainerId, limit: float) -> Bound:
    return Bound("updates", container, sequence=SequenceBound(limit))


def far(container: ContainerId) -> Bound:
    return Bound("far", container, value=ValueBound(Metric.ABSOLUTE, 5))


NEVER = updates(IN, 1e6)


def flow(
    b: Bound, c: Bound, writes: ContainerId = OUT, evaluation: Evaluation = WRITE
) -> DataflowSpec:
    """Return ``b``, which watches ``in`` and writes, and ``c``, which watches ``out``."""
    watched = tuple(
        WatchedContainer(Container(name, (Item(str(name)),)), count=Count.CELLS)
        for name in (IN, OUT)
    )
    steps = (
        ActionSpec("b", after=("a",), reads=(IN,), writes=(writes,), bounds=(b,), evaluation=WRITE),
        ActionSpec("c", after=("a",), reads=(OUT,), bounds=(c,), evaluation=evaluation),
    )
    return DataflowSpec("flow", watched, (ActionSpec("a", ActionRole.INPUT, writes=(IN,)), *steps))


class World:
    """What was recorded so far, and a replay of it."""

    def __init__(self, spec: DataflowSpec, changed: DataflowSpec | None = None) -> None:
        self.tables = RecordedTables()
        topics = {updates_topic(str(name)): 1 for name in (IN, OUT)}
        recording = Recording("flow", (ReplayedDecision(0.0, "submitted", ""),))
        [written] = spec.actions[1].writes
        [watched] = [each for each in spec.containers if each.id == written]
        self.output = RecordedOutput(ContainerExtent(watched))
        models = RecordedModels(recording, {})
        outputs = {("b", str(written)): self.output}
        past = RecordedState(recording, self.tables, outputs, topics, policies_of, models)
        self.replayer = Replayer("label", spec, past, {1: changed} if changed else {})
        self._offset = 0

    def hear(self, message: UpdateBatch | TableChange, *, begun: bool = True) -> None:
        """Have something be recorded, before the replay has begun or since."""
        self._offset += 1
        match message:
            case TableChange():
                writes = self.tables.change(message, 0, 1)
            case _:
                writes = self.tables.apply(message)
        self.output.take(writes)
        if begun:
            topic = updates_topic(message.table)
            update = RecordedUpdate(topic, 0, self._offset, float(self._offset), message)
            self.replayer.pass_time(update.time)
            self.replayer.take(update, message, writes)
            self.replayer.pass_time(update.time)

    def put(
        self,
        table: str,
        values: Mapping[bytes, bytes],
        origin: Origin | None = None,
        *,
        kind: UpdateKind = UpdateKind.PUT,
        outcome: Outcome = Outcome.APPLIED,
        begun: bool = True,
    ) -> None:
        """Have a request write values by row."""
        number = len(values)
        request = RequestPart(self._offset + 1, "put", outcome, 1.0, number, origin=origin)
        self.hear(
            UpdateBatch(
                VERSION, "o", 1, self._offset, 0, table, (request,), bytes([kind]) * number,
                tuple(values), (b"f:x",) * number, (-1,) * number, tuple(values.values()),
            ),
            begun=begun,
        )  # fmt: skip

    def reach(self, kind: str, inputs: tuple[str, ...] = ()) -> None:
        self.replayer.reach(1, ReplayedDecision(float(self._offset), kind, "", inputs=inputs))

    def runs(self, action: str) -> int:
        return len(self.replayer.outcome().step(action).runs)

    def errors(self) -> list[OutputError]:
        """Return how far the output of ``b`` is off, wherever that was measured."""
        [output] = self.replayer.outcome().step("b").outputs
        return list(output.errors)


def rows(number: int, value: bytes = b"1", first: int = 0) -> dict[bytes, bytes]:
    return {b"r%02d" % n: value for n in range(first, first + number)}


def test_cells_from_before_the_beginning_are_counted_in_their_own_containers() -> None:
    world = World(flow(half(IN), half(OUT)))
    world.put("in", rows(2), begun=False)
    world.put("out", rows(10), begun=False)
    world.replayer.begin()
    world.put("in", rows(1, b"2"))
    assert world.runs("b") == 1
    for number in range(5):
        assert world.runs("c") == 0
        world.put("out", rows(1, b"2", first=number))
    assert world.runs("c") == 1


@pytest.mark.parametrize(("value", "runs"), [(b"12", 1), (b"2", 0)])
def test_values_from_before_the_beginning_are_known(value: bytes, runs: int) -> None:
    world = World(flow(NEVER, far(OUT)))
    world.put("out", rows(1, value), begun=False)
    world.replayer.begin()
    world.put("in", rows(1))
    world.put("out", rows(1, first=1))
    assert world.runs("c") == runs


def test_a_scan_finds_what_is_shown_and_not_what_is_held_back() -> None:
    world = World(flow(NEVER, updates(OUT, 1e6)), flow(NEVER, half(OUT)))
    world.put("out", rows(4), begun=False)
    world.replayer.begin()
    world.put("in", rows(1))
    world.put("out", rows(16, first=20), B_RUN)
    world.reach("specification-changed")
    world.put("out", rows(1, b"2"))
    assert world.runs("c") == 0
    world.put("out", rows(1, b"2", first=1))
    assert world.runs("c") == 1


def test_values_that_events_leave_out_are_missed_where_a_bound_needs_them() -> None:
    counting = World(flow(NEVER, half(OUT), writes=IN))
    comparing = World(flow(NEVER, far(OUT), writes=IN))
    for world in (counting, comparing):
        world.put("out", rows(3), begun=False)
        world.put("out", rows(1), kind=UpdateKind.INCREMENT_DELTA, begun=False)
    counting.replayer.begin()
    with pytest.raises(NotRecorded, match="table 'out'"):
        comparing.replayer.begin()


@pytest.mark.parametrize(
    ("value", "held", "runs"), [(b"2", b"99", 0), (b"12", b"2", 1), (b"12", None, 1)]
)
def test_a_read_finds_what_is_shown(value: bytes, held: bytes | None, runs: int) -> None:
    world = World(flow(NEVER, far(OUT), evaluation=Evaluation(action_end=True)))
    world.put("out", rows(3, b"1"), begun=False)
    world.replayer.begin()
    world.put("in", rows(1))
    world.put("out", rows(1, value), outcome=Outcome.UNKNOWN)
    if held is not None:
        world.put("out", rows(1, held), B_RUN)
    world.reach("wave-ended", inputs=("a",))
    assert world.runs("c") == runs


def test_a_read_of_a_value_that_events_leave_out_is_missed() -> None:
    world = World(flow(NEVER, far(OUT), writes=IN, evaluation=Evaluation(action_end=True)))
    world.put("out", rows(3, b"10"), begun=False)
    world.replayer.begin()
    world.put("in", rows(1))
    world.put("out", rows(1, b"12"), outcome=Outcome.UNKNOWN)
    world.put("out", rows(1, b"12", first=1), kind=UpdateKind.INCREMENT_DELTA)
    with pytest.raises(NotRecorded, match="container 'out'"):
        world.reach("wave-ended", inputs=("a",))


def test_a_wave_ends_with_the_number_and_time_that_were_recorded() -> None:
    """Where none were, it is the next, and of the time at which it was recorded."""
    ended: list[WaveEnded] = []
    world = World(flow(NEVER, NEVER))
    world.replayer.pass_time(50.0)

    def handle(stimulus: WaveEnded) -> tuple[()]:
        ended.append(stimulus)
        return ()

    world.replayer._engine = cast("Engine", SimpleNamespace(handle=handle))
    for wave, time in ((0, None), (0, None), (7, 3.25), (9, 0.0), (0, None), (8, 5.0)):
        decision = ReplayedDecision(40.0, "wave-ended", "", wave=wave, wave_time=time)
        world.replayer.reach(1, decision)
    assert [(e.number, e.time) for e in ended] == [
        (1, 40.0),
        (2, 40.0),
        (7, 3.25),
        (9, 0.0),
        (10, 40.0),
        (8, 5.0),
    ]
    assert {e.now for e in ended} == {50.0}
    assert world.replayer.outcome().waves == 6


def test_what_a_step_writes_into_its_own_input_does_not_count_for_itself() -> None:
    world = World(flow(updates(IN, 2), updates(OUT, 1e6), writes=IN))
    world.replayer.begin()
    world.put("in", rows(5, first=10), B_RUN)
    world.put("in", rows(2))
    assert world.runs("b") == 1
    world.put("in", rows(1))
    assert world.runs("b") == 1
    world.put("in", rows(1))
    assert world.runs("b") == 2


def test_what_was_held_back_shows_once_the_step_has_run() -> None:
    world = World(flow(updates(IN, 3), updates(OUT, 4)))
    world.put("out", rows(2), begun=False)
    world.replayer.begin()
    world.put("in", rows(1))
    world.put("out", rows(4, b"5"), B_RUN)
    world.put("out", rows(2, b"6"), B_RUN)
    world.replayer.measure()
    assert world.runs("c") == 0
    world.put("in", rows(2))
    assert (world.runs("b"), world.runs("c")) == (1, 1)
    world.replayer.measure()
    before, after = world.errors()
    # Two cells hold 1 and not 6, and two that hold 5 are not there.
    assert before == OutputError(1.0, 20 / 22, 20 / 22, 5.0)
    assert after == OutputError(0.0, 0.0, 0.0, 0.0)


def test_what_others_write_over_what_is_held_back_shows() -> None:
    world = World(flow(NEVER, updates(OUT, 1e6)))
    world.put("out", rows(3), begun=False)
    world.replayer.begin()
    world.put("out", rows(2, b"5"), B_RUN)
    world.put("out", rows(1, b"7"))
    world.replayer.measure()
    # One cell holds 5 and shows 1; another holds 7, and shows it.
    assert world.errors() == [OutputError(1 / 3, 4 / 13, 4 / 13, 4.0)]


def test_it_shows_though_it_comes_with_more_that_is_held_back() -> None:
    world = World(flow(NEVER, updates(OUT, 1e6)))
    world.put("out", rows(3), begun=False)
    world.replayer.begin()
    world.put("out", rows(1, b"5"), B_RUN)
    requests = tuple(
        RequestPart(number, "put", Outcome.APPLIED, 1.0, 1, origin=origin)
        for number, origin in ((8, None), (9, B_RUN))
    )
    kinds, columns = bytes([UpdateKind.PUT]) * 2, (b"f:x",) * 2
    parts = (requests, kinds, (b"r00", b"r01"), columns, (-1, -1), (b"7", b"5"))
    world.hear(UpdateBatch(VERSION, "o", 1, 9, 0, "out", *parts))
    world.replayer.measure()
    assert world.errors() == [OutputError(1 / 3, 4 / 13, 4 / 13, 4.0)]


def test_a_table_that_is_emptied_is_empty_for_the_replay_too() -> None:
    world = World(flow(NEVER, updates(OUT, 1e6)))
    world.put("out", rows(2), begun=False)
    world.replayer.begin()
    world.put("out", rows(2, b"5"), B_RUN)
    change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0)
    world.hear(TableChange(VERSION, "o", 1, 9, 99, "out", *change))
    world.put("out", rows(1, b"7"))
    world.replayer.measure()
    assert world.errors() == [OutputError(0.0, 0.0, 0.0, 0.0)]
