"""Which agent scans a table, and for whom."""

import pytest
from simulation import SEALS, MemoryRows, TimedScanStore

from headgate.agent.errors import Fenced, Held
from headgate.agent.ports import Extent
from headgate.agent.scans.store import ScanStore
from headgate.agent.scans.table_scan import ScanProgress
from headgate.agent.state.sealed import Owner
from headgate.events import Cut

ONE = Owner("one", "1", "host:1")
TWO = Owner("two", "2", "host:2")
PROGRESS = ScanProgress(7.0, Cut({"topic": (1, 2)}))


@pytest.fixture
def store() -> ScanStore:
    return TimedScanStore(MemoryRows(), SEALS)


def test_one_agent_scans_a_table_until_its_lease_ends(store):
    store.acquire("t", ONE, 10.0, 5.0)
    with pytest.raises(Held, match="one"):
        store.acquire("t", TWO, 14.0, 5.0)
    assert store.acquire("t", TWO, 15.0, 5.0) == (2, None)


def test_the_next_one_goes_on_where_the_last_one_stood(store):
    epoch, _ = store.acquire("t", ONE, 10.0, 5.0)
    store.save("t", epoch, PROGRESS)
    store.release("t", epoch)
    assert store.acquire("t", TWO, 10.0, 5.0) == (2, PROGRESS)


def test_one_that_was_replaced_saves_nothing(store):
    epoch, _ = store.acquire("t", ONE, 10.0, 5.0)
    store.acquire("t", TWO, 20.0, 5.0)
    with pytest.raises(Fenced, match="scanned by another agent"):
        store.save("t", epoch, PROGRESS)
    with pytest.raises(Fenced):
        store.renew("t", epoch, ONE, 25.0, 5.0)


def test_all_that_dataflows_want_is_scanned(store):
    store.want("t", "a", Extent(10.0, (b"f:x",), b"c", b"m", notify=True))
    store.want("t", "b", Extent(5.0, (b"f:y", b"f:x"), b"b", b"k", notify=False))
    assert store.wanted("t") == Extent(5.0, (b"f:x", b"f:y"), b"b", b"m", notify=False)
    store.want("t", "c", Extent(60.0))
    assert store.wanted("t") == Extent(5.0)


def test_after_the_last_dataflow_nothing_is_wanted_and_whoever_comes_begins_anew(store):
    epoch, _ = store.acquire("t", ONE, 10.0, 5.0)
    for name in ("a", "b"):
        store.want("t", name, Extent(10.0))
    store.save("t", epoch, PROGRESS)
    store.forget("t", "a")
    assert store.acquire("t", ONE, 10.0, 5.0)[1] == PROGRESS
    store.forget("t", "b")
    assert store.wanted("t") is None
    assert store.acquire("t", ONE, 10.0, 5.0)[1] is None
