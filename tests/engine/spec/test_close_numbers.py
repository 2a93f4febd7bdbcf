"""Identifiers, nanoseconds and long decimals change, though all of them are one double."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from headgate.engine import (
    Bound,
    Codec,
    CodecName,
    Engine,
    EngineTester,
    Metric,
    SavedEngine,
    ValueBound,
    check_invariants,
)
from headgate.events import ContainerId

Texts = Callable[[int], bytes]
START = 1_700_000_000_000_000_000
SPELLINGS: dict[CodecName, Texts] = {
    CodecName.INT64: lambda n: struct.pack(">q", START + n),
    CodecName.UTF8: lambda n: b"%d" % (START + n),
    CodecName.PHOENIX_INT64: lambda n: struct.pack(">Q", 2**63 + START + n),
    CodecName.OPAQUE: lambda n: b"%d" % n,
}


def value_bound(metric: Metric, limit: float) -> Bound:
    return Bound("k", ContainerId("in"), value=ValueBound(metric, limit))


def put(tester: EngineTester, rows: int, value: bytes) -> None:
    tester.write("in", {b"r%d" % i: {b"f:x": value} for i in range(rows)})


@pytest.mark.parametrize("codec", SPELLINGS)
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("again", [False, True])
def test_a_change_by_one_reaches_a_bound_on_changed_cells(pair, codec, rows, again):
    tester = pair(value_bound(Metric.CHANGED, 0.05), codec=Codec(codec))
    for number in range(4):
        put(tester, rows, SPELLINGS[codec](number))
        tester.wave("a")
        tester.finish("b")
        put(tester, rows, SPELLINGS[codec](number))  # the same value is no change
        tester.wave("a")
        assert len(tester.launches("b")) == number + 1
        if again:
            tester.restart()
        check_invariants(tester.engine)


def test_a_difference_of_nanoseconds_is_exact(pair):
    tester = pair(value_bound(Metric.ABSOLUTE, 100), codec=Codec(CodecName.INT64))
    put(tester, 3, SPELLINGS[CodecName.INT64](0))
    tester.wave("a")
    tester.finish("b")
    put(tester, 1, SPELLINGS[CodecName.INT64](99))
    tester.wave("a")
    assert len(tester.launches("b")) == 1
    put(tester, 1, SPELLINGS[CodecName.INT64](100))
    tester.wave("a")
    assert len(tester.launches("b")) == 2


@pytest.mark.parametrize("metric", [Metric.CHANGED, Metric.RELATIVE])
def test_a_failed_run_gives_back_a_change_by_one(pair, metric):
    tester = pair(value_bound(metric, 1e-30), codec=Codec(CodecName.INT64))
    put(tester, 1, SPELLINGS[CodecName.INT64](0))
    tester.wave("a")
    tester.finish("b")
    put(tester, 1, SPELLINGS[CodecName.INT64](1))
    tester.wave("a")
    tester.fail("b")
    check_invariants(tester.engine)
    assert len(tester.launches("b")) == 2


def test_a_log_of_cells_keeps_all_digits(pair):
    tester = pair(value_bound(Metric.CHANGED, 0.9), codec=Codec(CodecName.INT64))
    put(tester, 3, SPELLINGS[CodecName.INT64](0))
    tester.wave("a")
    tester.finish("b")
    put(tester, 2, SPELLINGS[CodecName.INT64](1))
    written = tester.engine.checkpoint(0)
    segments = [segment.data for segment in written.log.written]
    engine = Engine(tester.engine.spec, SavedEngine(written.head, written.log.kept, segments))
    check_invariants(engine)
    for former, latter in zip(tester.engine.cells.values(), engine.cells.values(), strict=True):
        assert former.columns.contents() == latter.columns.contents()
        (before,), (after,) = former.watchers.pendings, latter.watchers.pendings
        assert before.changed == after.changed == 2
