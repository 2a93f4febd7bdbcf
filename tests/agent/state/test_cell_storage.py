"""Cells beyond the limit of memory are on disk, and nothing else is different."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.agent.state.cell_storage import CellStorage
from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    Engine,
    MemoryIndex,
    MemoryStorage,
    Metric,
    RecordArrived,
    SavedEngine,
    Storage,
    Tick,
    ValueBound,
    WatchedContainer,
    check_invariants,
)
from headgate.engine.protocol.stimuli import ContainerScanned
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    updates_topic,
)

keys = st.lists(st.binary(min_size=1, max_size=2), max_size=9)


@pytest.fixture
def storage(tmp_path: Path):
    """Return a storage that has room for five keys in memory."""
    made = CellStorage(5, tmp_path / "cells")
    yield made
    made.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), keys), max_size=12))
def test_keys_have_the_same_numbers_in_memory_and_on_disk(storage, batches):
    ours = {True: storage.index(), False: storage.index()}
    plain = {True: MemoryIndex(), False: MemoryIndex()}
    for which, batch in batches:
        assert ours[which].number(batch) == plain[which].number(batch)
        for index, other in ((ours[which], plain[which]), (ours[not which], plain[not which])):
            assert len(index) == len(other)
            assert list(index.keys()) == list(other.keys())
            assert list(index.keys(len(other) // 2)) == list(other.keys(len(other) // 2))
            assert [index.find(key) for key in batch] == [other.find(key) for key in batch]
    for index in ours.values():
        index.close()
        assert (len(index), list(index.keys()), index.find(b"a")) == (0, [], None)


def test_no_more_keys_than_allowed_stay_in_memory(storage):
    index, other = storage.index(), storage.index()
    for i in range(100):
        index.number([b"%d" % i])
        other.number([b"%d" % (i % 3)])
        assert index.held + other.held <= 5


def test_arrays_are_in_files_only_beyond_the_limit(storage):
    index = storage.index()
    index.number([b"a"])
    assert storage.array(10_000, np.float64).base is None
    index.number([b"%d" % i for i in range(10)])
    array = storage.array(10_000, np.float64)
    assert isinstance(array.base.obj, mmap.mmap)
    array[9_999] = 7.0
    assert (array[0], array[9_999]) == (0.0, 7.0)


def test_files_have_no_name_that_could_stay_behind(storage, tmp_path):
    storage.index().number([b"%d" % i for i in range(100)])
    storage.array(10_000, np.float64)
    assert list((tmp_path / "cells").iterdir()) == []


def test_an_engine_decides_the_same_with_cells_on_disk(storage):
    on_disk, in_memory = engine(storage), engine(MemoryStorage())
    for sequence in range(60):
        batch = message(sequence)
        topic = updates_topic("t")
        arrived = RecordArrived(1.0 + sequence, topic, 0, sequence, batch, 1)
        assert on_disk.handle(arrived) == in_memory.handle(arrived)
    check_invariants(on_disk)
    assert on_disk.snapshot() == in_memory.snapshot()
    (cells,) = on_disk.cells.values()
    assert cells.columns.size > 20


def test_an_engine_with_cells_on_disk_is_made_of_its_log_again(tmp_path):
    storages = [CellStorage(5, tmp_path / name) for name in ("one", "two")]
    first = engine(storages[0])
    segments: dict[tuple[str, int], bytes] = {}
    for sequence in range(40):
        first.handle(RecordArrived(1.0, updates_topic("t"), 0, sequence, message(sequence), 1))
        saved = first.checkpoint(0)
        segments |= {
            (segment.stream, segment.number): segment.data for segment in saved.log.written
        }
    kept = saved.log.kept
    order = [(one.stream, number) for one in kept for number in range(one.first, one.end)]
    log = SavedEngine(saved.head, kept, [segments[place] for place in order])
    again = Engine(first.spec, log, storage=storages[1], log_number=1 << 32)
    check_invariants(again)
    assert again.snapshot() == first.snapshot()
    for storage in storages:
        storage.close()


def engine(storage: Storage) -> Engine:
    """Return an engine with a value bound that is reached now and then."""
    container = WatchedContainer(Container(ContainerId("c"), (Item("t"),)))
    bound = Bound("k", ContainerId("c"), value=ValueBound(Metric.RELATIVE, 0.5))
    actions = (
        ActionSpec("in", ActionRole.INPUT, writes=(ContainerId("c"),)),
        ActionSpec("s", after=("in",), bounds=(bound,)),
    )
    made = Engine(DataflowSpec("flow", (container,), actions), storage=storage)
    made.handle(Tick(0.0))
    made.handle(ContainerScanned(0.0, ContainerId("c"), "t", [], []))
    return made


def message(sequence: int) -> UpdateBatch:
    """Return puts of ten cells, different ones for each sequence."""
    rows = tuple(b"r%d" % ((sequence * 7 + i) % 40) for i in range(10))
    return UpdateBatch(
        VERSION,
        "observer",
        1,
        sequence,
        sequence,
        "t",
        (RequestPart(sequence, "mutateRows", Outcome.APPLIED, 1.0, 10),),
        bytes(10),
        rows,
        tuple(b"f:%d" % (i % 2) for i in range(10)),
        (-1,) * 10,
        tuple(b"%d" % (sequence * i % 13) for i in range(10)),
    )
