"""Checkpoints that say what changed, and engines that are made of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged_stories import (
    EVERYTHING,
    IN,
    LOGGED,
    ROWS,
    Log,
    Story,
    codecs,
    comparable,
    in_columns,
    places,
    small,
    stories,
)
from msgspec.structs import replace

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Checkpoint,
    Count,
    DataflowSpec,
    Engine,
    EngineTester,
    Metric,
    Restarted,
    SequenceBound,
    SequenceUnit,
    SnapshotError,
    SpecificationChanged,
    ValueBound,
    WatchedContainer,
)
from headgate.engine.checkpoint import changelog
from headgate.engine.checkpoint.snapshot import action_state, cells_state, read_snapshot
from headgate.events import Container, ContainerId, Item


@given(codecs, st.sampled_from(Count), st.sampled_from([LOGGED, EVERYTHING]), stories)
def test_whoever_takes_over_has_what_was_there(codec, count, whole, story):
    with small, in_columns:
        told = Story(codec, count, whole)
        for step in story:
            told.play(step)


@given(codecs, st.sampled_from(Count), st.integers(1, 4), stories)
def test_it_holds_where_slots_move(codec, count, widest, story):
    grid = {"_WIDEST": widest, "_FEW_ROWS": 0, "_SPARSE": 2}
    with small, in_columns, patch.multiple("headgate.engine.cells.grid", **grid):
        told = Story(codec, count)
        for step in story:
            told.play(step)


def many(pair: Callable[..., EngineTester], rows: int) -> EngineTester:
    tester = pair(Bound("k", IN, value=ValueBound(Metric.RELATIVE, 1e9)))
    tester.write("in", {b"%06d" % i: {b"f:x": b"%d" % i} for i in range(rows)})
    return tester


def size(checkpoint: Checkpoint) -> int:
    return len(checkpoint.head) + sum(len(segment.data) for segment in checkpoint.log.written)


def test_a_checkpoint_after_few_changes_is_small(pair):
    tester = many(pair, 20_000)
    first = tester.engine.checkpoint(LOGGED)
    tester.write("in", {b"%06d" % i: {b"f:x": b"0"} for i in range(10)})
    assert size(tester.engine.checkpoint(LOGGED)) < size(first) / 50


def test_a_checkpoint_after_no_change_is_a_head_only(pair):
    tester = many(pair, 100)
    tester.engine.checkpoint(LOGGED)
    assert tester.engine.checkpoint(LOGGED).log.written == ()


@pytest.mark.parametrize("whole", [LOGGED, EVERYTHING])
def test_a_checkpoint_encodes_what_has_changed(whole: int, monkeypatch: pytest.MonkeyPatch):
    names = [ContainerId(f"c{i}") for i in range(20)]
    steps = [
        ActionSpec(f"s{name}", reads=(name,), bounds=(Bound("k", name, None, SequenceBound(3)),))
        for name in names
    ]
    watched = tuple(WatchedContainer(Container(name, (Item(name),))) for name in names)
    feed = ActionSpec("feed", ActionRole.INPUT, writes=tuple(names))
    after = tuple(replace(step, after=("feed",)) for step in steps)
    tester = EngineTester(DataflowSpec("flow", watched, (feed, *after)))
    for name in 3 * names:
        tester.write(name, {b"row": {b"f:x": b"0"}})
    tester.wave("feed")
    for name in names:
        tester.finish(f"s{name}")
        tester.write(name, {b"row": {b"f:x": b"0"}})
    tester.wave("feed")
    tester.engine.checkpoint(whole)
    encoded: list[str] = []

    def noting(state_of: Callable[..., object], name: str) -> None:
        def note(thing: Any, *more: object) -> object:
            encoded.append(getattr(thing, "name", None) or thing.watched.id)
            return state_of(thing, *more)

        monkeypatch.setattr(f"headgate.engine.checkpoint.encoded.{name}", note)

    noting(action_state, "action_state")
    noting(cells_state, "cells_state")
    tester.engine.checkpoint(whole)
    assert encoded == []
    for name in names:  # each counts one update: it is not encoded for that
        tester.write(name, {b"row": {b"f:x": b"1"}})
    tester.engine.checkpoint(whole)
    assert encoded == []
    tester.write("c7", {b"row": {b"f:x": b"2"}})
    tester.wave("feed")
    assert tester.engine.actions["sc7"].run is not None
    head = tester.engine.checkpoint(whole).head
    assert "sc7" in encoded
    assert "c7" in encoded
    assert not {"c6", "c8"} & set(encoded)
    assert comparable(Engine(tester.spec, head)) == comparable(tester.engine)


def test_of_a_small_state_each_stream_gets_one_segment(pair):
    written = many(pair, 300).engine.checkpoint(LOGGED).log.written
    assert [segment.stream for segment in written] == ["b", "c"]
    with patch("headgate.engine.checkpoint.changelog._SEGMENT", 100):
        written = many(pair, 300).engine.checkpoint(LOGGED).log.written
    assert [segment.stream for segment in written] == ["b", "b", "c"]


@pytest.mark.parametrize("whole", [LOGGED, EVERYTHING])
def test_distinct_elements_that_came_since_the_last_checkpoint_are_not_forgotten(pair, rows, whole):
    tester = pair(Bound("k", IN, sequence=SequenceBound(90, distinct=True)))
    log = Log()
    for first in (0, 3):
        tester.write("in", rows(3, first=first))
        log.save(tester.engine.checkpoint(whole))
    ((_, pending),) = Engine(tester.spec, log.saved()).actions["b"].all_parts()
    assert set(pending.distinct) == set(rows(6))


def test_what_strangers_wrote_since_the_last_checkpoint_is_not_forgotten(pair, rows):
    bound = Bound("k", IN, value=ValueBound(Metric.RELATIVE, 1e9))
    tester = EngineTester(replace(pair(bound).spec, feeders=()))
    tester.write("in", rows(2), by="a")
    log = Log()
    for value in (None, 3, 4):
        if value is not None:
            tester.write("in", rows(1, value))
        log.save(tester.engine.checkpoint(LOGGED))
    again = Engine(tester.spec, log.saved()).cells[IN, "in"].strangers.writes
    assert list(again) == [(b"r0", b"f:x")]
    assert again.all() == tester.engine.cells[IN, "in"].strangers.writes.all()


def test_who_takes_over_hands_on_what_it_has_not_changed(pair, rows):
    tester = pair(Bound("k", IN, value=ValueBound(Metric.RELATIVE, 1e9)))
    tester.write("in", rows(5, 10))
    tester.request("b")
    tester.finish("b")
    tester.write("in", rows(3, 11))
    log, engine = Log(), tester.engine
    for taken_over in range(1, 4):
        log.save(engine.checkpoint(LOGGED))
        engine = Engine(tester.spec, log.saved(), log_number=1000 * taken_over)
    ((_, pending),) = engine.actions["b"].all_parts()
    assert pending.measured() == (3, 3.0, 1.0)


def test_the_log_stays_in_proportion_to_what_it_holds(pair):
    tester = many(pair, 2000)
    log = Log()
    first = tester.engine.checkpoint(LOGGED)
    log.save(first)
    for wave in range(200):
        rows = {b"%06d" % ((wave * 97 + i) % 2000): {b"f:x": b"%d" % wave} for i in range(50)}
        tester.write("in", rows)
        log.save(tester.engine.checkpoint(LOGGED))
    assert sum(map(len, log.segments.values())) < 8 * size(first)
    assert len(log.segments) < 200


@pytest.mark.parametrize(("changed", "turn", "checkpoints"), [(50, 1000, 2), (1, 3, 3)])
def test_what_was_written_before_a_turn_goes_when_it_has_come_to_all(
    pair, changed, turn, checkpoints
):
    tester = many(pair, 100)
    log = Log()
    log.save(tester.engine.checkpoint(LOGGED))
    with patch("headgate.engine.checkpoint.changelog._TURN", turn):
        first = []
        for wave in range(2 * checkpoints):  # the first turn began with the log
            rows = {b"%06d" % i: {b"f:x": b"%d" % (1000 + wave)} for i in range(changed)}
            tester.write("in", rows)
            log.save(tester.engine.checkpoint(LOGGED))
            first.append(next(one.first for one in log.kept if one.stream == "c"))
    assert first == [0] * (2 * checkpoints - 1) + [checkpoints + 1]


def test_the_head_says_how_many_items_of_lists_and_small_pieces_the_log_has(pair, rows):
    tester, log = many(pair, 1), Log()
    for wave, whole in enumerate([LOGGED] * 6 + [EVERYTHING] + [LOGGED] * 6):
        tester.write("in", rows(10, first=10 * wave))
        with patch("headgate.engine.checkpoint.changelog._RECENT", 15):
            log.save(tester.engine.checkpoint(whole))
        lists = [place for place in places(log.kept) if place[0] != "c"]
        items = sum(
            len(part.items)
            for place in lists
            for part in msgspec.msgpack.decode(
                zlib.decompress(log.segments[place]), type=changelog.Parts
            ).lists
        )
        said = read_snapshot(log.head).log
        if whole == LOGGED:
            assert said is not None
            assert (said.items, said.small) == (items, sum(stream == "a" for stream, _ in lists))


def test_a_small_state_is_saved_whole_and_takes_no_log(pair, rows):
    tester = many(pair, 10)
    log = Log()
    log.save(tester.engine.checkpoint(10))
    assert log.kept == ()
    tester.write("in", rows(5))
    log.save(tester.engine.checkpoint(10))
    assert log.kept
    tester.write("in", {row: {column: None} for row, column in tester.tables["in"]})
    log.save(tester.engine.checkpoint(10))
    assert (log.kept, log.segments) == ((), {})
    assert comparable(Engine(tester.spec, log.head)) == comparable(tester.engine)


def test_another_specification_begins_the_log_anew(pair, rows):
    tester = many(pair, 100)
    log = Log()
    log.save(tester.engine.checkpoint(LOGGED))
    bound = Bound("k", IN, sequence=SequenceBound(90, SequenceUnit.PERCENT, distinct=True))
    a, b = tester.spec.actions
    tester.handle(
        SpecificationChanged(
            tester.now, replace(tester.spec, actions=(a, replace(b, bounds=(bound,))))
        )
    )
    tester.write("in", rows(3))
    log.save(tester.engine.checkpoint(LOGGED))
    again = Engine(tester.engine.spec, log.saved())
    assert comparable(again) == comparable(tester.engine)


def test_a_log_is_read_under_another_specification(pair, rows):
    both: dict[str, Any] = {"sequence": SequenceBound(5), "value": ValueBound(Metric.RELATIVE, 1e9)}
    tester = pair(Bound("k", IN, **both))
    tester.write("in", rows(3))
    log = Log()
    log.save(tester.engine.checkpoint(LOGGED))
    a, b = tester.spec.actions
    counted = Bound("k", IN, sequence=SequenceBound(5))
    spec = replace(tester.spec, actions=(a, replace(b, bounds=(counted,))))
    again = Engine(spec, log.saved())
    assert [p.updates for cells in again.cells.values() for p in cells.watchers.pendings] == [3]


def test_a_log_of_keys_alone_is_none_of_their_values(pair):
    tester = pair(Bound("k", IN, sequence=SequenceBound(90, SequenceUnit.PERCENT)))
    for row in (b"r2", b"r0", b"r1"):
        tester.write("in", {row: {b"f:x": row[1:]}})
    log = Log()
    log.save(tester.engine.checkpoint(LOGGED))
    a, b = tester.spec.actions
    valued = replace(b, bounds=(Bound("k", IN, value=ValueBound(Metric.RELATIVE, 1e9)),))
    tester.spec = replace(tester.spec, actions=(a, valued))
    tester.engine = Engine(tester.spec, log.saved(), log_number=1000)
    tester.handle(Restarted(tester.now))
    log.save(tester.engine.checkpoint(LOGGED))
    again = Engine(tester.spec, log.saved(), log_number=2000)
    (cells,) = again.cells.values()
    assert cells.columns.contents() == {(b"r%d" % i, b"f:x"): i for i in range(3)}


@pytest.fixture
def saved(pair) -> tuple[EngineTester, Log]:
    tester = many(pair, 300)
    log = Log()
    with small:
        log.save(tester.engine.checkpoint(LOGGED))
    return tester, log


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_what_is_no_piece_is_refused(saved, data):
    tester, log = saved
    log.segments[places(log.kept)[0]] = data
    with pytest.raises(SnapshotError, match="not a segment"):
        Engine(tester.spec, log.saved())


@pytest.mark.parametrize("place", [0, 3, -1])
def test_a_log_without_one_of_its_lists_is_refused(saved, place):
    tester, log = saved
    lists = [p for p in places(log.kept) if p[0] != "c"]
    saved = log.saved()
    kept = [
        data for p, data in zip(places(log.kept), saved.segments, strict=True) if p != lists[place]
    ]
    with pytest.raises(SnapshotError, match="list"):
        Engine(tester.spec, replace(saved, segments=kept))


def test_a_piece_of_a_later_version_says_so(saved):
    tester, log = saved
    log.segments[places(log.kept)[0]] = zlib.compress(msgspec.msgpack.encode((99, (), ())))
    with pytest.raises(SnapshotError, match="upgrade"):
        Engine(tester.spec, log.saved())


def of_containers(*names: str) -> DataflowSpec:
    """A step with a value bound on a container in each of these tables."""
    bound = ValueBound(Metric.RELATIVE, 1e9)
    return DataflowSpec(
        "flow",
        tuple(WatchedContainer(Container(ContainerId(n), (Item(n),))) for n in names),
        (
            ActionSpec("a", ActionRole.INPUT, writes=tuple(map(ContainerId, names))),
            ActionSpec(
                "b",
                after=("a",),
                bounds=tuple(Bound(f"k-{n}", ContainerId(n), value=bound) for n in names),
            ),
        ),
    )


@pytest.mark.parametrize("others", [("y",), ("y", "x"), ("z", "y", "x"), ("y", "z", "x")])
def test_no_cell_is_left_out_of_a_log_when_containers_come_and_go(others):
    """As few are written with each checkpoint as changed, in turn: a turn is under way always."""
    tester = EngineTester(of_containers("x", "y"))
    log = Log()
    for table in ("x", "y"):
        tester.write(table, {row: {b"f:a": b"1"} for row in ROWS})
    log.save(tester.engine.checkpoint(LOGGED))
    for change in range(80):
        if change == 40:  # in the second turn, when it has come to the second container
            tester.handle(SpecificationChanged(tester.now, of_containers(*others)))
            tester.spec = tester.engine.spec
        tester.write("y", {ROWS[0]: {b"f:a": b"%d" % change}})
        log.save(tester.engine.checkpoint(LOGGED))
        again = Engine(tester.spec, log.saved(), log_number=1000)
        for place, cells in tester.engine.cells.items():
            assert again.cells[place].columns.contents() == cells.columns.contents(), (
                f"change {change}"
            )
