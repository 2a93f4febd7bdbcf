"""A table whose events Kafka does not take holds neither the journal nor the others."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import crash, left_in, opened, put

from headgate.events import Gap, Outcome, UpdateBatch, UpdateKind, updates_topic
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind
from headgate.observer.publishing.ended import EndedWrite
from headgate.observer.publishing.unpublished import UnpublishedWrites
from headgate.observer.recording import asides
from headgate.observer.recording.dropped import DroppedTables
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.recording.setting_aside import SettingAside

LIMIT = 64 << 10
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 200)),
        st.tuples(st.just("append"), st.integers(1, 200)),
        st.tuples(st.just("settle"), st.integers(0, 50)),
        st.tuples(st.just("settle"), st.integers(0, 50)),
        st.tuples(st.just("aside"), st.integers(0, 3)),
        st.tuples(st.just("save"), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=40)
@given(STEPS)
def test_whatever_is_set_aside_a_crash_leaves_all_that_is_unsettled(
    steps: list[tuple[str, Any]],
) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        journal = opened(directory, segment=500)
        requests: dict[int, bytes] = {}
        unsettled: list[int] = []
        for action, detail in steps:
            match action:
                case "append":
                    request = b"%d" % len(requests) + b"x" * detail
                    number = put(journal, request)
                    requests[number] = request
                    unsettled.append(number)
                case "settle" if unsettled:
                    journal.settle(unsettled.pop(detail % len(unsettled)))
                case "aside" if journal.segments:
                    pinned = journal.pinned_segment()
                    copied = pinned.copy()
                    # Some are settled while the disk is written to.
                    for number in [each for each in pinned.numbers if each in unsettled][:detail]:
                        unsettled.remove(number)
                        journal.settle(number)
                    journal.set_aside(pinned, copied)
                case "save":
                    journal.save_watermark()
        assert journal.unsettled == len(unsettled)
        journal.save_watermark()
        files = [*directory.glob("*.segment"), *directory.glob("*.aside")]
        assert journal.size == sum(path.stat().st_size for path in files)
        crash(journal)
        (left,) = left_in(opened(directory))
        found = {intent.number: intent.request for intent in left.intents}
        assert left.damage == ""
        assert found.items() <= requests.items()
        assert {number: requests[number] for number in unsettled}.items() <= found.items()


class Scene:
    """A journal before a publisher, tended once a second; tables that are poisoned get no topic."""

    def __init__(self, directory: Path, bench: Any) -> None:
        self.bench = bench
        self.publisher = bench.publisher
        self.journal = Journal(directory, limit_bytes=LIMIT, segment_bytes=4 << 10)
        self.publisher._deliveries._settle = self.journal.settle_all
        self.aside = SettingAside(self.journal, self.publisher)
        self.now = 0.0
        self.refused: list[str] = []

    def begin(self, *tables: str) -> None:
        for table in tables:
            self.publisher.prepare(table, values=True)
            self.publisher.topic_ready(table, 1)

    def write(self, table: str) -> None:
        if not (self.publisher.has_room(table) and self.journal.has_room(100)):
            self.refused.append(table)
            return
        number = put(self.journal, b"x" * 100, table)
        ended = EndedWrite(
            number,
            "mutateRow",
            Outcome.APPLIED,
            1.0,
            None,
            bytes([UpdateKind.PUT]),
            [b"r"],
            [b"f:q"],
            [-1],
            [b"v"],
        )
        self.publisher.add(table, ended)

    async def second(self, *stuck: str) -> None:
        """Let Kafka take everything but what belongs to some tables, and tend."""
        self.bench.timers.run()
        self.publisher.flush()
        topics = {updates_topic(table) for table in stuck}
        sent = self.bench.producer.sent
        while any(each.topic not in topics for each in sent):
            at = next(i for i, each in enumerate(sent) if each.topic not in topics)
            self.bench.producer.deliver(at)
        self.journal.save_watermark()
        for _ in range(4):
            self.now += 0.25
            self.aside.tend(self.now, LIMIT)
            while self.aside._task is not None:
                await asyncio.sleep(0.001)


@pytest.fixture
def scene(tmp_path: Path, bench: Any) -> Scene:
    return Scene(tmp_path, bench)


@settings(max_examples=12)
@given(
    lives=st.lists(
        st.lists(st.sampled_from(["good 1", "good 2", "bad"]), min_size=3, max_size=20),
        min_size=20,
        max_size=30,
    ),
    topic=st.booleans(),
    traffic=st.integers(1, 5),
)
def test_a_poisoned_table_beside_good_ones_costs_them_nothing(
    make_bench: Callable[[], Any], lives: list[list[str]], topic: bool, traffic: int
) -> None:
    async def script(scene: Scene) -> None:
        scene.begin("good 1", "good 2")
        scene.publisher.prepare("bad", values=True)
        if topic:
            scene.publisher.topic_ready("bad", 1)
        for tables in lives * 2:
            for table in (*tables * traffic, "good 1"):
                scene.write(table)
            await scene.second("bad")
        assert set(scene.refused) <= {"bad"}
        scene.publisher.topic_ready("bad", 1)
        for _ in range(3):
            await scene.second()
        assert (scene.journal.unsettled, scene.publisher.idle) == (0, True)

    with TemporaryDirectory() as name:
        scene = Scene(Path(name), make_bench())
        asyncio.run(script(scene))
        scene.aside.close()


def test_a_table_without_a_topic_gets_a_share_and_is_named(scene: Scene) -> None:
    async def script() -> None:
        scene.begin("good")
        scene.publisher.prepare("bad", values=True)
        scene.publisher.topic_refused("bad", "replication factor above the brokers")
        for _ in range(60):
            for _ in range(10):
                scene.write("bad")
            scene.write("good")
            await scene.second()
        assert scene.refused
        assert set(scene.refused) == {"bad"}
        assert "table bad" in scene.publisher.why_full("bad")
        assert "replication factor above the brokers" in scene.publisher.why_full("bad")
        assert scene.journal.size < LIMIT

    asyncio.run(script())


def test_a_journal_that_is_full_before_anybody_looks_gets_room_again(scene: Scene) -> None:
    async def script() -> None:
        scene.begin("good")
        scene.publisher.prepare("bad", values=True)
        scene.write("good")
        for _ in range(3):
            scene.write("bad")
            await scene.second()
            scene.write("good")
        for number in range(1000):
            scene.write("bad" if number % 10 == 0 else "good")
        assert "good" in scene.refused
        for _ in range(15):
            await scene.second()
        scene.refused.clear()
        for _ in range(30):
            for number in range(100):
                scene.write("bad" if number % 10 == 0 else "good")
            await scene.second()
        assert set(scene.refused) == {"bad"}

    asyncio.run(script())


@pytest.mark.parametrize("topic", [False, True])
def test_good_tables_lose_nothing_in_the_first_seconds_of_a_poisoned_one(
    scene: Scene, topic: bool
) -> None:
    async def script() -> None:
        scene.begin("good")
        scene.publisher.prepare("bad", values=True)
        if topic:
            scene.publisher.topic_ready("bad", 1)
        # A journal of 64 KiB is half full after two seconds.
        for _ in range(40):
            for number in range(120):
                scene.write("bad" if number % 4 == 0 else "good")
            await scene.second("bad")
        assert set(scene.refused) <= {"bad"}

    asyncio.run(script())


def test_many_poisoned_tables_share_half_of_the_journal(scene: Scene) -> None:
    bad = [f"bad {number}" for number in range(6)]

    async def script() -> None:
        scene.begin("good")
        for table in bad:
            scene.publisher.prepare(table, values=True)
        for _ in range(60):
            for table in bad:
                for _ in range(10):
                    scene.write(table)
            scene.write("good")
            await scene.second()
        assert set(scene.refused) == set(bad)
        assert scene.journal.size < LIMIT * 3 // 4

    asyncio.run(script())


def test_while_kafka_takes_nothing_each_table_may_use_the_whole_journal(scene: Scene) -> None:
    async def script() -> None:
        scene.begin("a", "b")
        for _ in range(60):
            for _ in range(10):
                scene.write("a")
            scene.write("b")
            await scene.second("a", "b")
        assert scene.publisher.stuck == {}
        assert scene.journal.size > LIMIT - 300

    asyncio.run(script())


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("topic", [False, True])
def test_what_nobody_wants_any_more_is_dropped_and_announced_when_somebody_does(
    scene: Scene, topic: bool, restarted: bool
) -> None:
    async def script() -> None:
        scene.begin("good")
        scene.publisher.prepare("bad", values=True)
        if topic:
            scene.publisher.topic_ready("bad", 1)
        for _ in range(15):
            scene.write("bad")
            scene.write("good")
            await scene.second("bad")
        scene.bench.unwanted = {"bad"}
        DroppedTables(scene.journal._directory, scene.publisher.dropped, lambda save: save())
        scene.publisher.forget_unwanted()
        assert scene.journal.unsettled == 0
        if restarted:
            scene.publisher.dropped = UnpublishedWrites()
            DroppedTables(scene.journal._directory, scene.publisher.dropped, lambda save: save())
        scene.bench.unwanted = set()
        scene.bench.producer.sent.clear()
        scene.publisher.prepare("bad", values=True)
        scene.publisher.topic_ready("bad", 1)
        scene.write("bad")
        await scene.second()
        log = [
            sent.message
            for sent in scene.bench.producer.delivered
            if sent.topic == updates_topic("bad")
        ]
        gap = log[0]
        assert isinstance(gap, Gap)
        assert gap.since == 1.0
        assert isinstance(log[-1], UpdateBatch)

    asyncio.run(script())


def test_a_partition_that_fails_is_dropped_with_its_table(scene: Scene) -> None:
    failure = DeliveryFailure(FailureKind.OTHER, "topic authorization failed")

    async def script() -> None:
        scene.begin("good", "bad")
        for _ in range(15):
            scene.write("bad")
            scene.write("good")
            await scene.second("bad")
            while scene.bench.producer.sent:
                scene.bench.producer.fail(failure)
        assert "topic authorization failed" in scene.publisher.stuck["bad"]
        scene.bench.unwanted = {"bad"}
        scene.publisher.forget_unwanted()
        assert (scene.journal.unsettled, scene.publisher.undelivered) == (0, 0)
        before = scene.publisher.tables.sequences()[updates_topic("bad")]
        scene.write("bad")
        await scene.second()
        (message,) = [
            sent.message
            for sent in scene.bench.producer.delivered
            if sent.topic == updates_topic("bad")
        ]
        assert message.sequence == before[0]

    asyncio.run(script())


def test_a_disk_that_refuses_what_is_set_aside_is_asked_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def script() -> None:
        scene.begin("good")
        scene.publisher.prepare("bad", values=True)
        scene.write("bad")
        with monkeypatch.context() as patched:
            patched.setattr(asides, "write_aside", refuse)
            for _ in range(20):
                for _ in range(10):
                    scene.write("good")
                await scene.second()
        assert not list(scene.journal._directory.glob("*.aside*"))
        assert scene.journal.segments > 3
        for _ in range(20):
            await scene.second()
        assert scene.journal.segments <= 3
        assert len(list(scene.journal._directory.glob("*.aside"))) == 1

    asyncio.run(script())


def test_a_note_of_dropped_events_goes_at_a_clean_end_once_somebody_was_told(
    tmp_path: Path,
) -> None:
    def begin() -> tuple[UnpublishedWrites, DroppedTables]:
        found = UnpublishedWrites()
        return found, DroppedTables(tmp_path, found, lambda save: save())

    first, kept = begin()
    for table in ("a", "b"):
        first.note(table, 7.0, "nobody watched", 10)
    first.take("a")
    crashed, _ = begin()
    assert set(crashed.all()) == {"a", "b"}
    kept.end()
    left, last = begin()
    assert {table: each.since for table, each in left.all().items()} == {"b": 7.0}
    left.take("b")
    last.end()
    assert not list(tmp_path.iterdir())


def test_a_note_that_cannot_be_read_is_about_all_tables(tmp_path: Path) -> None:
    (tmp_path / "dropped.json").write_bytes(b"{")
    found = UnpublishedWrites()
    DroppedTables(tmp_path, found, lambda save: save())
    told = found.take("any")
    assert told is not None
    assert told.since == 0.0


def test_a_note_that_a_newer_headgate_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dropped.json").write_bytes(b'{"version": 2, "all": true}')
    with pytest.raises(JournalError, match=r"dropped\.json: .*a newer headgate wrote it"):
        DroppedTables(tmp_path, UnpublishedWrites(), lambda save: save())
