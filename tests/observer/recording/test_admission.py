"""When what was journalled reaches the disk, by policy."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headgate.observer.config import Fsync, JournalSettings
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError, JournalFull, TableFull


class Disk:
    """Counts what is synced, and refuses when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced = 0
        self.broken = False
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, _handle: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced += 1


class Scene:
    def __init__(self, directory: Path, bench: Any, disk: Disk, policy: Fsync) -> None:
        self.now = 100.0
        self.disk = disk
        self.journal = Journal(directory, limit_bytes=1 << 20, segment_bytes=1 << 20)
        config = JournalSettings(str(directory), fsync=policy, fsync_seconds=0.25)
        self.wall = 1e9
        self.admission = WriteAdmission(
            self.journal,
            bench.publisher,
            config,
            clock=lambda: self.wall,
            passing=lambda: self.now,
        )

    def write(self) -> None:
        self.journal.append(b"request", "t", listener=0, dialect=0, received=self.now)


@pytest.fixture
def scene_of(tmp_path: Path, bench, monkeypatch) -> Callable[[Fsync], Scene]:
    return lambda policy: Scene(tmp_path, bench, Disk(monkeypatch), policy)


async def until_idle() -> None:
    """Let the loop and its threads end what they have begun."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def test_with_always_calls_wait_for_one_sync_of_all(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.ALWAYS)
        assert scene.admission.syncs_each
        seen: list[int] = []
        for _ in range(3):
            scene.write()
            scene.admission.when_synced(lambda: seen.append(scene.disk.synced))
        assert seen == []
        await until_idle()
        assert seen == [2, 2, 2]  # the segment and the directory with its name

    asyncio.run(script())


def test_with_interval_the_disk_is_asked_once_in_each(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.INTERVAL)
        assert not scene.admission.syncs_each
        counts = []
        for seconds in (0.0, 0.125, 0.125, 0.25):
            scene.now += seconds
            scene.write()
            scene.admission.sync_if_due()
            await until_idle()
            counts.append(scene.disk.synced)
        assert counts == [2, 2, 3, 4]

    asyncio.run(script())


def test_a_clock_that_is_set_back_keeps_nobody_waiting_for_the_disk_or_for_room(scene_of) -> None:
    async def script() -> None:
        scene, session = scene_of(Fsync.INTERVAL), Waiting()
        scene.write()
        scene.admission.sync_if_due()
        await until_idle()
        scene.admission.wait(session, JournalFull("full"))
        scene.wall -= 3600.0
        scene.now += 10.0
        scene.write()
        scene.admission.sync_if_due()
        await until_idle()
        scene.admission.tend()
        assert (scene.disk.synced, len(session.reasons)) == (3, 1)

    asyncio.run(script())


def test_other_policies_hold_from_when_they_are_set(scene_of) -> None:
    scene, session = scene_of(Fsync.INTERVAL), Waiting()
    for policy in (Fsync.ALWAYS, Fsync.NEVER, Fsync.INTERVAL):
        scene.admission.reconfigure(JournalSettings("anywhere", fsync=policy, block_seconds=2.0))
        assert scene.admission.syncs_each is (policy is Fsync.ALWAYS)
    scene.admission.wait(session, JournalFull("full"))
    scene.now += 1.9
    scene.admission.tend()
    assert session.reasons == []
    scene.now += 0.2
    scene.admission.tend()
    assert len(session.reasons) == 1


def test_with_interval_a_quiet_journal_leaves_the_disk_alone(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.INTERVAL)
        scene.write()
        for _ in range(5):
            scene.now += 1.0
            scene.admission.sync_if_due()
            await until_idle()
        assert scene.disk.synced == 2

    asyncio.run(script())


def test_with_never_nothing_is_synced_and_no_file_stays_open(scene_of) -> None:
    scene = scene_of(Fsync.NEVER)
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    for _ in range(5):
        scene.write()
        scene.admission.sync_if_due()
    assert scene.disk.synced == 0
    assert len(list(files.iterdir())) == before + 1  # the segment


def test_after_a_failed_sync_nothing_goes_on_and_the_observer_hears_of_it(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.ALWAYS)
        failures: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: failures.append(context))
        scene.disk.broken = True
        seen: list[str] = []
        scene.write()
        scene.admission.when_synced(lambda: seen.append("first"))
        await until_idle()
        scene.disk.broken = False
        scene.write()
        scene.admission.when_synced(lambda: seen.append("second"))
        await until_idle()
        assert seen == []
        (failure,) = failures
        assert isinstance(failure["exception"], JournalError)
        assert "Input/output error" in failure["message"]

    asyncio.run(script())


class Waiting:
    """A session whose request finds no room."""

    def __init__(self, *, fits: bool = False) -> None:
        self.reasons: list[str] = []
        self.fits = fits
        self.tried = 0

    def try_again(self) -> bool:
        self.tried += 1
        return self.fits

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), os.strerror(errno.ENOSPC)),
        (OSError("no number"), "its disk refuses"),
        (ValueError("not the system's"), "its disk refuses"),
    ],
)
def test_who_waits_in_vain_is_told_what_the_disk_said(
    scene_of, cause: Exception, words: str
) -> None:
    scene, session = scene_of(Fsync.INTERVAL), Waiting()
    error = JournalError("journal /of/this/host: it cannot be written")
    error.__cause__ = cause
    scene.admission.wait(session, error)
    scene.admission.tend()
    assert session.reasons == []
    scene.now += 1000.0
    scene.admission.tend()
    (reason,) = session.reasons
    assert words in reason
    assert "/of/this/host" not in reason
    assert scene.admission.blocked == 1


def test_each_that_waits_goes_on_or_gives_up_in_its_turn(scene_of) -> None:
    scene = scene_of(Fsync.NEVER)
    sessions = fits, early, late = Waiting(fits=True), Waiting(), Waiting()
    for session, seconds in zip(sessions, (0.0, 5.0, 0.0), strict=True):
        scene.admission.wait(session, JournalFull("full"))
        scene.now += seconds
    scene.now += 6.0
    scene.admission.tend()
    assert [session.tried for session in sessions] == [1, 1, 1]
    assert [len(session.reasons) for session in sessions] == [0, 1, 0]
    scene.now += 6.0
    scene.admission.tend()
    assert [session.tried for session in sessions] == [1, 1, 2]
    assert [len(session.reasons) for session in (early, late)] == [1, 1]
    assert (fits.reasons, scene.admission.blocked) == ([], 2)


def test_a_sync_that_fails_leaves_no_file_open(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.ALWAYS)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        scene.write()
        scene.disk.broken = True
        handles = list(scene.journal.take_unsynced())
        assert handles
        scene.journal._unsynced.extend(handles)
        scene.journal._dirty = False
        scene.admission.when_synced(lambda: None)
        await until_idle()
        for handle in handles:
            with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
                os.fstat(handle)

    asyncio.run(script())


def test_the_disk_waits_for_no_thread_that_kafka_holds(scene_of) -> None:
    async def script() -> None:
        scene = scene_of(Fsync.ALWAYS)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        kafka = threading.Event()
        topic = loop.run_in_executor(None, kafka.wait)
        try:
            scene.write()
            synced = asyncio.Event()
            scene.admission.when_synced(synced.set)
            async with asyncio.timeout(10):
                await synced.wait()
        finally:
            kafka.set()
            await topic

    asyncio.run(script())


class Held:
    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.reason = ""

    def try_again(self) -> bool:
        return self.answers.pop(0)

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_at_the_end_writes_that_wait_for_their_table_are_answered_too(scene_of) -> None:
    scene = scene_of(Fsync.NEVER)
    waiting = Held(False), Held(False)
    scene.admission.wait(waiting[0], TableFull("table bad: has no topic"))
    scene.admission.wait(waiting[1], JournalFull("full"))
    scene.admission.turn_all_away()
    assert ["the observer ends" in each.reason for each in waiting] == [True, True]
    assert scene.admission.reasons == ()


def test_a_write_that_waits_for_its_table_holds_up_no_other(scene_of, bench) -> None:
    scene = scene_of(Fsync.NEVER)
    poisoned, good = Held(False, False, False), Held(True)
    scene.admission.wait(poisoned, TableFull("table bad: has no topic"))
    scene.admission.wait(good, JournalFull("full"))
    assert any("table bad" in reason or "no room" in reason for reason in scene.admission.reasons)
    scene.admission.tend()
    assert good.answers == []
    assert "table bad" in scene.admission.reasons[0]
    scene.now += 11.0
    scene.admission.tend()
    assert "table bad: has no topic" in poisoned.reason
    assert scene.admission.blocked == 1
