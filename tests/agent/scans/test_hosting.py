"""Which tables an agent scans, and what becomes of a table whose scan ends or cannot begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from simulation import SEALS, MemoryRows
from structlog.testing import capture_logs

from headgate.agent.errors import Fenced, Held, Unreachable
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ports import Extent
from headgate.agent.scans import hosting
from headgate.agent.scans.hosting import ScannedTable, ScanSettings, TableScans
from headgate.agent.scans.store import ScanStore
from headgate.agent.scans.table_scan import ScanProgress
from headgate.agent.state.sealed import Owner
from headgate.agent.supervision import Supervision
from headgate.events import Cut

LEASE = 9.0
OTHER = Owner("other", "1", "other:1")
ALL = Extent(10.0)


@pytest.fixture
def store() -> ScanStore:
    return ScanStore(MemoryRows(), SEALS)


@pytest.fixture
def settings(store: ScanStore) -> ScanSettings:
    return ScanSettings(
        store=store,
        broker=cast("Any", None),
        reader=cast("Any", None),
        observers=ObserverTable(0.0),
        owner=Owner("agent", "1", "agent:1"),
        requester="agent",
        rows=10,
        window=1000,
        clock_skew=2.0,
        barrier_repeat=1.0,
        lease=LEASE,
        metrics=AgentMetrics(),
        supervision=Supervision(lambda _: None),
    )


# -- which tables are scanned


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose threads run, in the order in which these began."""
    running: list[str] = []

    class Scanned:
        def __init__(self, table: str, _: ScanSettings) -> None:
            self._table = table

        def begin(self) -> None:
            running.append(self._table)

        def stop(self) -> None:
            running.remove(self._table)

    monkeypatch.setattr(hosting, "ScannedTable", Scanned)
    return running


@pytest.fixture
def scans(settings: ScanSettings) -> TableScans:
    return TableScans(settings)


def test_a_table_that_two_dataflows_want_is_scanned_once_for_all_that_they_want(
    scans: TableScans, scanned: list[str], store: ScanStore
) -> None:
    scans.want("air", {"t": Extent(10.0, (b"f:a",))})
    scans.want("fire", {"t": Extent(5.0, (b"f:b",)), "u": ALL})
    assert sorted(scanned) == ["t", "u"]
    assert store.wanted("t") == Extent(5.0, (b"f:a", b"f:b"))


def test_what_a_dataflow_wants_no_more_is_neither_scanned_nor_wanted(
    scans: TableScans, scanned: list[str], store: ScanStore
) -> None:
    scans.want("air", {"t": ALL, "u": ALL})
    scans.want("air", {"u": ALL, "v": ALL})
    assert sorted(scanned) == ["u", "v"]
    assert (store.wanted("t"), store.wanted("u")) == (None, ALL)


def test_a_scan_that_is_wanted_on_is_not_begun_anew(scans: TableScans, scanned: list[str]) -> None:
    for table in ("t", "u", "v"):
        scans.want(table, {table: ALL})
    scans.want("u", {"w": ALL})
    assert scanned == ["t", "v", "w"]


def test_a_table_is_scanned_as_long_as_any_dataflow_wants_it(
    scans: TableScans, scanned: list[str], store: ScanStore
) -> None:
    scans.want("air", {"t": ALL})
    scans.want("fire", {"t": ALL})
    scans.withdraw("air", ["t"])
    assert (scanned, store.wanted("t")) == (["t"], ALL)
    scans.withdraw("fire", ["t"])
    assert (scanned, store.wanted("t")) == ([], None)


def test_a_dataflow_that_goes_on_elsewhere_wants_its_scans_on(
    scans: TableScans, scanned: list[str], store: ScanStore
) -> None:
    scans.want("air", {"t": ALL})
    scans.rest("air")
    assert (scanned, store.wanted("t")) == ([], ALL)
    scans.rest("unknown")


def test_an_agent_that_ends_scans_nothing_and_leaves_what_is_wanted(
    scans: TableScans, scanned: list[str], store: ScanStore
) -> None:
    scans.want("air", {"t": ALL, "u": ALL})
    scans.close()
    assert (scanned, store.wanted("t")) == ([], ALL)


def test_cells_of_the_next_scan_are_dated_from_where_the_last_one_ended(
    scans: TableScans, store: ScanStore, settings: ScanSettings
) -> None:
    assert scans.unpublished("t", 100.0) is None
    epoch, _ = store.acquire("t", settings.owner, 0.0, LEASE)
    progress = ScanProgress(50.0, Cut())
    store.save("t", epoch, progress)
    assert scans.unpublished("t", 100.0) == progress.next(100.0, settings.clock_skew)


# -- the thread of a table


class Turns:
    """In place of the event that ends a thread: it is set after so many pauses."""

    def __init__(self, turns: int) -> None:
        self.pauses: list[float | None] = []
        self._turns = turns

    def is_set(self) -> bool:
        return len(self.pauses) >= self._turns

    def wait(self, seconds: float | None = None) -> bool:
        self.pauses.append(seconds)
        return self.is_set()


