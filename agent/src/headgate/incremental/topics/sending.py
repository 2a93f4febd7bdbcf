"""Increments that go to topics: each is sent once, after its commit.

Its rows are in files of the stage, which the committed manifest names. Whoever commits sends them
in transactions, at once, or else the stage's next run does before anything else. Each transaction
also commits, for a group that is the sink's own, which increment it is of and how many of its rows
are sent by then, so that whoever comes later knows it. Who sends has first taken over the sink's
transactional id, by which what others have begun is undone and can not be gone on with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, Protocol

import msgspec
import pyarrow as pa
from msgspec import Struct

from headgate.engine import TopicSpec
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.manifest import Sending
from headgate.incremental.topics.cursors import TopicExtent
from headgate.incremental.topics.encoding import OutgoingMessage, is_key, outgoing
from headgate.spark import RecordsUnavailable

PART_ROWS: Final = 50_000
"""Rows of one transaction, which has to be over within a minute."""
PART_BYTES: Final = 1 << 24
"""Of the messages of one transaction, at least one of them: they are in memory together."""
_HEADERS: Final = 1024
"""Bytes that a message may have besides key and value."""


class UnsentIncrement(Exception):
    """A committed increment that could not be sent; the stage's next run sends it."""


class SentPosition(Struct, frozen=True):
    """How far a sink's increments were sent."""

    increment: int
    """The number of the newest that was."""
    rows: int
    """Of it, the first that were."""
    of: int
    """Of it, all."""


class SinkSession(Protocol):
    """What one sender does after it has taken over a sink from all before it."""

    def send(
        self,
        messages: Sequence[OutgoingMessage],
        headers: Sequence[dict[str, bytes]],
        position: SentPosition,
    ) -> None:
        """Send messages with their headers and note the position, all of it or nothing."""


class TopicSinks(Protocol):
    """Where topics are written."""

    @property
    def largest(self) -> int:
        """Bytes of a message."""

    def extent(self, topic: str) -> TopicExtent:
        """Return what a topic has now."""

    def sent(self, identity: str, topic: str) -> SentPosition | None:
        """Return how far a sink's increments were sent; None where that is not known."""

    def session(self, identity: str, topic: str) -> AbstractContextManager[SinkSession]:
        """Take a sink over."""


class TopicSink(Struct, frozen=True):
    """The topic to which one attempt has an output flow sent.

    Args:
        stage: its name.
        number: the attempt's fencing token: above that of every earlier attempt of the action.
        flow: that is sent.
        spec: where it goes.
        columns: of the flow.
        owner: what names in Kafka begin with.
    """

    stage: str
    number: int
    flow: str
    spec: TopicSpec
    columns: pa.Schema
    owner: str

    @property
    def identity(self) -> str:
        """The name of its transactions, and of its group."""
        return f"{self.owner}/{self.stage}/{self.flow}"

    def check_key(self) -> None:
        """Check that the flow has the column that is to be the key.

        Raises:
            StageError: it has not, or of a type that no key is of.
        """
        key = self.spec.key
        if not key:
            return
        at = self.columns.get_field_index(key)
        if at < 0 or not is_key(self.columns.field(at).type):
            has = ", ".join(f"{field.name} {field.type}" for field in self.columns)
            message = (
                f"the key of topic {self.spec.topic} is `{key}`, and flow `{self.flow}` of "
                f"`{self.stage}` has {has}: name a column of text, bytes or whole numbers by `key`"
            )
            raise StageError(message)

    def check_place(self, sinks: TopicSinks) -> None:
        """Check what is known of the sink before a stage begins with nothing.

        Raises:
            StageError: there is no such topic, or what was sent to it would come after this.
            RecordsUnavailable: Kafka does not answer.
        """
        sinks.extent(self.spec.topic)
        sent = sinks.sent(self.identity, self.spec.topic)
        if sent is not None and sent.increment >= self.number:
            message = (
                f"topic {self.spec.topic}, to which flow `{self.flow}` of `{self.stage}` goes, has "
                "increments of an earlier dataflow of this name: have it go to another topic, or "
                f"delete the offsets of group {self.identity} (`kafka-consumer-groups.sh --delete "
                f"--group {self.identity}`), where consumers can do with both"
            )
            raise StageError(message)

    def sending(
        self, store: FileStore, files: Iterable[FileRef], sinks: TopicSinks, *, whole: bool
    ) -> Sending | None:
        """Return what is sent once its run is committed; None where no rows are.

        Args:
            store: where the stage's files are.
            files: with the rows.
            sinks: where they go, which says how large messages may be.
            whole: whether they are all that there is of the flow.

        Raises:
            StageError: a row is larger than a message may be: nobody could send it later.
            DamagedState: a file is not what it was.
        """
        sending = Sending(
            self.spec.topic,
            self.identity,
            self.number,
            self.stage,
            self.flow,
            self.spec.key,
            whole,
            tuple(ref for ref in files if ref.rows),
        )
        if not sending.files:
            return None
        for number, message in enumerate(_messages(sending, store)):
            if message.size + _HEADERS > sinks.largest:
                wrong = (
                    f"row {number} of flow `{self.flow}` of `{self.stage}` is a message of "
                    f"{message.size} bytes, and topic {self.spec.topic} is sent {sinks.largest} at "
                    "most: make rows smaller, or raise `message.max.bytes` among the agent's "
                    "Kafka properties (and `max.message.bytes` of the topic)"
                )
                raise StageError(wrong)
        return sending


