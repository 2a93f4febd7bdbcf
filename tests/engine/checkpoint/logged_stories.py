"""Engines whose checkpoints go into a log, and stories of what happens to them."""

from __future__ import annotations

from unittest.mock import patch

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Checkpoint,
    Codec,
    CodecName,
    Count,
    DataflowSpec,
    Engine,
    EngineTester,
    Kept,
    Metric,
    ReconciliationDue,
    Restarted,
    RetryPolicy,
    SavedEngine,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
    check_invariants,
)
from headgate.engine.checkpoint.snapshot import read_snapshot
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
)

LOGGED = -1
"""Cells up to which a state is saved whole: never."""
EVERYTHING = 1 << 60
"""The same: always."""
ROWS = [b"r%d" % i for i in range(12)]
COLUMNS = [b"f:a", b"f:b", b"g:a", b"g:b", b"g:c"]
IN, OUT, SEEN = ContainerId("in"), ContainerId("out"), ContainerId("seen")


class Log:
    """Where segments of a log are kept."""

    def __init__(self) -> None:
        self.segments: dict[tuple[str, int], bytes] = {}
        self.head = b""
        self.kept: tuple[Kept, ...] = ()

    def save(self, checkpoint: Checkpoint) -> None:
        change = checkpoint.log
        for segment in change.written:
            assert (segment.stream, segment.number) not in self.segments, "a number comes twice"
            self.segments[segment.stream, segment.number] = segment.data
        self.head, self.kept = checkpoint.head, change.kept
        for place in places(change.dropped):
            del self.segments[place]
        assert sorted(self.segments) == sorted(places(self.kept)), (
            "what is kept is not what is there"
        )

    def saved(self) -> SavedEngine:
        return SavedEngine(self.head, self.kept, [self.segments[p] for p in places(self.kept)])


def comparable(engine: Engine) -> bytes:
    """Return all of an engine's state; what is no number equals itself."""
    return contents(engine.snapshot())


def contents(snapshot: bytes) -> bytes:
    """Return what is in a snapshot, whichever version it has."""
    return msgspec.json.encode(replace(read_snapshot(snapshot), version=0), order="sorted")


def places(kept: tuple[Kept, ...]) -> list[tuple[str, int]]:
    return [(one.stream, number) for one in kept for number in range(one.first, one.end)]


