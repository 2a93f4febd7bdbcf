import errno
import os
import resource
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headgate.observer.recording.epochs import open_epochs
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.recording.segments import SEGMENT, read_segment


def opened(directory: Path, *, limit: int = 1 << 20, segment: int = 1 << 16) -> Journal:
    return Journal(directory, limit_bytes=limit, segment_bytes=segment)


def put(journal: Journal, request: bytes, table: str = "t") -> int:
    return journal.append(request, table, listener=0, dialect=0, received=12.5)


def requests_of(journal: Journal) -> list[bytes]:
    return [intent.request for epoch in journal.open_epochs() for intent in epoch.intents]


def crash(journal: Journal) -> None:
    """Let go of the lock, as the kernel does for a killed process, and do nothing else."""
    import os

    os.close(journal._lock)


def test_what_was_appended_is_there_after_a_crash(tmp_path: Path) -> None:
    first = opened(tmp_path)
    numbers = [put(first, request, "tä") for request in (b"one", b"", b"three")]
    crash(first)
    (epoch,) = opened(tmp_path).open_epochs()
    assert numbers == [0, 1, 2]
    assert [(i.number, i.request, i.table, i.received) for i in epoch.intents] == [
        (0, b"one", "tä", 12.5),
        (1, b"", "tä", 12.5),
        (2, b"three", "tä", 12.5),
    ]


