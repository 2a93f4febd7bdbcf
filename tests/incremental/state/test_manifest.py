"""All that a stage's state is after an epoch."""

import pytest

from headgate.incremental.state import (
    Bucket,
    BucketState,
    DamagedState,
    FileRef,
    FileStore,
    Manifest,
    Match,
    NewerState,
    read_manifest,
    write_manifest,
)

REF = FileRef("s/base", 10, b"\x01" * 16, 3, -5, 2**62, (-5, 4))
RUN = FileRef("s/run", 10, b"\x02" * 16)
OUTPUT = FileRef("s/out", 10, b"\x03" * 16)
MANIFEST = Manifest(
    stage="count",
    code="v1",
    epoch=7,
    match=Match.ROW,
    buckets=(
        BucketState(Bucket(1, 0), REF, (RUN,)),
        BucketState(Bucket(2, 2)),
        BucketState(Bucket(2, 3)),
    ),
    previous="s/m6",
    schemas={"state": b"\xff\x00"},
    outputs={"counts": (OUTPUT,)},
    cursors={"links": b"\x00opaque"},
)


@pytest.fixture
def store(tmp_path) -> FileStore:
    return FileStore.at(tmp_path)


def test_a_manifest_is_read_as_it_was_written(store):
    write_manifest(store, "s/m7", MANIFEST)

    assert read_manifest(store, "s/m7") == MANIFEST


def test_a_manifest_names_all_files_that_it_needs():
    assert MANIFEST.names == {"s/base", "s/run", "s/out"}
    assert MANIFEST.buckets[0].files == (REF, RUN)
    assert MANIFEST.buckets[1].files == ()


def test_a_missing_manifest_is_no_empty_state(store):
    with pytest.raises(DamagedState, match="s/m7 is missing; have the stage rebuilt: "):
        read_manifest(store, "s/m7")


def test_a_manifest_that_was_cut_short_anywhere_is_refused(store, tmp_path):
    write_manifest(store, "s/m7", MANIFEST)
    data = (tmp_path / "s/m7").read_bytes()

    for length in range(len(data)):
        (tmp_path / "s/m7").write_bytes(data[:length])
        with pytest.raises(DamagedState, match=r"s/m7 (is|was)"):
            read_manifest(store, "s/m7")


def test_a_manifest_with_a_flipped_byte_anywhere_is_refused(store, tmp_path):
    write_manifest(store, "s/m7", MANIFEST)
    data = (tmp_path / "s/m7").read_bytes()

    for at in range(len(data)):
        (tmp_path / "s/m7").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((DamagedState, NewerState)):
            read_manifest(store, "s/m7")


def test_another_manifest_under_the_right_name_is_refused(store, tmp_path):
    write_manifest(store, "s/m7", MANIFEST)
    (tmp_path / "s/m8").write_bytes((tmp_path / "s/m7").read_bytes())

    with pytest.raises(DamagedState, match=r"s/m8 is the manifest 's/m7'"):
        read_manifest(store, "s/m8")


def test_a_manifest_of_a_newer_program_is_refused_with_a_cure(store, tmp_path):
    write_manifest(store, "s/m7", MANIFEST)
    data = bytearray((tmp_path / "s/m7").read_bytes())
    data[7] = 2
    (tmp_path / "s/m7").write_bytes(data)

    with pytest.raises(NewerState, match="version 2 and this program reads 1 at most; upgrade"):
        read_manifest(store, "s/m7")


def test_what_is_no_manifest_is_refused(store, tmp_path):
    store.write_bytes("s/m7", b"ARROW1 and so on")

    with pytest.raises(DamagedState, match="is no manifest"):
        read_manifest(store, "s/m7")


def test_a_manifest_is_never_overwritten(store):
    write_manifest(store, "s/m7", MANIFEST)

    with pytest.raises(OSError, match="s/m7"):
        write_manifest(store, "s/m7", MANIFEST)


def test_buckets_that_leave_hashes_out_are_not_written(store):
    broken = Manifest("count", "v1", 1, Match.GROUP, (BucketState(Bucket(1, 0)),))

    with pytest.raises(ValueError, match="in no bucket"):
        write_manifest(store, "s/m1", broken)
    assert store.names() == []
