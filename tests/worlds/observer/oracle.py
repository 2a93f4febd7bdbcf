"""What must be true of an observer's life: what HBase has done is on Kafka, and nothing else is."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from contradiction import require
from msgspec import Struct

from headgate.events import (
    BarrierMark,
    Gap,
    Outcome,
    UpdateBatch,
    UpdateKind,
    decode_origin,
)
from headgate.observer.recording.journal import Journal
from observer.generated_readers import Incoming
from observer.memory_hbase import Done, effects

if TYPE_CHECKING:
    from observer.life import ObserverLife

_MOST_TEXT = 400_000  # bytes of metrics, however many names clients invent
_LONGEST_LINE = 800  # characters of a line of the metrics, however long names are
_MOST_ENSURED = 8  # tables that are looked after, beside those that were ever watched


class Write(Struct, frozen=True):
    """A request that HBase has executed, at least in part."""

    method: str
    done: tuple[Done, ...]
    wanted: frozenset[str]
    """Tables that were watched when it was forwarded."""


class ObserverOracle:
    """Holds what HBase has done against what Kafka and the journal have."""

    def __init__(self, life: ObserverLife) -> None:
        self._life = life
        self.writes: list[Write] = []
        self.meant: list[Done] = []
        """What would have been done had every request gone well."""
        self.before: dict[str, tuple[str, int]] = {}
        """By barrier: its table, and how many writes had been forwarded."""

    # -- after a life that came to its end

    def check(self) -> None:
        """Look at everything once nothing is under way.

        Raises:
            Contradiction: Something is missing, invented, or in the wrong order.
        """
        logs = self._logs()
        self._check_told(logs)
        self._check_true(logs)
        self._check_barriers()
        self._check_watermarks(logs)
        self._check_sizes()

    def _logs(self) -> dict[str, dict[int, list[Any]]]:
        """Return the messages of each table, by partition, in their order."""
        logs: dict[str, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for sent in self._delivered():
            message = sent.message
            table = getattr(message, "table", None) or sent.topic
            logs[table][sent.partition].append(message)
        return logs

    @staticmethod
    def _batches(logs: dict[int, list[Any]]) -> list[UpdateBatch]:
        return [one for log in logs.values() for one in log if isinstance(one, UpdateBatch)]

    def _check_told(self, logs: dict[str, dict[int, list[Any]]]) -> None:
        rows, cells = set(), set()
        gaps = set()
        for table, messages in logs.items():
            if any(isinstance(one, Gap) for log in messages.values() for one in log):
                gaps.add(table)
            for batch in self._batches(messages):
                for row, column, value in zip(batch.rows, batch.columns, batch.values, strict=True):
                    rows.add((table, row))
                    cells |= {(table, row, column, value), (table, row, column, None)}
        for _, write, one in self._awaited(gaps):
            told = (one.table, one.row) in rows
            if one.column is not None:
                told = (one.table, one.row, one.column, one.value) in cells
            require(holds=told, words=f"nothing tells of {write.method}: {str(one)[:300]}")

    def _awaited(self, gaps: set[str]) -> Iterator[tuple[int, Write, Done]]:
        """Yield what somebody listens for who has not been told of a gap."""
        for number, write in enumerate(self.writes):
            for one in write.done:
                since = self._life.control.watched.get(one.table)
                listened = since is not None and number >= since
                if listened and one.table in write.wanted and one.table not in gaps:
                    yield number, write, one

    def _check_true(self, logs: dict[str, dict[int, list[Any]]]) -> None:
        done: dict[tuple[str, bytes, bytes], set[bytes | None]] = defaultdict(set)
        rows = set()
        writers = defaultdict(set)
        for write in self.writes:
            for one in write.done:
                rows.add((one.table, one.row))
                if one.column is not None:
                    done[one.table, one.row, one.column].add(one.value)
        for one in self.meant:
            writers[one.table, one.row].add(one.origin)
        for table, messages in logs.items():
            for batch in self._batches(messages):
                at = 0
                for part in batch.requests:
                    for n in range(at, at + part.cells):
                        place = (table, batch.rows[n])
                        words = f"{part.method} of {place!r}"[:300]
                        if part.outcome is Outcome.APPLIED:
                            require(holds=place in rows, words=f"HBase has not done: {words}")
                        if batch.kinds[n] == UpdateKind.PUT and part.outcome is Outcome.APPLIED:
                            values = done[table, batch.rows[n], batch.columns[n]]
                            said = batch.values[n]
                            right = said in values or (said is None and values)
                            words = f"HBase has put no {str(said)[:80]}: {words}"
                            require(holds=bool(right), words=words)
                        if part.origin is not None:
                            meant = {decode_origin(w) for w in writers[place] if w is not None}
                            words = f"{part.origin} did not write: {words}"
                            require(holds=part.origin in meant, words=words)
                    at += part.cells

    def _check_barriers(self) -> None:
        """Hold each mark against what had been forwarded when it was asked for."""
        delivered = [(one.partition, one.message) for one in self._delivered()]
        for name, (table, count) in self.before.items():
            told: set[bytes] = set()
            marked: set[int] = set()
            for partition, message in delivered:
                if isinstance(message, BarrierMark) and message.id == name:
                    marked.add(partition)
                elif isinstance(message, UpdateBatch) and message.table == table:
                    told |= set(message.rows) if partition not in marked else set()
            if not marked or self._has_gap(table):
                continue
            for number, write, one in self._awaited(set()):
                if number < count and one.table == table:
                    words = f"{name} passed {write.method} of {one.row[:50]!r}"
                    require(holds=one.row in told, words=words)

    def _has_gap(self, table: str) -> bool:
        messages = [one.message for one in self._delivered()]
        return any(isinstance(one, Gap) and one.table == table for one in messages)

    def _delivered(self) -> list[Any]:
        return self._life.scene.bench.producer.delivered

    def _check_watermarks(self, logs: dict[str, dict[int, list[Any]]]) -> None:
        for table, messages in logs.items():
            for log in messages.values():
                highest = 0
                for message in log:
                    if not isinstance(message, UpdateBatch) or message.recovered:
                        continue
                    for part in message.requests:
                        words = f"{table}: intent {part.intent} comes behind watermark {highest}"
                        require(holds=part.intent >= highest, words=words)
                    highest = max(highest, message.watermark)

    def _check_sizes(self) -> None:
        life = self._life
        text = life.scene.metrics.text()
        require(holds=len(text) <= _MOST_TEXT, words=f"metrics have {len(text)} characters")
        longest = max(text.splitlines(), key=len)
        words = f"a line of the metrics has {len(longest)} characters: {longest[:80]}"
        require(holds=len(longest) <= _LONGEST_LINE, words=words)
        ensured = set(life.scene.bench.ensured)
        strange = [table[:60] for table in ensured if table not in life.control.ever]
        words = f"{len(strange)} tables are looked after that nobody watches: {strange[:3]}"
        require(holds=len(strange) <= _MOST_ENSURED, words=words)

    # -- after a crash

    def check_crash(self) -> None:
        """End the process at once: what Kafka lacks is in the journal, or the damage is told."""
        life = self._life
        journal = life.scene.journal
        damaged = ""
        if life.chance.random() < 0.5:
            # Once a second the journal writes down how much there must be.
            journal.save_watermark()
            damaged = self._damage()
        os.close(journal._lock)
        again = Journal(life.directory, limit_bytes=1 << 26, segment_bytes=1 << 20)
        told = set()
        open_epochs = again.open_epochs()
        excused = False
        for epoch in open_epochs:
            for part in epoch.parts():
                for intent in part.intents():
                    told |= self._rows_of(intent)
                excused |= bool(part.damage)
            excused |= bool(epoch.missing_at_the_end)
        gaps = {table for epoch in open_epochs for table in epoch.gaps}
        for sent in self._delivered():
            message = sent.message
            if isinstance(message, UpdateBatch):
                told |= {(message.table, row) for row in message.rows}
            elif isinstance(message, Gap):
                gaps.add(message.table)
        again.close()
        if excused:
            require(holds=bool(damaged), words="a journal is called damaged that is whole")
            return
        for _, write, one in self._awaited(gaps):
            words = f"{write.method} of {one.row[:50]!r} is lost without a word {damaged}"
            require(holds=(one.table, one.row) in told, words=words)

    def _damage(self) -> str:
        """Have the disk lose something; return what, empty where there is nothing to lose."""
        chance = self._life.chance
        segments = sorted(self._life.directory.glob("*.segment"))
        segments = [path for path in segments if path.stat().st_size]
        if not segments:
            return ""
        path = chance.choice(segments)
        if chance.random() < 0.2:
            path.unlink()
            return "a segment is gone"
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        return f"byte {at} of {len(data)} is flipped"

    def _rows_of(self, intent: Any) -> set[tuple[str, bytes]]:
        calls = Incoming().calls(intent.request)
        done = [one for call in calls for one in effects(self._life.dialect, call) or ()]
        return {(one.table, one.row) for one in done}