class Story:
    """An engine that is saved now and then, and whose successors go on where it was."""

    def __init__(self, codec: CodecName, count: Count, whole: int = LOGGED) -> None:
        relative = ValueBound(Metric.RELATIVE, 0.5)
        changed = ValueBound(Metric.CHANGED, 0.5)
        distinct = SequenceBound(60, SequenceUnit.PERCENT, distinct=True)
        value = relative if codec is CodecName.UTF8 else changed
        watched = (
            WatchedContainer(Container(IN, (Item("in"),)), Codec(codec), count),
            WatchedContainer(Container(OUT, (Item("out", b"f"),)), Codec(codec), count),
            WatchedContainer(Container(SEEN, (Item("seen"),)), Codec(codec), count),
        )
        retry = RetryPolicy(2, 1.0)
        self.tester = EngineTester(
            DataflowSpec(
                "flow",
                watched,
                (
                    ActionSpec("feed", ActionRole.INPUT, writes=(IN,)),
                    ActionSpec(
                        "first",
                        after=("feed",),
                        reads=(IN,),
                        writes=(OUT,),
                        bounds=(Bound("k", IN, None, distinct, value),),
                        retry=retry,
                    ),
                    ActionSpec(
                        "second",
                        after=("first",),
                        reads=(OUT,),
                        bounds=(Bound("l", OUT, None, SequenceBound(3, distinct=True), value),),
                        retry=retry,
                    ),
                    ActionSpec(
                        "third",
                        after=("feed",),
                        reads=(SEEN,),
                        bounds=(Bound("m", SEEN, 5.0, SequenceBound(3)),),
                        retry=retry,
                    ),
                ),
            ),
            partitions=2,
        )
        self.whole = whole
        self.log = Log()
        self.epoch = 0
        self.intents = 0

    def play(self, step: tuple) -> None:
        tester = self.tester
        match step:
            case ("write", table, by, cells):
                rows: dict[bytes, dict[bytes, bytes | None]] = {}
                for row, column, value in cells:
                    rows.setdefault(row, {})[column] = value
                tester.write(table, rows, by=by)
            case ("stamp", stamp, cells):
                self.stamped(stamp, [c for c in cells if c[2] is not None])
            case ("wave",):
                tester.wave("feed")
            case ("finish", action) if self.has_attempt(action):
                tester.finish(action)
            case ("fail", action) if self.has_attempt(action):
                tester.fail(action)
            case ("wait",):
                tester.pass_time(2.0)
            case ("lose", cells):
                table = tester.tables.setdefault("in", {})
                for row, column, value in cells:
                    table.pop((row, column), None)
                    if value is not None:
                        table[row, column] = value
                tester.handle(ReconciliationDue(tester.now))
            case ("save whole",):
                self.log.save(tester.engine.checkpoint(5))
            case ("take over",):
                tester.engine = self.successor()
                tester.handle(Restarted(tester.now))
        self.successor()

    def has_attempt(self, action: str) -> bool:
        """Return whether a run of the action is active, and none waits to be tried again."""
        run = self.tester.engine.actions[action].run
        return run is not None and run.retry_at is None

    def stamped(self, stamp: int, cells: list[tuple[bytes, bytes, bytes]]) -> None:
        """Write cells with a timestamp."""
        for row, column, value in cells:
            self.intents += 1
            part = RequestPart(self.intents, "mutateRowTs", Outcome.APPLIED, self.tester.now, 1)
            batch = UpdateBatch(
                version=VERSION,
                observer="other",
                epoch=1,
                sequence=self.intents,
                watermark=self.intents,
                table="in",
                requests=(part,),
                kinds=bytes([UpdateKind.PUT]),
                rows=(row,),
                columns=(column,),
                timestamps=(stamp,),
                values=(value,),
            )
            self.tester.tables.setdefault("in", {})[row, column] = value
            self.tester.publish("in", batch)

    def successor(self) -> Engine:
        """Save, and return an engine made of what is saved."""
        self.epoch += 1
        self.log.save(self.tester.engine.checkpoint(self.whole))
        engine = Engine(self.tester.spec, self.log.saved(), log_number=self.epoch << 32)
        check_invariants(engine)
        if self.whole == LOGGED:
            assert comparable(engine) == comparable(self.tester.engine)
        else:  # whose cells are saved in the order in which they came
            assert contents(self.log.head) == contents(self.tester.engine.snapshot())
        return engine


LONG = 2**53
values = st.sampled_from(
    [b"0", b"1", b"2", b"-3.5", b"7", b"junk", None, b"%d" % LONG, b"%d" % (LONG + 1), b"1e-400"]
)
written = st.tuples(
    st.just("write"),
    st.sampled_from(["in", "out", "seen"]),
    st.sampled_from([None, None, "first"]),
    st.lists(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS), values), min_size=1, max_size=9
    ),
)
stamped = st.tuples(
    st.just("stamp"),
    st.sampled_from([0, 7, 2**63 - 1]),
    st.lists(st.tuples(st.sampled_from(ROWS), st.sampled_from(COLUMNS), values), max_size=3),
)
lost = st.tuples(st.just("lose"), written.map(lambda step: step[3]))
ended = st.tuples(
    st.sampled_from(["finish", "fail"]), st.sampled_from(["first", "second", "third"])
)
stories = st.lists(
    st.one_of(
        written,
        written,
        stamped,
        ended,
        st.just(("wave",)),
        st.just(("wait",)),
        lost,
        st.just(("save whole",)),
        st.just(("take over",)),
    ),
    min_size=2,
    max_size=25,
)
codecs = st.sampled_from([CodecName.UTF8, CodecName.OPAQUE])
small = patch.multiple(
    "headgate.engine.checkpoint.changelog",
    _SEGMENT=100,
    _ITEMS=2,
    _SLOTS=4,
    _OPAQUE=3,
    _MERGED=3,
    _RECENT=12,
    _MANY=5,
    _SPARE=4,
    _TURN=3,
)
in_columns = patch("headgate.engine.cells.cells._FEW", 1)
