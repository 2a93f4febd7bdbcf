"""Numbers of updates where all keys are kept: a scan of everything counts what is gone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headgate.engine import (
    Bound,
    ContainerScanned,
    EngineTester,
    ReconciliationDue,
    ScanContainer,
    SequenceBound,
)
from headgate.events import ContainerId

IN = ContainerId("in")

Pair = Any
BOUND = Bound("k", IN, sequence=SequenceBound(99))


@pytest.fixture
def keeping(pair: Pair) -> EngineTester:
    """Its first scan found two elements."""
    tester = EngineTester(replace(pair(BOUND).spec, keeps_keys=True), answering=False)
    scanned(tester, b"r0", b"r1")
    return tester


def scanned(tester: EngineTester, *rows: bytes, recent: tuple[int, ...] = ()) -> None:
    columns = (b"f:x",) * len(rows)
    tester.handle(ContainerScanned(tester.now, IN, "in", rows, columns, (), recent=recent))


def counted(tester: EngineTester) -> int:
    (step,) = (a for a in tester.engine.explain(tester.now).actions if a.action == "b")
    return step.updates[0].counted


def test_what_was_there_at_first_is_no_update(keeping: EngineTester) -> None:
    assert counted(keeping) == 0
    assert keeping.engine.explain(keeping.now).containers[0].elements == 2


def test_what_is_gone_and_what_is_new_count_each_as_one(keeping: EngineTester) -> None:
    keeping.handle(ReconciliationDue(keeping.now))
    scanned(keeping, b"r1", b"r2", b"r3")
    assert counted(keeping) == 3
    assert keeping.engine.explain(keeping.now).containers[0].elements == 3


def test_what_is_so_new_that_an_update_is_still_to_tell_of_it_is_left_to_that(
    keeping: EngineTester,
) -> None:
    keeping.handle(ReconciliationDue(keeping.now))
    scanned(keeping, b"r1", b"r2", b"r3", recent=(1,))
    assert counted(keeping) == 2
    keeping.write("in", {b"r2": {b"f:x": b"1"}})
    assert counted(keeping) == 3
    assert keeping.engine.explain(keeping.now).containers[0].elements == 3


def test_without_keys_there_is_nothing_to_scan_for(pair: Pair) -> None:
    tester = pair(BOUND)
    told = tester.handle(ReconciliationDue(tester.now))
    assert not [one for one in told if isinstance(one, ScanContainer)]
