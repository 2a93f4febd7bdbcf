"""What a replay makes of each decision and message of a record."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    Evaluation,
    SequenceBound,
    WatchedContainer,
    policies_of,
)
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Cut,
    Gap,
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
from headgate.replay import (
    Candidate,
    NotRecorded,
    RecordedDecision,
    RecordedUpdate,
    Recording,
    ReplayedDecision,
    ReplayReport,
    read_recording,
    replay,
)

AT_WRITES = Evaluation(write=True)
AT_ENDS = Evaluation(action_end=True)
SUBMITTED = ReplayedDecision(100.0, "submitted", "")
TOPICS = {updates_topic("in"): 1, updates_topic("out"): 1}


def flow(limit: float, evaluation: Evaluation = AT_WRITES) -> DataflowSpec:
    """Return a step ``b`` that runs at so many updates of ``in``, and writes ``out``."""
    watched = tuple(
        WatchedContainer(Container(ContainerId(name), (Item(name),))) for name in ("in", "out")
    )
    bound = Bound("k", ContainerId("in"), sequence=SequenceBound(limit))
    step = ActionSpec(
        "b",
        after=("a",),
        reads=(ContainerId("in"),),
        writes=(ContainerId("out"),),
        bounds=(bound,),
        evaluation=evaluation,
    )
    return DataflowSpec(
        "flow", watched, (ActionSpec("a", ActionRole.INPUT, writes=(ContainerId("in"),)), step)
    )


def put(
    table: str, offset: int, time: float, *rows: bytes, run: str = "", observer: str = "o"
) -> RecordedUpdate:
    """Return a request that writes rows, of a run of ``b`` where one is named."""
    number = len(rows)
    origin = Origin("flow", "b", run, 1) if run else None
    part = RequestPart(offset + 1, "put", Outcome.APPLIED, time, number, origin=origin)
    batch = UpdateBatch(
        VERSION, observer, 1, offset, offset + 1, table, (part,), bytes([UpdateKind.PUT]) * number,
        rows, (b"f:x",) * number, (-1,) * number, (b"1",) * number,
    )  # fmt: skip
    return recorded(table, offset, time, batch)


def recorded(table: str, offset: int, time: float, message: UpdateMessage | None) -> RecordedUpdate:
    return RecordedUpdate(updates_topic(table), 0, offset, time, message)


def writes(*times: float) -> list[RecordedUpdate]:
    return [put("in", offset, time, b"r%d" % offset) for offset, time in enumerate(times)]


def launched(time: float, run: str, cut: int) -> ReplayedDecision:
    """Return the launch of a run over the first ``cut`` updates of ``in``."""
    return ReplayedDecision(time, "launched", "", "b", run, cut=Cut({updates_topic("in"): (cut,)}))


def replayed(
    spec: DataflowSpec,
    decisions: Iterable[ReplayedDecision],
    updates: Iterable[RecordedUpdate] = (),
) -> ReplayReport:
    recording = Recording("flow", (SUBMITTED, *decisions))
    events: list[RecordedUpdate | ReplayedDecision] = [*recording.decisions, *updates]
    events.sort(key=lambda event: event.time)
    return replay(recording, events, TOPICS, [Candidate("other", spec)], policies_of)


def counterparts(report: ReplayReport) -> list[tuple[float, str]]:
    """Return when each run would have been, and which it was in the record."""
    [step] = report.replays[0].steps
    return [(run.time, run.recorded) for run in step.runs]


def test_a_run_at_once_over_what_the_recorded_one_had_is_that_run() -> None:
    decisions = [launched(150.0, "x", 2), ReplayedDecision(152.0, "finished", "", "b", "x")]
    assert counterparts(replayed(flow(2), decisions, writes(101.0, 102.0))) == [(102.0, "x")]


def test_a_run_a_second_before_the_recorded_one_is_that_run_still() -> None:
    for time, run in ((103.0, "x"), (103.25, "")):
        decisions = [launched(time, "x", 3), ReplayedDecision(152.0, "finished", "", "b", "x")]
        report = replayed(flow(2), decisions, writes(101.0, 102.0, 102.5))
        assert counterparts(report)[0] == (102.0, run)


def test_a_run_long_before_the_recorded_one_and_over_less_is_another() -> None:
    decisions = [launched(150.0, "x", 3), ReplayedDecision(152.0, "finished", "", "b", "x")]
    assert counterparts(replayed(flow(2), decisions, writes(101.0, 102.0, 103.0))) == [(102.0, "")]


def test_a_run_that_a_write_brings_about_in_the_same_wave_is_another_too() -> None:
    decisions = [launched(150.0, "x", 3), ReplayedDecision(160.0, "wave-ended", "", inputs=("a",))]
    assert counterparts(replayed(flow(2), decisions, writes(101.0, 102.0, 103.0))) == [(102.0, "")]


def test_a_run_long_before_the_recorded_one_is_another_where_there_are_no_waves() -> None:
    spec = flow(1)
    step = msgspec.structs.replace(
        spec.actions[1], bounds=(Bound("k", ContainerId("in"), time=5.0),)
    )
    spec = msgspec.structs.replace(spec, actions=(spec.actions[0], step))
    decisions = [launched(150.0, "x", 2), ReplayedDecision(152.0, "finished", "", "b", "x")]
    report = replayed(spec, decisions, writes(101.0, 120.0))
    assert counterparts(report)[0] == (106.0, "")


def test_a_run_at_the_end_of_a_wave_is_the_recorded_one_before_the_next() -> None:
    decisions = [ReplayedDecision(110.0, "wave-ended", "", inputs=("a",)), launched(150.0, "x", 3)]
    report = replayed(flow(2, AT_ENDS), decisions, writes(101.0, 102.0, 120.0))
    assert counterparts(report) == [(110.0, "x")]


@pytest.mark.parametrize(("second", "run"), [(170.0, "x"), (130.0, "")])
def test_a_recorded_run_of_a_later_wave_is_another(second: float, run: str) -> None:
    waves = [ReplayedDecision(time, "wave-ended", "", inputs=("a",)) for time in (110.0, second)]
    decisions = sorted([*waves, launched(150.0, "x", 3)], key=lambda decision: decision.time)
    report = replayed(flow(2, AT_ENDS), decisions, writes(101.0, 102.0, 120.0))
    assert counterparts(report)[0] == (110.0, run)


def test_a_run_that_somebody_asked_for_is_asked_for_again() -> None:
    asked = msgspec.structs.replace(launched(150.0, "x", 1), moment="request")
    decisions = [asked, ReplayedDecision(152.0, "finished", "", "b", "x")]
    updates = [*writes(101.0), put("out", 0, 151.0, b"r", run="x")]
    report = replayed(flow(1e6), decisions, updates)
    assert counterparts(report) == [(150.0, "x")]
    [output] = report.replays[0].step("b").outputs
    assert output.worst == 0.0


def test_a_run_whose_end_was_not_recorded_ends_when_the_next_begins() -> None:
    decisions = [launched(110.0, "x", 1), launched(120.0, "y", 2)]
    report = replayed(flow(1), decisions, writes(101.0, 115.0))
    assert counterparts(report) == [(101.0, "x"), (120.0, "y")]


def test_a_run_goes_on_though_another_of_its_step_ends_that_is_left_out() -> None:
    decisions = [
        launched(105.0, "left out", 1),
        ReplayedDecision(120.0, "finished", "", "b", "left out"),
        launched(150.0, "x", 2),
        ReplayedDecision(152.0, "finished", "", "b", "x"),
        ReplayedDecision(160.0, "resumed", ""),
    ]
    report = replayed(flow(2), decisions, writes(101.0, 107.0, 130.0, 131.0))
    assert counterparts(report) == [(107.0, "x"), (152.0, "")]


def test_a_run_without_counterpart_takes_the_time_that_runs_mostly_took() -> None:
    """What the recorded runs write meanwhile is held back, and the next one waits for its end."""
    later = [
        each
        for time, run, seconds in ((200.0, "x", 10.0), (300.0, "y", 90.0), (400.0, "z", 1.0))
        for each in (
            launched(time, run, 9),
            ReplayedDecision(time + seconds, "finished", "", "b", run),
        )
    ]
    updates = [*writes(101.0, 102.0, 103.0, 104.0), put("out", 0, 105.0, b"r", run="w")]
    report = replayed(flow(2), [*later, launched(500.0, "unfinished", 9)], updates)
    assert counterparts(report) == [(102.0, ""), (112.0, "")]


def test_a_run_without_counterpart_has_not_ended_before() -> None:
    decisions = [launched(200.0, "x", 9), ReplayedDecision(210.0, "finished", "", "b", "x")]
    updates = [*writes(101.0, 102.0), put("out", 0, 105.0, b"r")]
    [replay] = replayed(with_reader(1), decisions, updates).replays
    assert [run.time for run in replay.step("c").runs] == [105.0]


def test_a_run_that_is_due_does_not_wait_for_another_steps_end() -> None:
    spec = flow(2)
    bound = Bound("k", ContainerId("in"), time=8.0)
    other = ActionSpec("c", after=("a",), reads=(ContainerId("in"),), bounds=(bound,))
    spec = msgspec.structs.replace(spec, actions=(*spec.actions, other))
    decisions = [launched(200.0, "x", 9), ReplayedDecision(210.0, "finished", "", "b", "x")]
    [replay] = replayed(spec, decisions, writes(101.0, 102.0)).replays
    assert [run.time for run in replay.step("b").runs] == [102.0]
    assert replay.step("c").runs[0].time == 109.0


def test_a_topic_that_is_read_no_more_keeps_no_run_from_its_counterpart() -> None:
    cut = Cut({updates_topic("in"): (2,), updates_topic("gone"): (7,)})
    decisions = [msgspec.structs.replace(launched(150.0, "x", 2), cut=cut)]
    assert counterparts(replayed(flow(2), decisions, writes(101.0, 102.0))) == [(102.0, "x")]


def test_other_bounds_hold_throughout_though_the_recorded_ones_were_changed() -> None:
    changed = ReplayedDecision(101.5, "specification-changed", "")
    assert counterparts(replayed(flow(2), [changed], writes(101.0, 102.0))) == [(102.0, "")]


def with_reader(limit: float) -> DataflowSpec:
    """Return a flow with a step ``c`` besides, that runs at so many updates of ``out``."""
    spec = flow(2)
    bound = Bound("k", ContainerId("out"), sequence=SequenceBound(limit))
    reader = ActionSpec(
        "c", after=("a",), reads=(ContainerId("out"),), bounds=(bound,), evaluation=AT_WRITES
    )
    return msgspec.structs.replace(spec, actions=(*spec.actions, reader))


@pytest.mark.parametrize("observer", ["o", "replay"])
def test_what_is_written_late_counts_whatever_the_recorded_observer_is_called(
    observer: str,
) -> None:
    updates = [
        put("out", 0, 101.0, b"a", observer=observer),
        put("out", 1, 102.0, b"r", b"s", run="x", observer=observer),
        *writes(103.0, 104.0),
    ]
    report = replayed(with_reader(3), [], updates)
    assert [len(step.runs) for step in report.replays[0].steps] == [1, 1]


def test_a_step_that_writes_again_what_is_so_already_does_so_late_too() -> None:
    updates = [
        put("out", 0, 101.0, b"r"),
        put("out", 1, 102.0, b"r", run="x"),
        *writes(103.0, 104.0),
    ]
    report = replayed(with_reader(2), [], updates)
    assert [len(step.runs) for step in report.replays[0].steps] == [1, 1]


@pytest.mark.parametrize(("limit", "runs"), [(2, 1), (3, 0)])
def test_what_each_observer_does_to_a_table_counts_once(limit: int, runs: int) -> None:
    def emptied(offset: int, time: float, observer: str) -> RecordedUpdate:
        change = (TableChangeKind.TRUNCATED, Outcome.APPLIED, time)
        return recorded(
            "out", offset, time, TableChange(VERSION, observer, 1, 0, 9, "out", *change)
        )

    updates = [*writes(101.0), emptied(0, 102.0, "o"), emptied(1, 103.0, "p")]
    assert len(replayed(with_reader(limit), [], updates).replays[0].step("c").runs) == runs


def test_the_cells_of_all_updates_since_the_submission_are_counted() -> None:
    before = put("in", 0, 99.0, b"r1")
    report = replayed(flow(1e6), [], [before, put("in", 1, 101.0, b"r2", b"r3")])
    assert report.updates == 2


def test_a_replay_takes_from_the_submission_to_the_last_that_was_recorded() -> None:
    resumed = ReplayedDecision(107.0, "resumed", "")
    assert replayed(flow(2), [resumed]).seconds == 7.0
    assert replayed(flow(2), [resumed], writes(101.0, 130.0)).seconds == 30.0


def test_a_plain_record_needs_no_warning() -> None:
    decisions = [launched(150.0, "x", 2), ReplayedDecision(152.0, "finished", "", "b", "x")]
    assert replayed(flow(2), decisions, writes(101.0, 102.0)).warnings == ()


def test_a_replay_warns_of_all_gaps_since_the_submission() -> None:
    gap = Gap(VERSION, "o", 1, 0, "in", 101.0, 102.0, "no room")
    updates = [
        recorded("in", 0, 98.0, None),
        recorded("in", 1, 99.0, gap),
        recorded("in", 2, 101.0, gap),
        recorded("in", 3, 102.0, None),
        recorded("in", 4, 103.0, None),
    ]
    [warning] = replayed(flow(2), [ReplayedDecision(104.0, "gap", "")], updates).warnings
    assert warning.startswith("4 gaps in the record")


def test_a_replay_warns_of_each_step_whose_runs_failed_for_good() -> None:
    failed = [
        each
        for time in (110.0, 120.0)
        for each in (
            launched(time, f"at {time}", 0),
            ReplayedDecision(time + 1, "quarantined", "", "b", f"at {time}"),
        )
    ]
    [warning] = replayed(flow(2), failed).warnings
    assert warning.startswith("runs of b failed for good")


def scanned(cells: int, start: bytes = b"", stop: bytes | None = None) -> ReplayedDecision:
    return ReplayedDecision(
        110.0, "scanned", "", container="in", table="in", cells=cells, start=start, stop=stop
    )


@pytest.mark.parametrize(("last", "warned"), [(130.0, False), (132.0, True)])
def test_a_replay_warns_of_cells_that_expired_without_an_event(last: float, warned: bool) -> None:
    """Cells of the first second live for 60; HBase's clock may be 30 ahead."""
    scan = msgspec.structs.replace(scanned(1), time=102.0, ttls={"f": 60_000})
    decisions = [scan, ReplayedDecision(last, "resumed", "")]
    warnings = replayed(flow(1e6), decisions, writes(101.0)).warnings
    said = "cells of in have expired by the time to live of their family"
    assert [warning.startswith(said) for warning in warnings] == [True] * warned


