"""What the stored states are of, and the program that stored them.

Run once by the code of each version, which stores a state with a log beside this file; the whole
state was version 1 until version 3. They stay as they are: what later versions must read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Checkpoint,
    DataflowSpec,
    Engine,
    EngineTester,
    Kept,
    Metric,
    SavedEngine,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
)
from headgate.engine.checkpoint.snapshot import read_snapshot
from headgate.events import Container, ContainerId, Item

FOLDER = Path(__file__).parent
VALUES, SEEN = ContainerId("values"), ContainerId("seen")
LOGGED = -1

Stored = tuple[bytes, tuple[Kept, ...], tuple[bytes, ...]]
"""The head, what of the log belongs to it, and its segments."""


def played() -> EngineTester:
    """Return an engine with a run under way, one that has committed, and updates pending."""
    percent = SequenceBound(50, SequenceUnit.PERCENT, distinct=True)
    relative = ValueBound(Metric.RELATIVE, 0.5)
    spec = DataflowSpec(
        "flow",
        (
            WatchedContainer(Container(VALUES, (Item("values"),))),
            WatchedContainer(Container(SEEN, (Item("seen", b"f"),))),
        ),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(VALUES, SEEN)),
            ActionSpec(
                "first", after=("feed",), bounds=(Bound("k", VALUES, 60.0, percent, relative),)
            ),
            ActionSpec(
                "second", after=("feed",), bounds=(Bound("l", SEEN, None, SequenceBound(3)),)
            ),
        ),
    )
    tester = EngineTester(spec)
    tester.write("values", {b"r%d" % i: {b"f:x": b"%d" % i, b"f:y": b"1.5"} for i in range(4)})
    tester.write("seen", {b"r%d" % i: {b"f:x": b"1"} for i in range(3)})
    tester.wave("feed")
    tester.finish("second")
    tester.write("values", {b"r1": {b"f:x": b"100"}, b"r9": {b"f:x": b"junk"}})
    tester.write("values", {b"r2": {b"f:y": None}})
    tester.write("seen", {b"r7": {b"f:x": b"1"}})
    return tester


def stored(checkpoint: Checkpoint) -> Stored:
    """Return what is stored of a checkpoint that is the first of its engine."""
    change = checkpoint.log
    return checkpoint.head, change.kept, tuple(segment.data for segment in change.written)


def saved(version: int) -> SavedEngine:
    """Return what an engine is made from that a version has stored."""
    data = (FOLDER / f"version_{version}.msgpack").read_bytes()
    head, kept, segments = msgspec.msgpack.decode(data, type=Stored)
    return SavedEngine(head, kept, segments)


def meaning(engine: Engine) -> object:
    """Return what an engine knows, in a form that its versions have in common."""
    cells = {
        place: (
            # What is no number equals itself.
            {key: str(value) for key, value in one.columns.contents().items()},
            [
                (
                    p.action,
                    p.updates,
                    p.received,
                    p.committed,
                    set(p.distinct),
                    p.fresh,
                    p.uncounted,
                )
                for p in one.watchers.pendings
            ],
            [
                {k: str(v) for k, v in one.columns.previous(p.past).items()}
                for p in one.watchers.pendings
            ],
            {
                n: (c.updates, set(c.distinct), c.uncounted)
                for n, c in one.watchers.consumed.items()
            },
        )
        for place, one in engine.cells.items()
    }
    actions = {
        name: (
            one.state,
            one.number,
            one.since,
            None if one.run is None else one.run.run,
            one.seen,
            one.seen_at,
        )
        for name, one in engine.actions.items()
    }
    return cells, actions, engine.cut


if __name__ == "__main__":
    checkpoint = played().engine.checkpoint(LOGGED)
    version = read_snapshot(checkpoint.head).version
    with (FOLDER / f"version_{version}.msgpack").open("xb") as file:
        file.write(msgspec.msgpack.encode(stored(checkpoint)))