@pytest.mark.parametrize("size", [4095, 4096, 4097, 70_000])
def test_a_request_of_any_size_is_there_after_a_crash(tmp_path: Path, size: int) -> None:
    journal = opened(tmp_path)
    request = bytes(range(256)) * (size // 256 + 1)
    put(journal, request[:size])
    crash(journal)
    assert requests_of(opened(tmp_path)) == [request[:size]]


def test_a_tail_torn_at_any_byte_costs_only_the_torn_record(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    whole_first = path.stat().st_size
    put(journal, b"second request")
    data = path.read_bytes()
    for length in range(len(data) + 1):
        segment = read_segment(data[:length], 0)
        found = [intent.request for intent in segment.intents]
        assert segment.whole
        expected = [b"first request"] if length >= whole_first else []
        if length == len(data):
            expected.append(b"second request")
        assert found == expected, length


def test_a_damaged_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    start = 16
    data = bytearray(path.read_bytes())
    for position in range(start, len(data)):
        data[position] ^= 0x40
        segment = read_segment(bytes(data), 0)
        read = [intent.request for intent in segment.intents]
        assert read == [b"first request"] or not (read or segment.whole), position
        data[position] ^= 0x40
    assert len(read_segment(bytes(data), 0).intents) == 1


def test_a_torn_tail_of_another_number_than_the_next_is_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    begin = path.stat().st_size
    put(journal, b"second request")
    data = bytearray(path.read_bytes()[:-1])
    assert read_segment(bytes(data), 0).whole
    data[begin + 10 + 7] ^= 4  # behind checksum and lengths
    segment = read_segment(bytes(data), 0)
    assert ([each.number for each in segment.intents], segment.whole) == ([0], False)


def damage_of(directory: Path) -> tuple[list[int], str]:
    """The numbers that a start after a crash finds, and what it says is missing."""
    (epoch,) = opened(directory).open_epochs()
    return [intent.number for intent in epoch.intents], epoch.damage


def test_a_damaged_record_costs_only_itself_and_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    sizes = [16]
    for request in (b"first", b"second " + bytes(100), b"third", b"fourth"):
        put(journal, request)
        (segment,) = tmp_path.glob("*.segment")
        sizes.append(segment.stat().st_size)
    crash(journal)
    data = bytearray(segment.read_bytes())
    expected = [0, 2, 3]
    for position in range(sizes[1], sizes[2]):
        data[position] ^= 0x40
        found = read_segment(bytes(data), 0)
        assert [intent.number for intent in found.intents] == expected, position
        data[position] ^= 0x40
    data[sizes[1] + 50] ^= 1
    segment.write_bytes(data)
    assert damage_of(tmp_path) == (expected, "requests 1 to 1 cannot be read")


def test_a_damaged_record_at_the_end_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"first", b"second"):
        put(journal, request)
    crash(journal)
    (segment,) = tmp_path.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    assert damage_of(tmp_path) == ([0], "requests 1 and later cannot be read")


def test_a_segment_that_is_gone_or_unreadable_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for _ in range(5):
        put(journal, b"x" * 60)
    crash(journal)
    segments = sorted(tmp_path.glob("*.segment"))
    segments[1].unlink()
    segments[3].write_bytes(b"nothing of ours" * 10)
    numbers, damage = damage_of(tmp_path)
    assert numbers == [0, 2, 4]
    assert damage == "requests 1 to 1, 3 to 3 cannot be read"


def test_what_is_damaged_below_the_watermark_is_of_no_interest(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"first", b"second"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (segment,) = tmp_path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[46] ^= 1
    segment.write_bytes(data)
    assert damage_of(tmp_path) == ([1], "")


# -- a disk that refuses


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """Let the kernel refuse what would make a file larger, as a full disk does: in its middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_record_that_found_no_room_leaves_no_trace(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    journal = opened(tmp_path)
    put(journal, b"first")
    file_limit(300)
    with pytest.raises(JournalError, match="free space on its disk"):
        put(journal, b"x" * 1000)
    assert put(journal, b"small") == 1
    file_limit(1 << 20)
    assert put(journal, b"y" * 1000) == 2
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"first", b"small", b"y" * 1000]


@pytest.mark.parametrize("before", [[], [b"first"]])
def test_a_torn_record_that_cannot_be_cut_off_ends_its_segment(
    tmp_path: Path,
    file_limit: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    before: list[bytes],
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = opened(tmp_path)
    for request in before:
        put(journal, request)
    file_limit(300)
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(JournalError):
        put(journal, b"x" * 1000)
    file_limit(1 << 20)
    put(journal, b"next")
    crash(journal)
    (epoch,) = opened(tmp_path).open_epochs()
    assert [intent.request for intent in epoch.intents] == [*before, b"next"]
    assert epoch.damage == ""
    for number in range(len(before) + 1):
        journal.settle(number)
    journal._close_segment()
    journal.save_watermark()
    assert not list(tmp_path.glob(f"{journal.epoch:010d}-*.segment"))
    assert journal.size == 0


def test_a_new_segment_that_finds_no_room_is_tried_again(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    journal = opened(tmp_path, segment=100)
    put(journal, b"x" * 100)
    file_limit(10)
    for _ in range(3):
        with pytest.raises(JournalError, match="free space on its disk"):
            put(journal, b"second")
    file_limit(1 << 20)
    put(journal, b"second")
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"x" * 100, b"second"]


def test_a_watermark_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path)
    journal.settle(put(journal, b"a"))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        journal.save_watermark()
    put(journal, b"b")
    journal.save_watermark()
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"b"]


def test_a_start_without_room_on_the_disk_says_so(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    file_limit(0)
    with pytest.raises(JournalError, match="free space on its disk"):
        opened(tmp_path)
    file_limit(1 << 20)
    opened(tmp_path).close()


def test_the_watermark_has_its_place_on_the_disk_before_there_is_one(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    (path,) = tmp_path.glob("*.watermark")
    sizes = [path.stat().st_size]
    for _ in range(3):
        journal.settle(put(journal, b"a"))
        journal.save_watermark()
        sizes.append(path.stat().st_size)
    assert sizes == [2 * 20] * 4  # two slots, written in turn


def test_what_clients_wrote_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    files = [path for kind in ("lock", "*.watermark", "*.segment") for path in tmp_path.glob(kind)]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 3


def test_an_end_leaves_all_on_the_disk_and_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda handle: synced.append((files / str(handle)).readlink().name)
    )
    journal = opened(tmp_path)
    put(journal, b"a")
    journal.close()
    (segment,) = tmp_path.glob("*.segment")
    assert sorted(synced) == sorted([segment.name, tmp_path.name])
    assert len(list(files.iterdir())) == before


def test_each_start_is_a_new_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        journal = opened(tmp_path)
        epochs.append(journal.epoch)
        journal.close()
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


def test_a_lost_directory_does_not_bring_old_epochs_back(tmp_path: Path) -> None:
    journal = Journal(
        tmp_path, limit_bytes=1 << 20, segment_bytes=1 << 16, first_epoch=1_700_000_000
    )
    assert journal.epoch == 1_700_000_000


def test_a_second_observer_is_refused_the_directory(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(JournalError, match="in use by another observer"):
        opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def test_the_watermark_passes_only_what_is_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for _ in range(4):
        put(journal, b"x")
    journal.settle(2)
    journal.settle(1)
    assert journal.watermark == 0
    journal.settle(0)
    assert journal.watermark == 3
    assert journal.unsettled == 1


def test_each_intent_is_told_to_be_settled_once(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    told: list[int] = []
    journal.on_settled = told.append
    for _ in range(3):
        put(journal, b"x")
    for number in (2, 2, 0, 0, 1, 2):
        journal.settle(number)
    assert told == [2, 0, 1]


def test_the_age_of_the_oldest_is_that_of_what_is_not_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.oldest_age(100.0) == 0.0
    for received in (12.0, 14.0):
        journal.append(b"x", "t", listener=0, dialect=0, received=received)
    assert journal.oldest_age(12.25) == 0.25
    assert journal.oldest_age(10.0) == 0.0, "the clock was set back"
    journal.settle(0)
    assert journal.oldest_age(20.0) == 6.0
    journal.settle(1)
    assert journal.oldest_age(20.0) == 0.0


def test_a_watermark_that_is_lost_costs_repeats_only(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (path,) = tmp_path.glob("*.watermark")
    path.unlink()
    (epoch,) = open_epochs(tmp_path, but=-1)
    assert [intent.request for intent in epoch.intents] == [b"a", b"b"]
    assert epoch.damage == ""


def test_only_intents_above_the_watermark_come_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.settle(2)
    journal.save_watermark()
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"b", b"c"]


def test_a_watermark_torn_while_it_was_written_leaves_the_one_before(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    journal.settle(1)
    journal.save_watermark()
    crash(journal)
    path = tmp_path / f"{journal.epoch:010d}.watermark"
    data = path.read_bytes()
    assert damaged(tmp_path, path, b"\xff" * 5 + data[5:])[0] == [b"b", b"c"]
    assert damaged(tmp_path, path, data)[0] == [b"c"]


def test_segments_go_when_they_are_wholly_below_the_watermark(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for _ in range(6):
        put(journal, b"x" * 60)
    assert len(list(tmp_path.glob("*.segment"))) == 6
    for number in (0, 1, 3):
        journal.settle(number)
    journal.save_watermark()
    names = sorted(path.name.partition("-")[2] for path in tmp_path.glob("*.segment"))
    assert [int(name.removesuffix(".segment")) for name in names] == [2, 3, 4, 5]
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))


def test_a_segment_that_is_not_full_goes_on_when_all_of_it_is_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=300)
    segments = []
    for _ in range(4):
        journal.settle(put(journal, b"x" * 60))
        journal.save_watermark()
        segments.append([path.name.partition("-")[2] for path in tmp_path.glob("*.segment")])
    first = f"{0:020d}.segment"
    assert segments == [[first], [first], [first], []]
    assert journal.size == 0


def test_a_segment_that_somebody_has_removed_is_not_missed_when_it_may_go(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for number in range(6):
        put(journal, b"x" * 60)
        journal.settle(number)
    next(iter(sorted(tmp_path.glob("*.segment")))).unlink()
    journal.save_watermark()
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))


def test_a_segment_that_cannot_be_removed_keeps_no_other_and_is_still_counted(
    tmp_path: Path, monkeypatch
) -> None:
    journal = opened(tmp_path, segment=100)
    for number in range(6):
        put(journal, b"x" * 60)
        journal.settle(number)
    first, *_ = sorted(tmp_path.glob("*.segment"))
    unlink = Path.unlink

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        if path == first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with capture_logs() as log:
        journal.save_watermark()
        put(journal, b"x")
        journal.save_watermark()
    assert [line["reason"] for line in log] == [os.strerror(errno.EIO)]
    assert first in tmp_path.glob("*.segment")
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))


def test_beyond_its_limit_the_journal_takes_nothing_until_there_is_room(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=400, segment=100)
    put(journal, b"x" * 150)
    put(journal, b"x" * 100)
    with pytest.raises(JournalFull):
        put(journal, b"x" * 100)
    journal.settle(0)
    journal.save_watermark()
    assert put(journal, b"x" * 100) == 2


def test_the_journal_may_be_filled_to_its_last_byte(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=400)
    put(journal, b"x" * 50)
    left = 400 - journal.size
    assert (journal.has_room(left), journal.has_room(left + 1)) == (True, False)


def test_a_request_above_the_limit_is_taken_when_it_is_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=100, segment=100)
    assert put(journal, b"x" * 500) == 0


def test_a_clean_end_leaves_nothing_to_recover(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.settle(put(journal, b"a"))
    journal.close()
    assert opened(tmp_path).open_epochs() == []


def test_an_end_with_unsettled_requests_leaves_them(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    journal.close()
    assert requests_of(opened(tmp_path)) == [b"a"]


def test_an_epoch_without_requests_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    first = opened(tmp_path)
    crash(first)
    second = opened(tmp_path)
    assert [epoch.epoch for epoch in second.open_epochs()] == [first.epoch]
    second.forget_epoch(first.epoch)
    assert second.open_epochs() == []


def test_several_crashes_leave_their_epochs_in_order(tmp_path: Path) -> None:
    for request in (b"a", b"b"):
        journal = opened(tmp_path)
        put(journal, request)
        crash(journal)
    last = opened(tmp_path)
    assert requests_of(last) == [b"a", b"b"]
    for left in (1, 0):
        last.forget_epoch(last.open_epochs()[0].epoch)
        segments = list(tmp_path.glob("*.segment"))
        assert (len(segments), last.size) == (left, sum(each.stat().st_size for each in segments))


def test_a_gap_that_was_not_announced_comes_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.save_gaps({"t": 7.0})
    crash(journal)
    (epoch,) = opened(tmp_path).open_epochs()
    assert epoch.gaps == {"t": 7.0}


def test_a_gap_that_was_announced_does_not_come_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for gaps in ({"t": 7.0}, {}):
        journal.save_gaps(gaps)
    crash(journal)
    (epoch,) = opened(tmp_path).open_epochs()
    assert epoch.gaps == {}


def test_gaps_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.save_gaps({"t": 7.0})
    crash(journal)
    (path,) = tmp_path.glob("*.gaps")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalError, match="a gap would be hidden"):
        opened(tmp_path).open_epochs()


def names_to_sync(journal: Journal) -> list[str]:
    """Return what must reach the disk, and let it."""
    names = []
    for handle in journal.take_unsynced():
        names.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        os.fdatasync(handle)
        os.close(handle)
    return names


def test_what_is_to_be_synced_is_handed_over_once(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    put(journal, b"x" * 100)
    put(journal, b"x")
    first, second = (path.name for path in sorted(tmp_path.glob("*.segment")))
    # With the names of both, which are in the directory.
    assert sorted(names_to_sync(journal)) == sorted([first, second, *[tmp_path.name] * 2])
    assert names_to_sync(journal) == []
    put(journal, b"x")
    assert names_to_sync(journal) == [second]


def test_a_gap_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path)
    synced: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    journal.save_gaps({"t": 7.0})
    assert synced == [f"{journal.epoch:010d}.draft", tmp_path.name]


@given(
    requests=st.lists(st.binary(max_size=40), max_size=20),
    settled=st.lists(st.integers(0, 19), max_size=20),
    segment=st.integers(20, 200),
)
def test_a_crash_loses_no_unsettled_request(
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[bytes],
    settled: list[int],
    segment: int,
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = opened(directory, segment=segment)
    for request in requests:
        put(journal, request)
    done = {number for number in settled if number < len(requests)}
    for number in done:
        journal.settle(number)
        journal.save_watermark()
    crash(journal)
    (epoch,) = opened(directory).open_epochs()
    found = {intent.number: intent.request for intent in epoch.intents}
    for number, request in enumerate(requests):
        if number not in done:
            assert found[number] == request


def test_a_clean_end_keeps_a_gap_that_was_not_announced(tmp_path: Path) -> None:
    journal = Journal(tmp_path, limit_bytes=1000, segment_bytes=1000)
    epoch = journal.epoch
    journal.save_gaps({"t": 5.0})
    journal.close()
    later = Journal(tmp_path, limit_bytes=1000, segment_bytes=1000)
    assert [(each.epoch, each.gaps) for each in later.open_epochs()] == [(epoch, {"t": 5.0})]
    later.close()


# -- what is lost is told


def damaged(directory: Path, path: Path, data: bytes) -> tuple[list[bytes], str]:
    """What a start finds if a file of an earlier epoch holds this."""
    path.write_bytes(data)
    (epoch,) = open_epochs(directory, but=-1)
    return [intent.request for intent in epoch.intents], epoch.damage


def test_a_bit_that_flipped_anywhere_loses_no_request_silently(tmp_path: Path) -> None:
    """Nothing was written down since the first request: nothing else knows of the last one."""
    journal = opened(tmp_path)
    requests = [b"first request", b"", b"x" * 300, b"the last request"]
    for request, table in zip(requests, ("t", "tables", "t" * 200, "t"), strict=True):
        put(journal, request, table)
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    whole = path.read_bytes()
    silent = []
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        found, damage = damaged(tmp_path, path, bytes(data))
        if found != requests and not damage:
            silent.append(bit)
    assert silent == []


@given(
    at=st.integers(0, 600),
    put_there=st.one_of(st.binary(min_size=1, max_size=64), st.integers(1, 600).map(bytes)),
)
def test_bytes_that_became_others_lose_no_request_silently(
    tmp_path_factory: pytest.TempPathFactory, at: int, put_there: bytes
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = opened(directory)
    requests = [b"first request", b"x" * 300, b"the last request"]
    for request in requests:
        put(journal, request)
    journal.save_watermark()
    crash(journal)
    (path,) = directory.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[at : at + len(put_there)] = put_there[: max(0, len(data) - at)]
    found, damage = damaged(directory, path, bytes(data))
    assert found == requests or damage


def test_a_segment_of_another_format_is_told_and_not_read(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    data = path.read_bytes()
    assert damaged(tmp_path, path, data[:3] + b"9" + data[4:]) == (
        [],
        "requests 0 to 0 cannot be read",
    )


def test_a_segment_that_was_cut_is_told_as_far_as_it_was_written_down(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    data = path.read_bytes()
    for length in range(len(data)):
        found, damage = damaged(tmp_path, path, data[:length])
        assert damage.endswith(" to 2 cannot be read"), length
        assert found in ([], [b"b"])


@pytest.mark.parametrize("kept", [0, 1])
def test_a_last_segment_that_is_gone_is_told(tmp_path: Path, kept: int) -> None:
    journal = opened(tmp_path, segment=1)
    for request in (b"a", b"b"):
        put(journal, request)
    crash(journal)
    for path in sorted(tmp_path.glob("*.segment"))[kept:]:
        path.unlink()
    (epoch,) = open_epochs(tmp_path, but=-1)
    assert epoch.damage == f"requests {kept} to 1 cannot be read"


def test_segments_that_went_because_all_is_settled_are_not_missed(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=1)
    for request in (b"a", b"b"):
        journal.settle(put(journal, request))
    journal.save_watermark()
    crash(journal)
    assert not list(tmp_path.glob("*.segment"))
    (epoch,) = open_epochs(tmp_path, but=-1)
    assert (epoch.intents, epoch.damage) == ((), "")


def test_what_the_version_before_wrote_down_is_read(tmp_path: Path) -> None:
    """It wrote the watermark alone, in two slots of twelve bytes."""
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    crash(journal)
    slots = []
    for watermark in (1, 2):
        value = watermark.to_bytes(8, "big")
        slots.append(value + zlib.crc32(value).to_bytes(4, "big"))
    path = tmp_path / f"{journal.epoch:010d}.watermark"
    assert damaged(tmp_path, path, b"".join(slots)) == ([b"c"], "")
    assert damaged(tmp_path, path, bytes(24)) == ([b"a", b"b", b"c"], "")


def test_other_limits_hold_from_when_they_are_set(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"x" * 1000)
    assert journal.has_room(5000)
    journal.reconfigure(limit_bytes=2000, segment_bytes=500)
    assert not journal.has_room(5000)
    with pytest.raises(JournalFull):
        put(journal, b"x" * 5000)
    before = len(list(tmp_path.glob("*.segment")))
    for _ in range(2):
        put(journal, b"x" * 400)
    assert len(list(tmp_path.glob("*.segment"))) > before
    journal.reconfigure(limit_bytes=1 << 20, segment_bytes=1 << 16)
    assert journal.has_room(5000)


def test_the_length_of_a_long_name_is_mended(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"request", "n" * 40_000)
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    name_length = SEGMENT.size + 4
    data[name_length + 1] ^= 1
    (intent,) = read_segment(bytes(data), 0).intents
    assert (len(intent.table), intent.request) == (40_000, b"request")


@pytest.mark.parametrize(
    ("request_bytes", "table", "at"),
    [(b"request", "", 8), (b"", "table", 5), (b"", "", 4)],
    ids=["no table", "no request", "neither"],
)
def test_the_length_of_what_is_beside_nothing_is_mended(
    tmp_path: Path, request_bytes: bytes, table: str, at: int
) -> None:
    """Behind the checksum are the name's length, of two bytes, and the request's, of four."""
    journal = opened(tmp_path)
    put(journal, request_bytes, table)
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[SEGMENT.size + at] ^= 1
    (intent,) = read_segment(bytes(data), 0).intents
    assert (intent.table, intent.request) == (table, request_bytes)


@pytest.mark.parametrize("apart", [(1 << 16) - 1, 1 << 16, 70_000])
def test_lengths_that_no_record_can_have_are_damage(tmp_path: Path, apart: int) -> None:
    journal = opened(tmp_path, segment=1 << 20)
    put(journal, b"x" * 70_000, "t")
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    length = SEGMENT.size + 6
    data[length : length + 4] = (70_001 - apart).to_bytes(4, "big")
    data[-1] ^= 1
    segment = read_segment(bytes(data), 0)
    assert (segment.intents, segment.whole) == ((), False)


def test_large_records_that_are_all_damaged_are_told_as_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=1 << 20)
    for _ in range(2):
        put(journal, b"x" * 70_000)
    data = bytearray(b"".join(path.read_bytes() for path in tmp_path.glob("*.segment")))
    for at in (1000, 100_000):
        assert data[at] == ord("x")
        data[at] ^= 1
    segment = read_segment(bytes(data), 0)
    assert (segment.intents, segment.whole) == ((), False)


def test_what_must_reach_the_disk_is_known_though_a_new_segment_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path, segment=500)
    put(journal, b"x" * 600)

    def refuse(*_place: object, **_mode: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(JournalError, match="No space left"):
            put(journal, b"y" * 400)
    handles = journal.take_unsynced()
    assert handles
    for handle in handles:
        os.fdatasync(handle)
        os.close(handle)
    assert put(journal, b"z") == 1