def send(sending: Sending, store: FileStore, sinks: TopicSinks) -> None:
    """Send what is not sent yet of an increment whose run is committed.

    Args:
        sending: as the manifest says that was committed.
        store: where the stage's files are.
        sinks: where it goes.

    Raises:
        UnsentIncrement: Kafka does not take it, or somebody else has taken the sink over.
        DamagedState: a file is not what it was.
    """
    try:
        _send(sending, store, sinks)
    except RecordsUnavailable as error:
        message = f"increment {sending.increment} of {sending.identity} is committed: {error}"
        raise UnsentIncrement(message) from error


def _send(sending: Sending, store: FileStore, sinks: TopicSinks) -> None:
    if first_unsent(sending, sinks.sent(sending.identity, sending.topic)) == sending.rows:
        return  # as nearly always where the run before has committed; its files may be gone
    with sinks.session(sending.identity, sending.topic) as session:
        # Again: what others have begun before is undone only now, and what they ended is known.
        begin = first_unsent(sending, sinks.sent(sending.identity, sending.topic))
        for part in _parts(islice(_messages(sending, store), begin, None)):
            end = begin + len(part)
            headers = [_headers(sending, row) for row in range(begin, end)]
            session.send(part, headers, SentPosition(sending.increment, end, sending.rows))
            begin = end


def first_unsent(sending: Sending, sent: SentPosition | None) -> int:
    """Return the first row of an increment that was not sent; how many it has where all were.

    Args:
        sending: the increment.
        sent: how far any were. Where nobody knows, as after Kafka has forgotten it, none was.
    """
    if sent is None or sent.increment < sending.increment:
        return 0
    return sent.rows if sent.increment == sending.increment else sending.rows


def _headers(sending: Sending, row: int) -> dict[str, bytes]:
    return {
        "headgate.flow": f"{sending.stage}/{sending.flow}".encode(),
        "headgate.increment": str(sending.increment).encode(),
        "headgate.row": str(row).encode(),
        "headgate.whole": msgspec.json.encode(sending.whole),
    }


def _messages(sending: Sending, store: FileStore) -> Iterator[OutgoingMessage]:
    for ref in sending.files:
        yield from outgoing(BatchFile(store, ref, sending.stage).batches(), sending.key)


def _parts(messages: Iterable[OutgoingMessage]) -> Iterator[list[OutgoingMessage]]:
    part: list[OutgoingMessage] = []
    size = 0
    for message in messages:
        if part and (len(part) >= PART_ROWS or size + message.size > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(message)
        size += message.size
    if part:
        yield part
