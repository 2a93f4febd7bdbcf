"""Arrow files that say what they are."""

from itertools import pairwise

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incremental.state.states import SCHEMA, STAGE, batches_of, memory_store, table

from headgate.incremental.state import (
    BatchFile,
    DamagedState,
    FileRef,
    FileStore,
    NewerState,
    batches,
    write_batches,
)

FLOW = pa.schema([pa.field("url", pa.string()), pa.field("count", pa.int64())])


@pytest.fixture(params=["small", "large"])
def store(tmp_path, request, monkeypatch) -> FileStore:
    """A store whose files are opened as small ones are, and as large ones."""
    if request.param == "large":
        monkeypatch.setattr(batches, "_SMALL_BYTES", 0)
    return FileStore.at(tmp_path)


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch([[f"u{n}" for n in range(count)], list(range(count))], schema=FLOW)


def filed(store: FileStore, parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches of a file that parts were written to."""
    ref = write_batches(store, "s/bounded", STAGE, FLOW, parts)
    return list(BatchFile(store, ref, STAGE).batches())


def put(store: FileStore, name: str = "s/a", stage: str = STAGE) -> FileRef:
    return write_batches(store, name, stage, FLOW, [rows(3)])


def test_rows_without_hashes_are_written_and_read(store):
    ref = put(store)

    assert (ref.rows, ref.marks, ref.first > ref.last) == (3, (), True)
    file = BatchFile(store, ref, STAGE)
    assert file.schema == FLOW
    assert [batch.to_pydict() for batch in file.batches()] == [rows(3).to_pydict()]


def test_no_rows_are_a_file(store):
    ref = write_batches(store, "s/a", STAGE, FLOW, [])

    file = BatchFile(store, ref, STAGE)
    assert list(file.batches()) == []
    assert file.schema == FLOW


def test_marks_are_the_smallest_hashes_of_batches():
    store = memory_store()
    content = table((hash_, b"k", b"", hash_) for hash_ in (-7, -3, 1, 4, 9))

    with batches_of(2):
        ref = write_batches(store, "s/a", STAGE, SCHEMA, content.to_batches())

    found = list(BatchFile(store, ref, STAGE).batches())
    assert tuple(batch.column("_hash")[0].as_py() for batch in found) == ref.marks
    assert (ref.first, ref.last, ref.rows) == (-7, 9, 5)
    assert len(found) > 1


@given(st.lists(st.integers(0, 40), max_size=12))
def test_batches_are_neither_large_nor_many(tmp_path_factory, sizes):
    parts = [rows(size) for size in sizes]
    folder = tmp_path_factory.mktemp("batches")

    with batches_of(10):
        found = filed(FileStore.at(folder), parts)

    assert all(1 <= batch.num_rows <= 10 for batch in found)
    assert all(one.num_rows + two.num_rows > 10 for one, two in pairwise(found))
    assert pa.Table.from_batches(found, FLOW) == pa.Table.from_batches(parts, FLOW)


def test_wide_rows_make_batches_of_fewer(store, monkeypatch):
    monkeypatch.setattr(batches, "PLAIN_BYTES", 1000)
    wide = pa.record_batch([["x" * 400] * 9, [1] * 9], schema=FLOW)

    assert max(batch.num_rows for batch in filed(store, [wide])) == 2


def test_a_row_larger_than_a_batch_is_a_batch(store, monkeypatch):
    monkeypatch.setattr(batches, "PLAIN_BYTES", 1000)
    wide = pa.record_batch([["x" * 4000] * 3, [1] * 3], schema=FLOW)

    assert [batch.num_rows for batch in filed(store, [wide])] == [1, 1, 1]


def test_a_file_of_another_stage_under_the_right_name_is_refused(tmp_path):
    here, there = FileStore.at(tmp_path / "here"), FileStore.at(tmp_path / "there")
    ref = put(here)
    other = put(there, stage="other lines")
    assert other.length == ref.length
    (tmp_path / "here/s/a").write_bytes((tmp_path / "there/s/a").read_bytes())

    with pytest.raises(DamagedState, match=r"s/a is of the stage 'other lines' instead of 'count"):
        BatchFile(here, ref, STAGE)


def test_another_file_of_the_stage_under_the_right_name_is_refused(store, tmp_path):
    ref, other = put(store, "s/a"), put(store, "s/b")
    assert other.length == ref.length
    (tmp_path / "s/a").write_bytes((tmp_path / "s/b").read_bytes())

    with pytest.raises(DamagedState, match=r"s/a has the content of 's/b'"):
        BatchFile(store, ref, STAGE)


def foreign(store: FileStore, labels: dict[str, str]) -> FileRef:
    """A whole Arrow file that another program wrote."""
    with store.writing("s/a") as sink, ipc.new_file(sink, FLOW.with_metadata(labels)) as writer:
        writer.write_batch(rows(3))
    return FileRef("s/a", sink.length, sink.checksum)


def test_an_arrow_file_of_no_stage_is_refused(store):
    with pytest.raises(DamagedState, match="no file of a stage"):
        BatchFile(store, foreign(store, {}), STAGE)


def test_a_file_of_a_newer_program_is_refused_with_a_cure(store):
    ref = foreign(store, {"headgate.format": "2", "headgate.stage": STAGE})

    with pytest.raises(NewerState, match="upgrade"):
        BatchFile(store, ref, STAGE)


def test_what_is_no_arrow_file_is_refused(store, tmp_path):
    ref = put(store)
    (tmp_path / "s/a").write_bytes(b"x" * ref.length)

    with pytest.raises(DamagedState, match=r"s/a is no Arrow file"):
        BatchFile(store, ref, STAGE)


def test_a_flipped_byte_anywhere_is_found_by_reading_all(store, tmp_path):
    ref = put(store)
    path = tmp_path / "s/a"
    data = path.read_bytes()

    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises((DamagedState, NewerState)):
            list(BatchFile(store, ref, STAGE).batches())


def test_a_file_with_other_batches_than_the_manifest_says_is_refused(store):
    ref = put(store)

    with pytest.raises(DamagedState, match="1 batches instead of the manifest's 2"):
        BatchFile(store, FileRef(ref.name, ref.length, ref.checksum, 3, 0, 1, (0, 1)), STAGE)
