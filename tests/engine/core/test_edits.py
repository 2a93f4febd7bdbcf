"""Another specification holds from here on: what is unchanged goes on as it is, at no cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unittest.mock import patch

import pytest
from msgspec.structs import replace
from numpy.typing import DTypeLike

from headgate.engine import (
    Bound,
    Codec,
    CodecName,
    Engine,
    EngineTester,
    Evaluation,
    FirstChanges,
    MemoryIndex,
    Metric,
    SequenceBound,
    SequenceUnit,
    SpecificationChanged,
    ValueBound,
    WatchedContainer,
    blank,
    check_invariants,
    launched,
)
from headgate.engine.cells.pending import Pending
from headgate.engine.cells.storage import Array
from headgate.events import GONE, Container, ContainerId, Item, updates_topic

IN = ContainerId("in")


class Counting:
    """A storage that knows what it has given and has back."""

    def __init__(self) -> None:
        self.open: list[Index] = []

    def index(self) -> MemoryIndex:
        made = Index(self)
        self.open.append(made)
        return made

    def array(self, size: int, dtype: DTypeLike) -> Array:
        return blank(size, dtype)

    @property
    def keys(self) -> int:
        return sum(map(len, self.open))


class Index(MemoryIndex):
    def __init__(self, storage: Counting) -> None:
        super().__init__()
        self._storage = storage
        self.asked = 0

    def number(self, keys: Sequence[bytes]) -> list[int]:
        self.asked += len(keys)
        return super().number(keys)

    def keys(self, first: int = 0) -> Iterable[bytes]:
        self.asked += len(self)
        return super().keys(first)

    def close(self) -> None:
        super().close()
        self._storage.open.remove(self)


def filled(pair, *bounds: Bound, **settings: object) -> tuple[EngineTester, Counting]:
    tester = pair(*bounds, **settings)
    storage = Counting()
    tester.engine = Engine(tester.spec, tester.engine.snapshot(), storage=storage)
    tester.write("in", {b"%d" % i: {b"f:x": b"%d" % i} for i in range(500)})
    return tester, storage


def with_bounds(spec, *bounds: Bound):
    a, b = spec.actions[:2]
    return replace(spec, actions=(a, replace(b, bounds=bounds)))


def far(limit: float) -> Bound:
    return Bound("k", IN, value=ValueBound(Metric.RELATIVE, limit))


def test_other_limits_look_at_no_cell_and_leave_none_behind(pair):
    tester, storage = filled(pair, far(0.5))
    tester.wave("a")
    tester.finish("b")
    (index,) = storage.open
    index.asked = 0
    for limit in range(1, 20):
        tester.engine.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, far(limit))))
    assert index.asked == 0
    assert storage.open == [index]
    check_invariants(tester.engine)


def test_what_goes_on_under_another_limit_is_not_begun_anew(pair, rows):
    tester = pair(far(0.5))
    tester.write("in", rows(3))
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, far(1))))
    with patch.object(Pending, "begin") as begin:
        tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, far(2))))
    assert not begin.called


def test_a_container_that_is_watched_otherwise_gives_back_what_it_had(pair):
    tester, storage = filled(pair, far(0.5))
    percent = Bound("k", IN, sequence=SequenceBound(50, SequenceUnit.PERCENT))
    for bounds in ((percent,), (far(2),)) * 5:
        tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, *bounds)))
    assert storage.keys == 500
    watched = WatchedContainer(Container(IN, (Item("in"),)), Codec(CodecName.OPAQUE))
    changed = Bound("k", IN, value=ValueBound(Metric.CHANGED, 0.5))
    spec = replace(with_bounds(tester.spec, changed), containers=(watched,))
    tester.handle(SpecificationChanged(tester.now, spec))
    assert storage.keys == 500


def test_a_checkpoint_after_other_limits_writes_no_cell_again(pair):
    tester, _ = filled(pair, far(0.5))
    tester.engine.checkpoint(-1)
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, far(2))))
    assert tester.engine.checkpoint(-1).log.written == ()


def test_a_value_bound_that_is_added_counts_what_a_first_run_has_not_seen(pair):
    tester, _ = filled(pair, far(0.5))
    more = replace(tester.spec.actions[1], name="c", bounds=(far(0.5),))
    spec = replace(tester.spec, actions=(*tester.spec.actions, more))
    tester.handle(SpecificationChanged(tester.now, spec))
    assert launched(tester.wave("a")) == ["b", "c"]


def test_from_an_edit_on_a_step_looks_at_values_that_another_looks_at_already(pair):
    tester = pair(Bound("k", IN, sequence=SequenceBound(10_000)))
    other = replace(tester.spec.actions[1], name="c", bounds=(far(1e9),))
    spec = replace(tester.spec, actions=(*tester.spec.actions, other))
    tester.handle(SpecificationChanged(tester.now, spec))
    tester.write("in", {b"%d" % i: {b"f:x": b"10"} for i in range(10)})
    for name in ("b", "c"):
        tester.request(name)
        tester.finish(name)
    tester.handle(
        SpecificationChanged(
            tester.now,
            replace(
                spec, actions=(spec.actions[0], replace(spec.actions[1], bounds=(far(0.5),)), other)
            ),
        )
    )
    tester.write("in", {b"0": {b"f:x": b"59"}})
    assert launched(tester.wave("a")) == []
    tester.write("in", {b"0": {b"f:x": b"60"}})
    assert launched(tester.wave("a")) == ["b"]


def test_a_predecessor_that_comes_back_is_waited_for_anew(pair):
    spec = pair().spec
    a, b = spec.actions
    spec = replace(spec, actions=(a, replace(a, name="c"), replace(b, after=("a", "c"))))
    tester = EngineTester(spec)
    tester.write("in", {b"r": {b"f:x": b"1"}})
    tester.wave("a")
    for after in (("c",), ("a", "c")):
        tester.handle(
            SpecificationChanged(
                tester.now, replace(spec, actions=(*spec.actions[:2], replace(b, after=after)))
            )
        )
    assert launched(tester.wave("c")) == []
    assert launched(tester.wave("a")) == ["b"]


def test_cells_that_are_gone_leave_no_room_when_the_runs_that_knew_them_have_ended(
    pair, monkeypatch
):
    monkeypatch.setattr("headgate.engine.cells.grid._FEW_ROWS", 0)
    tester = pair(far(1e9))
    tester.write("in", {b"%d" % i: {b"f:x": b"1"} for i in range(60)})
    tester.request("b")
    tester.finish("b")
    tester.write("in", {b"%d" % i: {b"f:x": None} for i in range(5, 60)})
    tester.request("b")
    tester.finish("b")
    assert tester.engine.cells[IN, "in"].columns.grid.rows == 5


@pytest.mark.parametrize("first", FirstChanges)
def test_of_a_container_that_a_step_begins_to_read_everything_is_new_to_it(pair, first):
    spec = pair().spec
    aside = WatchedContainer(Container(ContainerId("aside"), (Item("aside"),)))
    feed, b = spec.actions
    feed = replace(feed, writes=("in", "aside"))
    c = replace(b, name="c", reads=("aside",))
    b = replace(b, first_changes=first)
    spec = replace(spec, containers=(*spec.containers, aside), actions=(feed, b, c))
    tester = EngineTester(spec)
    for table in ("in", "aside", "in", "aside"):
        tester.write(table, {b"r": {b"f:x": b"1"}})
    tester.wave("a")
    tester.finish("b")
    b = replace(b, reads=("in", "aside"))
    tester.handle(SpecificationChanged(tester.now, replace(spec, actions=(feed, b, c))))
    tester.write("aside", {b"r": {b"f:x": b"2"}})
    tester.wave("a")
    launch = tester.launches("b")[-1]
    assert launch.since.position(updates_topic("in"), 0) == 2
    known = GONE if first is FirstChanges.SNAPSHOT else 2
    assert launch.since.position(updates_topic("aside"), 0) == known


def test_what_an_edit_lets_a_step_forget_leaves_no_room(pair, monkeypatch):
    monkeypatch.setattr("headgate.engine.cells.grid._FEW_ROWS", 0)
    spec = pair(far(1e9)).spec
    feed, b = spec.actions
    spec = replace(spec, actions=(feed, b, replace(b, name="c")))
    tester = EngineTester(spec)
    tester.write("in", {b"%d" % i: {b"f:x": b"1"} for i in range(60)})
    counted = replace(b, bounds=(Bound("k", IN, sequence=SequenceBound(1e9)),))
    actions = (feed, counted, replace(b, name="c"))
    tester.handle(SpecificationChanged(tester.now, replace(spec, actions=actions)))
    tester.write("in", {b"%d" % i: {b"f:x": None} for i in range(5, 60)})
    for _ in range(2):
        tester.request("c")
        tester.finish("c")
    assert tester.engine.cells[IN, "in"].columns.grid.rows == 5


def test_distinct_elements_that_were_not_remembered_may_be_any_number(pair):
    tester, _ = filled(pair, Bound("k", IN, sequence=SequenceBound(10_000)))
    distinct = Bound("k", IN, sequence=SequenceBound(400, distinct=True))
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, distinct)))
    assert launched(tester.wave("a")) == ["b"]


def test_elements_that_no_bound_counts_any_more_are_forgotten(pair):
    tester, _ = filled(pair, Bound("k", IN, sequence=SequenceBound(10_000, distinct=True)))
    plain = Bound("k", IN, sequence=SequenceBound(10_000))
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, plain)))
    ((_, pending),) = tester.engine.actions["b"].all_parts()
    assert (pending.updates, len(pending.distinct)) == (500, 0)


def test_distinct_elements_that_were_remembered_still_count_once(pair):
    def distinct(limit: float) -> Bound:
        return Bound("k", IN, sequence=SequenceBound(limit, distinct=True))

    tester, _ = filled(pair, distinct(10_000))
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, distinct(501))))
    assert launched(tester.wave("a")) == []
    tester.write("in", {b"new": {b"f:x": b"1"}})
    assert launched(tester.wave("a")) == ["b"]


def test_a_shorter_period_holds_from_the_edit_on(pair):
    def every(seconds: float) -> Evaluation:
        return Evaluation(every=seconds)

    tester = pair(Bound("k", IN, sequence=SequenceBound(1)), evaluation=every(86_400))
    tester.write("in", {b"r": {b"f:x": b"1"}})
    tester.pass_time(100)
    a, b = tester.spec.actions
    spec = replace(tester.spec, actions=(a, replace(b, evaluation=every(60))))
    tester.handle(SpecificationChanged(tester.now, spec))
    assert launched(tester.pass_time(59)) == []
    assert launched(tester.pass_time(1)) == ["b"]
