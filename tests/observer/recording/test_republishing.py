"""What a crashed observer left in its journal is published as what it is: perhaps done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.events import (
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    decode_update,
    updates_topic,
)
from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.publishing import recovered as recovered_events
from headgate.observer.publishing.kafka import KafkaUnavailable
from headgate.observer.recording import recovery, republishing
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.republishing import EarlierEpochs
from headgate.observer.starting import StartError
from headgate.wire import MessageType, StructWriter, Transport, write_message


def request(method: str, body: bytes) -> bytes:
    return write_message(Transport.BUFFERED, method, MessageType.CALL, 0, body)


def put(row: bytes, table: bytes = b"t", value: bytes = b"v") -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, value).end()
    return request(
        "mutateRow", StructWriter().binary(1, table).binary(2, row).structs(3, [mutation]).end()
    )


DROP = request("deleteTable", StructWriter().binary(1, b"t").end())


class Restart:
    """An observer that comes back after a crash; Kafka takes what it publishes when it may."""

    def __init__(self, directory: Path, bench: Any) -> None:
        self.directory = directory
        self.bench = bench
        self.apart = 0.0
        """Seconds between two requests."""
        self.start_seconds = 60.0
        self.watched = {"t"}
        self.fitting: set[str] = set()
        self.topics = {updates_topic("t"), updates_topic("other")}
        self.log: list[Any] = []
        self.journal = self._opened()
        bench.producer.send = self._take
        bench.publisher._later = lambda _seconds, call: call()
        for table in ("t", "other"):
            bench.publisher.prepare(table, values=True)
            bench.publisher.topic_ready(table, 1)

    def crash_with(self, *requests: bytes, table: str = "t") -> int:
        """Die with these requests under way; return the epoch that they belong to."""
        epoch = self.journal.epoch
        for number, each in enumerate(requests):
            received = 12.5 + self.apart * number
            self.journal.append(each, table, listener=0, dialect=0, received=received)
        os.close(self.journal._lock)
        self.journal = self._opened()
        return epoch

    def write_surely(self, table: str) -> None:
        """Have the new epoch publish a write that was applied."""
        publisher = self.bench.publisher
        publisher.add_put(table, 0, "put", 100.0, None, b"sure", b"f:q", -1, b"v", False)
        publisher.topic_ready(table, 1)

    def look_at_topics(self) -> set[str]:
        return self.topics

    def run(self, script: Callable[[EarlierEpochs], Any]) -> None:
        async def inside() -> None:
            config = ObserverConfig(
                name="o",
                thrift1=Listener("127.0.0.1:0", "a:1"),
                kafka=KafkaSettings("k:1"),
                journal=JournalSettings(str(self.directory)),
                start_seconds=self.start_seconds,
            )
            earlier = EarlierEpochs(
                config,
                journal=self.journal,
                publisher=self.bench.publisher,
                watched=lambda: self.watched,
                fits=lambda table: table in self.fitting,
                topics=self.look_at_topics,
            )
            await script(earlier)

        asyncio.run(inside())

    def _opened(self) -> Journal:
        return Journal(self.directory, limit_bytes=1 << 20, segment_bytes=1 << 16)

    def _take(self, topic: str, partition: int, value: bytes, done: Any) -> bool:
        self.log.append(decode_update(value))
        done(None)
        return True


@pytest.fixture
def restart(tmp_path: Path, bench: Any) -> Restart:
    return Restart(tmp_path, bench)


def test_a_request_that_can_have_done_nothing_is_left_out(tmp_path: Path, make_bench) -> None:
    restart = Restart(tmp_path, make_bench())
    ignored = StructWriter().binary(2, b"no qualifier").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [ignored]).end()
    epoch = restart.crash_with(request("mutateRow", body), put(b"behind"))
    restart.run(lambda earlier: earlier.publish())
    told = [each for each in restart.log if isinstance(each, UpdateBatch)]
    assert [(each.epoch, each.rows) for each in told] == [(epoch, (b"behind",))]


def test_a_write_is_unknown_under_the_epoch_and_number_that_it_had(restart: Restart) -> None:
    first = restart.crash_with(put(b"one"), put(b"two"))
    second = restart.crash_with(put(b"three"))
    restart.run(EarlierEpochs.publish)
    told = [
        (batch.epoch, part.intent, row, part.outcome, part.received)
        for batch in restart.log
        for part, row in zip(batch.requests, batch.rows, strict=True)
    ]
    assert told == [
        (first, 0, b"one", Outcome.UNKNOWN, 12.5),
        (first, 1, b"two", Outcome.UNKNOWN, 12.5),
        (second, 0, b"three", Outcome.UNKNOWN, 12.5),
    ]
    assert 0 < first < second
    assert all(isinstance(each, UpdateBatch) and each.recovered for each in restart.log)


def test_a_definition_is_unknown_under_its_epoch_too(restart: Restart) -> None:
    epoch = restart.crash_with(put(b"one"), DROP)
    restart.run(EarlierEpochs.publish)
    _, change = restart.log
    assert isinstance(change, TableChange)
    assert (change.epoch, change.intent) == (epoch, 1)
    assert (change.kind, change.outcome) == (TableChangeKind.DROPPED, Outcome.UNKNOWN)


def test_what_nobody_watches_is_left_out(restart: Restart) -> None:
    restart.crash_with(put(b"row", b"other"), table="other")
    restart.run(EarlierEpochs.publish)
    assert restart.log == []


def test_puts_of_a_table_that_nobody_wants_are_not_decoded_one_by_one(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []

    def counted(intent: Any) -> Any:
        decoded.append(intent.number)
        return decode(intent)

    decode = recovery.recovered
    monkeypatch.setattr(republishing, "recovered", counted)
    puts = [put(b"row%03d" % number, b"other") for number in range(200)]
    restart.crash_with(*puts, table="other")
    restart.run(EarlierEpochs.publish)
    assert 0 < len(decoded) < 10
    assert restart.log == []


def test_what_is_watched_by_pattern_is_told_where_it_has_a_topic(restart: Restart) -> None:
    restart.fitting = {"other"}
    restart.journal.save_gaps({"other": 50.0})
    restart.crash_with(put(b"row", b"other"), put(b"cut short", b"other")[:-5], table="other")
    restart.run(EarlierEpochs.publish)
    assert [each.rows for each in restart.log if isinstance(each, UpdateBatch)] == [(b"row",)]
    gaps = [(each.table, each.since) for each in restart.log if isinstance(each, Gap)]
    assert sorted(gaps) == [("other", 12.5), ("other", 50.0)]


def test_a_name_that_fits_gets_no_topic_from_a_crash_and_its_first_sure_write_a_gap(
    restart: Restart,
) -> None:
    bench = restart.bench
    restart.fitting = bench.named = {"invented"}
    restart.crash_with(put(b"row", b"invented"), table="invented")
    restart.run(EarlierEpochs.publish)
    assert (restart.log, "invented" in bench.ensured) == ([], False)
    restart.write_surely("invented")
    gap, batch = restart.log
    assert (gap.table, gap.since, batch.rows) == ("invented", 12.5, (b"sure",))


def test_damage_is_a_gap_of_each_table_that_fits_too(restart: Restart) -> None:
    restart.fitting = restart.bench.named = {"other", "later"}
    restart.crash_with(put(b"one"), put(b"two"))
    (path,) = restart.directory.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[data.index(b"one")] ^= 1
    path.write_bytes(bytes(data))
    restart.run(EarlierEpochs.publish)
    assert {each.table for each in restart.log if isinstance(each, Gap)} == {"t", "other"}
    restart.write_surely("later")
    assert [each.table for each in restart.log[-2:] if isinstance(each, Gap)] == ["later"]


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (put(b"one")[:-5], "incomplete"),
        (request("mutateRow", StructWriter().binary(1, b"t").end()), "without its table, row"),
        (request("getRow", StructWriter().binary(1, b"t").end()), "changes nothing"),
    ],
    ids=["cut short", "not whole", "no write"],
)
def test_what_cannot_be_read_is_a_gap_from_when_it_came(
    restart: Restart, damaged: bytes, words: str
) -> None:
    restart.crash_with(damaged, put(b"two"))
    restart.run(EarlierEpochs.publish)
    gap, batch = sorted(restart.log, key=lambda each: isinstance(each, UpdateBatch))
    assert isinstance(gap, Gap)
    assert (gap.table, gap.since) == ("t", 12.5)
    assert gap.until > gap.since
    assert words in gap.reason
    assert batch.rows == (b"two",)


def test_an_epoch_is_forgotten_once_kafka_has_its_end(restart: Restart) -> None:
    epoch = restart.crash_with(put(b"one"))
    said: list[int] = []
    left = [2, 1, 0]
    kept: list[int] = []

    def undelivered() -> int:
        kept.append(len(restart.journal.open_epochs()))
        return left.pop(0)

    async def script(earlier: EarlierEpochs) -> None:
        await earlier.publish()
        assert said == []
        await earlier.end(said.append, undelivered)

    restart.run(script)
    assert said == [epoch]
    assert kept == [1, 1, 1]
    assert restart.journal.open_epochs() == []


def test_what_the_journal_has_lost_is_a_gap_in_each_watched_table(restart: Restart) -> None:
    restart.watched = {"t", "other"}
    restart.apart = 1.0
    restart.crash_with(put(b"one"), put(b"two"), put(b"three"))
    (path,) = restart.directory.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(bytes(data))
    restart.run(EarlierEpochs.publish)
    gaps = [each for each in restart.log if isinstance(each, Gap)]
    assert sorted((gap.table, gap.since) for gap in gaps) == [("other", 12.5), ("t", 12.5)]
    assert all("damaged" in gap.reason and gap.until > 12.5 for gap in gaps)
    rows = [row for each in restart.log if isinstance(each, UpdateBatch) for row in each.rows]
    assert rows == [b"one", b"three"]


def test_a_gap_that_was_not_announced_is_announced_by_the_next_start(restart: Restart) -> None:
    restart.journal.save_gaps({"t": 50.0, "nobody's": 60.0})
    restart.crash_with(put(b"one"))
    restart.run(EarlierEpochs.publish)
    (gap,) = (each for each in restart.log if isinstance(each, Gap))
    assert (gap.table, gap.since) == ("t", 50.0)
    assert gap.until > 50.0


def test_topics_are_looked_for_until_kafka_answers(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart.fitting = {"other"}
    silent = 2

    def look() -> set[str]:
        nonlocal silent
        if silent:
            silent -= 1
            raise KafkaUnavailable("nobody is there")
        return restart.topics

    monkeypatch.setattr(restart, "look_at_topics", look)
    restart.crash_with(put(b"row", b"other"), table="other")
    restart.run(EarlierEpochs.publish)
    assert [each.rows for each in restart.log] == [(b"row",)]


def test_a_kafka_that_never_answers_ends_the_start_in_words(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart.fitting = {"other"}
    restart.start_seconds = 0.2
    asked = 0

    def look() -> set[str]:
        nonlocal asked
        asked += 1
        assert asked < 1000, "it asks without a pause"
        raise KafkaUnavailable("nobody is there")

    monkeypatch.setattr(restart, "look_at_topics", look)
    restart.crash_with(put(b"row", b"other"), table="other")
    with pytest.raises(StartError, match="Kafka at k:1 did not take"):
        restart.run(EarlierEpochs.publish)


def test_a_topic_that_is_made_meanwhile_is_waited_for(restart: Restart) -> None:
    publisher = restart.bench.publisher
    restart.watched = {"late"}
    restart.crash_with(put(b"row", b"late"), table="late")

    async def script(earlier: EarlierEpochs) -> None:
        publisher.prepare("late", values=True)
        asyncio.get_running_loop().call_later(0.01, publisher.topic_ready, "late", 1)
        await earlier.publish()

    restart.run(script)
    assert [each.rows for each in restart.log] == [(b"row",)]


def test_a_table_whose_topic_is_missing_is_set_aside_and_published_later(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "_PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(republishing, "_FINISH_SECONDS", 0.01)
    restart.watched = {"t", "poisoned"}
    rows = [b"%d" % number for number in range(6)]
    tables = [b"t", b"poisoned"] * 3
    first = restart.crash_with(*(put(row, table) for row, table in zip(rows, tables, strict=True)))
    said: list[int] = []

    def told() -> list[bytes]:
        return [row for each in restart.log if isinstance(each, UpdateBatch) for row in each.rows]

    async def start(earlier: EarlierEpochs) -> None:
        await earlier.publish()
        await earlier.end(said.append, lambda: 0)

    restart.run(start)
    assert (told(), said) == (rows[::2], [])
    assert not list(restart.directory.glob("*.segment"))
    # Nothing is lost by another crash.
    os.close(restart.journal._lock)
    restart.journal = restart._opened()

    async def start_and_heal(earlier: EarlierEpochs) -> None:
        await start(earlier)
        asyncio.get_running_loop().call_later(
            0.02, restart.bench.publisher.topic_ready, "poisoned", 1
        )
        await earlier.finish(said.append, lambda: 0)

    restart.log.clear()
    restart.run(start_and_heal)
    assert (told(), said) == (rows[1::2], [first + 1, first])
    assert restart.journal.size == 0
    assert [each.epoch for each in restart.journal.open_epochs()] == []


def test_what_is_set_aside_goes_when_nobody_watches_its_table(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "_PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(republishing, "_FINISH_SECONDS", 0.01)
    restart.watched = {"t", "poisoned"}
    restart.journal.save_gaps({"poisoned": 50.0})
    requests = put(b"row", b"poisoned"), put(b"cut", b"poisoned")[:-5]
    first = restart.crash_with(*requests, table="poisoned")
    said: list[int] = []

    async def script(earlier: EarlierEpochs) -> None:
        await earlier.publish()
        await earlier.end(said.append, lambda: 0)
        (left,) = restart.journal.open_epochs()
        assert (left.gaps, said) == ({"poisoned": 12.5}, [])
        restart.watched = {"t"}
        await earlier.finish(said.append, lambda: 0)

    restart.run(script)
    assert (restart.log, said, restart.journal.size) == ([], [first], 0)


def test_each_file_goes_before_the_next_is_read_and_others_have_turns(
    tmp_path: Path, make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "_TURN", 50)
    monkeypatch.setattr(republishing, "_UNDER_WAY", 2)
    restart = Restart(tmp_path, make_bench())
    # Kafka is slow: it takes one message in a while, longer than a start may wait in all.
    restart.start_seconds = 0.3
    value = b"x" * 1000
    restart.crash_with(*(put(b"%d" % number, value=value) for number in range(700)))
    left: list[int] = []
    waiting: list[Any] = []

    def take(_topic: str, _partition: int, data: bytes, done: Any) -> bool:
        restart.log.append(decode_update(data))
        waiting.append(done)
        return True

    monkeypatch.setattr(restart.bench.producer, "send", take)
    monkeypatch.setattr(recovered_events, "MESSAGE_BYTES", 20_000)

    async def script(earlier: EarlierEpochs) -> None:
        task = asyncio.create_task(earlier.publish())
        begun = asyncio.get_running_loop().time()
        while not task.done():
            await asyncio.sleep(0.012)
            left.append(len(list(restart.directory.glob("*.segment"))))
            assert len(waiting) <= 8
            if waiting:
                waiting.pop(0)(None)
        await task
        assert asyncio.get_running_loop().time() - begun > restart.start_seconds

    restart.run(script)
    assert sorted(left, reverse=True) == left
    assert len(set(left)) > 5
    rows = [row for each in restart.log for row in each.rows]
    assert rows == [b"%d" % number for number in range(700)]


def test_a_crash_amid_a_recovery_is_no_damage(
    tmp_path: Path, make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(republishing, "_TURN", 50)
    restart = Restart(tmp_path, make_bench())
    restart.crash_with(*(put(b"%d" % number, value=b"x" * 1000) for number in range(300)))

    async def script(earlier: EarlierEpochs) -> None:
        task = asyncio.create_task(earlier.publish())
        while len(list(restart.directory.glob("*.segment"))) > 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

    restart.run(script)
    os.close(restart.journal._lock)
    restart.journal = restart._opened()
    restart.run(EarlierEpochs.publish)
    assert not [each for each in restart.log if isinstance(each, Gap)]
    rows = {row for each in restart.log for row in each.rows}
    assert rows == {b"%d" % number for number in range(300)}