class Scan:
    """A scan that ends in its first turn, in the way that a test sets."""

    made: list[Scan]
    fault: Callable[[], None]

    def __init__(
        self, table: str, epoch: int, extent: Extent, progress: ScanProgress | None, context: Any
    ) -> None:
        self.table, self.epoch, self.extent, self.progress = table, epoch, extent, progress
        self.context = context
        self.outgrown = True
        self.closed = False
        self.consumed: list[Any] = []
        self.made.append(self)

    def start(self, _: float) -> None:
        self.fault()

    def due(self) -> float:
        return 0.0

    def consume(self, records: Any, _: float) -> None:
        self.consumed.append(records)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Scan]:
    monkeypatch.setattr(hosting, "TableScan", Scan)
    Scan.made, Scan.fault = [], staticmethod(lambda: None)
    return Scan.made


def run(settings: ScanSettings, turns: int = 1) -> list[float | None]:
    """Run the thread of table ``t`` here, and return its pauses."""
    table = ScannedTable("t", settings)
    stopping = Turns(turns)
    table._stopping = cast("Any", stopping)
    table._run()
    return stopping.pauses


def fail(error: Exception) -> None:
    def fault() -> None:
        raise error

    Scan.fault = staticmethod(fault)


def free(settings: ScanSettings) -> bool:
    """Return whether another agent may scan the table at once."""
    try:
        settings.store.acquire("t", OTHER, 0.0, LEASE)
    except Held:
        return False
    return True


def test_a_scan_goes_on_where_the_last_one_was_and_begins_again_when_it_ends(
    settings: ScanSettings, store: ScanStore, made: list[Scan]
) -> None:
    store.want("t", "air", ALL)
    epoch, _ = store.acquire("t", settings.owner, 0.0, LEASE)
    store.save("t", epoch, ScanProgress(50.0, Cut()))
    assert run(settings, 2) == [1.0, 1.0]
    assert [(scan.epoch, scan.extent, scan.closed) for scan in made] == [
        (epoch + 1, ALL, True),
        (epoch + 2, ALL, True),
    ]
    assert made[0].progress == ScanProgress(50.0, Cut())
    assert free(settings)


def test_progress_is_saved_with_the_scans_epoch(
    settings: ScanSettings, store: ScanStore, made: list[Scan]
) -> None:
    store.want("t", "air", ALL)
    run(settings)
    [scan] = made
    scan.context.save(ScanProgress(60.0, Cut()))
    assert store.progress("t") == ScanProgress(60.0, Cut())
    assert scan.context.wanted() == ALL
    store.acquire("t", OTHER, 0.0, LEASE)
    with pytest.raises(Fenced):
        scan.context.save(ScanProgress(70.0, Cut()))


def test_a_table_that_nobody_wants_is_left_to_others(
    settings: ScanSettings, made: list[Scan]
) -> None:
    assert run(settings) == [1.0]
    assert made == []
    assert free(settings)


def test_an_agent_stands_by_while_another_scans(
    settings: ScanSettings, store: ScanStore, made: list[Scan]
) -> None:
    store.want("t", "air", ALL)
    store.acquire("t", OTHER, 0.0, LEASE)
    assert run(settings) == [LEASE / 3]
    assert made == []


def test_a_scan_that_another_agent_took_over_gives_it_nothing_back(
    settings: ScanSettings,
    store: ScanStore,
    made: list[Scan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.want("t", "air", ALL)
    released: list[str] = []
    monkeypatch.setattr(store, "release", lambda table, _: released.append(table))
    fail(Fenced("another agent scans t"))
    with capture_logs() as lines:
        assert run(settings) == [1.0]
    assert made[0].closed
    assert released == []
    [line] = [line for line in lines if line["event"] == "table is scanned elsewhere"]
    assert (line["table"], line["reason"]) == ("t", "another agent scans t")


def test_a_scan_that_cannot_go_on_is_closed_and_tried_again(
    settings: ScanSettings, store: ScanStore, made: list[Scan]
) -> None:
    store.want("t", "air", ALL)
    fail(Unreachable("Kafka is away"))
    with capture_logs() as lines:
        assert run(settings, 2) == [1.0, 1.0]
    assert [scan.closed for scan in made] == [True, True]
    reasons = [line["reason"] for line in lines if line["event"] == "table not scanned"]
    assert reasons == ["Kafka is away"] * 2


def test_more_records_than_may_wait_are_not_taken(
    settings: ScanSettings,
    store: ScanStore,
    made: list[Scan],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosting, "BATCHES_WAITING", 2)
    store.want("t", "air", ALL)
    table = ScannedTable("t", settings)
    table._stopping = cast("Any", Turns(1))
    table._run()
    [scan] = made
    deliver = scan.context.deliver
    assert [deliver(["a"]), deliver(["b"]), deliver(["c"])] == [True, True, False]
    work = table._inbox.get_nowait()
    assert work is not None
    work(cast("Any", scan), 0.0)
    assert scan.consumed == [["a"]]
    assert deliver(["d"])


def test_what_is_posted_is_done_on_the_scans_thread_with_the_time(
    settings: ScanSettings, store: ScanStore, made: list[Scan]
) -> None:
    store.want("t", "air", ALL)
    table = ScannedTable("t", settings)
    table._stopping = cast("Any", Turns(1))
    table._run()
    times: list[float] = []
    made[0].context.post(times.append)
    work = table._inbox.get_nowait()
    assert work is not None
    work(cast("Any", made[0]), 5.0)
    assert times == [5.0]
