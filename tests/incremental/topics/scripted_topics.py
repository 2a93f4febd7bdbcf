"""A Kafka whose logs are lists, and stages that read a topic or have rows sent to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from mortal_files import Killed
from msgspec import Struct
from scripted_runs import ScriptedFlow, ScriptedRun

from headgate.engine import FilesSpec, OnChange, RunPurpose, TopicSpec
from headgate.incremental import InputFlow, PublishedIncrements, Stage, UnsentIncrement
from headgate.incremental.running import StageRun
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest
from headgate.incremental.topics.cursors import Extent, TopicCursor, TopicExtent, topic_cursor
from headgate.incremental.topics.decoding import TopicMessage
from headgate.incremental.topics.encoding import OutgoingMessage
from headgate.incremental.topics.sending import SentPosition
from headgate.spark import OffsetRange, Run, decode_result

COLUMNS = {"order": "string", "n": "int64"}
OUT = "sums"


class Sent(Struct, frozen=True):
    """A message that was sent."""

    key: bytes | None
    value: bytes
    increment: int
    row: int
    whole: bool
    flow: str


class ScriptedKafka:
    """Topics of which tests say what is in them, and what has expired."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, list[TopicMessage]]] = {}
        self.starts: dict[tuple[str, int], int] = {}
        self.ids: dict[str, str] = {}
        self.sent_to: dict[str, list[Sent]] = {}
        self.positions: dict[tuple[str, str], SentPosition] = {}
        self.owners: dict[str, ScriptedSession] = {}
        self.largest = 1_000_000
        self.read: list[OffsetRange] = []
        self.dies: list[str] = []
        """Where the next transactions end with their sender: ``before`` or ``after`` they count."""
        self._made = 0

    def make(self, topic: str, partitions: int = 1) -> None:
        """Make a topic, or delete it and make it again."""
        self._made += 1
        self.topics[topic] = {number: [] for number in range(partitions)}
        self.ids[topic] = f"id{self._made}"
        self.starts = {place: at for place, at in self.starts.items() if place[0] != topic}

    def put(self, topic: str, partition: int, value: object, key: bytes | None = None) -> None:
        log = self.topics[topic].setdefault(partition, [])
        data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        log.append(TopicMessage(partition, len(log), 1_000 + len(log), key, data))

    def expire(self, topic: str, partition: int, before: int) -> None:
        self.starts[topic, partition] = before

    def extent(self, topic: str) -> TopicExtent:
        if topic not in self.topics:
            message = f"there is no topic {topic}"
            raise StageError(message)
        partitions = {
            number: Extent(self.starts.get((topic, number), 0), len(log))
            for number, log in self.topics[topic].items()
        }
        return TopicExtent(topic, self.ids[topic], partitions)

    def messages(self, ranges: Sequence[OffsetRange]) -> Iterator[TopicMessage]:
        self.read += ranges
        logs = [self.topics[one.topic][one.partition][one.start : one.stop] for one in ranges]
        for place in range(max(map(len, logs), default=0)):
            yield from (log[place] for log in logs if place < len(log))

    def sent(self, identity: str, topic: str) -> SentPosition | None:
        return self.positions.get((identity, topic))

    def session(self, identity: str, topic: str) -> ScriptedSession:
        return ScriptedSession(self, identity, topic)


class ScriptedSession:
    """A sender, which the next one of its identity fences off."""

    def __init__(self, kafka: ScriptedKafka, identity: str, topic: str) -> None:
        self._kafka = kafka
        self._place = identity, topic

    def __enter__(self) -> ScriptedSession:
        self._kafka.owners[self._place[0]] = self
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(
        self,
        messages: Sequence[OutgoingMessage],
        headers: Sequence[dict[str, bytes]],
        position: SentPosition,
    ) -> None:
        identity, topic = self._place
        if self._kafka.owners[identity] is not self:
            message = "fenced off"
            raise UnsentIncrement(message)
        death = self._kafka.dies.pop(0) if self._kafka.dies else ""
        if death == "before":
            raise Killed
        self._kafka.sent_to.setdefault(topic, []).extend(
            Sent(
                message.key,
                message.value,
                int(header["headgate.increment"]),
                int(header["headgate.row"]),
                json.loads(header["headgate.whole"]),
                header["headgate.flow"].decode(),
            )
            for message, header in zip(messages, headers, strict=True)
        )
        self._kafka.positions[self._place] = position
        if death == "after":
            raise Killed


def passing(columns: dict[str, str] | None = None) -> Stage:
    """Passes on each unit, without a state."""
    return Stage(
        "passing",
        inputs={"orders": InputFlow()},
        outputs={OUT: columns or COLUMNS},
        translate=lambda _, flows: {OUT: flows["orders"]},
    )


class Orders:
    """A topic that others write, and a stage that passes on what is in it, to files."""

    def __init__(self, folder: Path) -> None:
        self.kafka = ScriptedKafka()
        self.kafka.make("shop.orders", 2)
        self.flow = ScriptedFlow(folder / "state", [], None)
        self.spec = TopicSpec("shop.orders", COLUMNS)
        self.place = folder / "out"
        self.sinks: dict[str, FilesSpec | TopicSpec] = {OUT: FilesSpec(str(self.place))}
        self.stage = passing()

    def put(self, partition: int, *numbers: int) -> None:
        for n in numbers:
            self.kafka.put("shop.orders", partition, {"order": f"o{n}", "n": n})

    def attempt(
        self, purpose: RunPurpose = RunPurpose.ADVANCE, on_change: OnChange = OnChange.REFUSE
    ) -> ScriptedRun:
        """Return an attempt that is carried out up to its commit."""
        request = self.flow.request(
            sources={"orders": self.spec}, sinks=self.sinks, purpose=purpose, on_change=on_change
        )
        run = self.flow.attempt("pass", request)
        store = FileStore.at(request.location)
        StageRun(
            self.stage.spec, cast(Run, run), request, store, topics=lambda _: self.kafka
        ).carry_out()
        return run

    def run(
        self, purpose: RunPurpose = RunPurpose.ADVANCE, on_change: OnChange = OnChange.REFUSE
    ) -> list[int]:
        """Have a run committed; return the numbers that it put out to files."""
        run = self.attempt(purpose, on_change)
        before = self.published()
        self.flow.commit(run)
        for follow in run.following:
            follow()
        now = self.published()
        return now if purpose is RunPurpose.REBUILD else now[len(before) :]

    def published(self) -> list[int]:
        published = PublishedIncrements(str(self.place))
        return published.arrow()["n"].to_pylist() if published.increments else []

    @property
    def cursor(self) -> TopicCursor:
        result = decode_result(self.flow.results["pass"])
        assert result is not None
        manifest = read_manifest(FileStore.at(self.flow.path), result.manifest)
        cursor = topic_cursor(manifest.cursors["orders"])
        assert cursor is not None
        return cursor


def values(sent: Sequence[Sent]) -> list[dict[str, Any]]:
    return [json.loads(one.value) for one in sent]
