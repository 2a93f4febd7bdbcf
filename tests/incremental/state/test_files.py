"""Files that are written once, and checked when they are read."""

import pickle
import resource
from collections.abc import Iterator

import pyarrow.fs as pafs
import pytest
from tests.incremental.state.states import memory_store

from headgate.incremental.state import DamagedState, FileCache, FileRef, FileStore, UnwrittenFile


@pytest.fixture(params=["local", "elsewhere"])
def store(request: pytest.FixtureRequest, tmp_path) -> FileStore:
    return FileStore.at(tmp_path / "root") if request.param == "local" else memory_store()


def put(store: FileStore, name: str, data: bytes) -> FileRef:
    with store.writing(name) as sink:
        sink.write(data)
    return FileRef(name, sink.length, sink.checksum)


def alter(store: FileStore, name: str, data: bytes) -> None:
    """Have other content under a name, as no program of ours does it."""
    with store._filesystem.open_output_stream(store.path(name)) as file:
        file.write(data)


def test_what_was_written_is_read(store):
    ref = put(store, "stage/a", b"some bytes")

    assert store.read_bytes("stage/a") == b"some bytes"
    assert store.open(ref).read() == b"some bytes"
    assert ref.length == 10
    store.verify(ref)


def test_an_empty_file_is_a_file(store):
    ref = put(store, "stage/a", b"")

    assert store.open(ref).read() == b""
    store.verify(ref)


def test_nothing_is_overwritten(store):
    put(store, "stage/a", b"first")

    with pytest.raises(UnwrittenFile, match="stage/a"):
        store.write_bytes("stage/a", b"second")

    assert store.read_bytes("stage/a") == b"first"


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_a_fault_while_writing_leaves_nothing(store, fault):
    def write_half() -> None:
        with store.writing("stage/a") as sink:
            sink.write(b"half")
            raise fault

    with pytest.raises(fault):
        write_half()

    assert store.names() == []


@pytest.fixture
def little_room() -> Iterator[None]:
    """A disk on which no file can have more than 100,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_nothing_and_says_what_to_do(tmp_path, little_room):
    store = FileStore.at(tmp_path)

    with pytest.raises(UnwrittenFile, match=r"stage/a could not be written .*make room"):
        store.write_bytes("stage/a", bytes(1 << 20))

    assert store.names() == []


def test_a_root_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(UnwrittenFile, match="file/stage/a could not be written"):
        FileStore.at(tmp_path / "file").write_bytes("stage/a", b"x")


def test_a_missing_file_is_named(store):
    ref = FileRef("stage/gone", 3, b"")

    for read in (store.open, store.verify, lambda one: store.read_bytes(one.name)):
        with pytest.raises(DamagedState, match=r"stage/gone is missing; have the stage rebuilt: "):
            read(ref)


def test_a_truncated_file_is_named_when_it_is_opened(store):
    ref = put(store, "stage/a", b"0123456789")
    alter(store, "stage/a", b"01234")

    for read in (store.open, store.verify):
        with pytest.raises(DamagedState, match=r"stage/a has 5 bytes instead of .* 10; have"):
            read(ref)


def test_a_file_of_which_nothing_is_left_is_named(store):
    ref = put(store, "stage/a", b"0123456789")
    alter(store, "stage/a", b"")

    with pytest.raises(DamagedState, match="has 0 bytes"):
        store.open(ref)


def test_a_flipped_byte_is_found_by_reading_all(store):
    ref = put(store, "stage/a", b"0123456789")
    alter(store, "stage/a", b"0123x56789")

    with pytest.raises(DamagedState, match="stage/a was altered"):
        store.verify(ref)


def test_names_are_listed_by_prefix(store):
    for name in ("s/r.1.x", "s/r.11.x", "t/r.1.x"):
        store.write_bytes(name, b"")

    assert store.names() == ["s/r.1.x", "s/r.11.x", "t/r.1.x"]
    assert store.names("s/") == ["s/r.1.x", "s/r.11.x"]
    assert store.names("s/r.1.") == ["s/r.1.x"]
    assert store.names("nothing/") == []


def test_removing_twice_is_removing(store):
    store.write_bytes("s/a", b"")

    store.remove("s/a")
    store.remove("s/a")

    assert store.names() == []


def test_a_store_can_be_sent_to_tasks(tmp_path):
    store = FileStore.at(tmp_path / "root", FileCache(tmp_path / "cache", 100))
    put(store, "s/a", b"x")

    assert pickle.loads(pickle.dumps(store)).names() == ["s/a"]


def test_a_uri_names_the_file_system(tmp_path):
    store = FileStore.at(f"file://{tmp_path}")
    put(store, "s/a", b"x")

    assert (tmp_path / "s/a").read_bytes() == b"x"
    with pytest.raises(ValueError, match="nonsense"):
        FileStore.at("nonsense://host/path")


class Cached:
    """A store elsewhere whose files get copies here."""

    def __init__(self, folder, limit: int) -> None:
        self.filesystem = pafs._MockFileSystem()
        self.folder = folder
        self.store = FileStore(self.filesystem, "state", FileCache(folder, limit))

    @property
    def copies(self) -> int:
        return len(list(self.folder.iterdir()))


def test_a_copy_serves_when_the_file_is_out_of_reach(tmp_path):
    cached = Cached(tmp_path / "cache", limit=1000)
    ref = put(cached.store, "s/a", b"x" * 100)
    cached.store.open(ref)
    cached.store.remove("s/a")

    assert cached.store.open(ref).read() == b"x" * 100


def test_large_files_get_no_copy(tmp_path):
    cached = Cached(tmp_path / "cache", limit=1000)
    ref = put(cached.store, "s/a", b"x" * 300)

    assert cached.store.open(ref).read() == b"x" * 300
    assert not cached.folder.exists()


def test_the_copy_used_longest_ago_goes_first(tmp_path):
    cached = Cached(tmp_path / "cache", limit=1000)
    refs = [put(cached.store, f"s/{n}", bytes([n]) * 250) for n in range(5)]
    for ref in (*refs[:4], refs[0], refs[4]):
        cached.store.open(ref)
    for ref in refs:
        cached.store.remove(ref.name)

    assert cached.copies == 4
    assert cached.store.open(refs[0]).read() == bytes([0]) * 250
    with pytest.raises(DamagedState):
        cached.store.open(refs[1])


def test_a_damaged_file_gets_no_copy(tmp_path):
    cached = Cached(tmp_path / "cache", limit=1000)
    ref = put(cached.store, "s/a", b"0123456789")
    alter(cached.store, "s/a", b"0123x56789")

    with pytest.raises(DamagedState, match="altered"):
        cached.store.open(ref)
    assert cached.copies == 0


def test_a_copy_that_is_mapped_can_be_read_after_it_went(tmp_path):
    cached = Cached(tmp_path / "cache", limit=1000)
    refs = [put(cached.store, f"s/{n}", bytes([n]) * 250) for n in range(6)]
    first, *_ = [cached.store.open(ref) for ref in refs]

    assert cached.copies == 4
    assert first.read() == bytes([0]) * 250


def test_a_full_disk_under_the_cache_is_no_reason_not_to_read(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    cached = Cached(tmp_path / "cache", limit=1000)
    ref = put(cached.store, "s/a", b"x" * 100)

    assert cached.store.open(ref).read() == b"x" * 100