@pytest.mark.parametrize(
    ("start", "stop", "cells"),
    [(b"", None, 5), (b"", b"r2", 2), (b"r2", b"r4", 2), (b"r4", None, 1), (b"s", None, 0)],
)
def test_a_scan_finds_the_cells_of_its_rows_that_events_tell_of(
    start: bytes, stop: bytes | None, cells: int
) -> None:
    told = writes(101.0, 102.0, 103.0, 104.0, 105.0)
    replayed(flow(1e6), [scanned(cells, start, stop)], told)
    with pytest.raises(NotRecorded, match=f"held {cells + 1} cells .* events hold {cells}:"):
        replayed(flow(1e6), [scanned(cells + 1, start, stop)], told)


def test_a_decision_that_says_nothing_more_is_read_back_so() -> None:
    said = RecordedDecision(100.0, "flow", DecisionKind.SUBMITTED, "")
    assert read_recording("flow", [msgspec.json.encode(said)]).decisions == (SUBMITTED,)


def test_waves_of_a_record_without_numbers_and_times_are_all_read() -> None:
    """A line as it stood in Kafka before waves had times of their own, and without a number."""
    line = b'{"time":%d.5,"dataflow":"flow","kind":"%b","words":"","inputs":["a"]}'
    lines = [line % (0, b"submitted"), line % (1, b"wave-ended"), line % (2, b"wave-ended")]
    decisions = read_recording("flow", lines).decisions
    assert [(d.time, d.wave, d.wave_time) for d in decisions[1:]] == [
        (1.5, 0, None),
        (2.5, 0, None),
    ]


def test_what_an_agent_that_took_over_says_again_stands_once() -> None:
    """A wave where it was evaluated last, a run from its first launch to its last end."""
    said = [
        ("submitted", "", 0),
        ("launched", "x", 0),
        ("wave-ended", "", 1),
        ("launched", "x", 0),
        ("retried", "x", 0),
        ("wave-ended", "", 1),
        ("retried", "y", 0),
        ("finished", "x", 0),
        ("finished", "x", 0),
        ("wave-ended", "", 2),
    ]
    lines = [
        msgspec.json.encode(ReplayedDecision(float(time), kind, "", run=run, wave=wave))
        for time, (kind, run, wave) in enumerate(said)
    ]
    assert [(m.kind, m.run, m.time) for m in read_recording("flow", lines).decisions] == [
        ("submitted", "", 0.0),
        ("launched", "x", 1.0),
        ("wave-ended", "", 5.0),
        ("launched", "y", 6.0),
        ("finished", "x", 8.0),
        ("wave-ended", "", 9.0),
    ]
