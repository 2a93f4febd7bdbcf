"""Kafka keeps updates as long as runs need them: retention follows the oldest cut.

Row ``retention/TOPIC`` of the state table holds for how long each dataflow needs the topic's
updates to be kept, whichever agent it is with, and what the topic had before. Any agent gives the
topic the longest of them, and what it had when nobody needs more. It outlasts agents: a dataflow
that nobody hosts just now needs its updates all the same.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec
import structlog
from msgspec import Struct

from headgate.agent.errors import AgentError, Unreachable
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.agent.state.rows import Rows
from headgate.agent.supervision import Supervision, ThreadKind

log = structlog.get_logger("headgate.agent.retention")

T = TypeVar("T")

_LOOK = 60.0  # seconds between two looks; retention is hours at least
_USED = 0.5
"""The part of the retention that an update may reach before it is kept for longer."""
_PREFIX = b"retention/"
_END = b"retention0"
_BEFORE = b"state:before"
_NEED = b"spec:need."

_encode = msgspec.msgpack.Encoder().encode


class RetentionRefused(AgentError):
    """Kafka does not let this agent change a topic; the message says what it wants for it."""


class Retention(Struct, frozen=True):
    """For how long Kafka keeps a topic's records."""

    seconds: float
    inherited: bool = False
    """Whether the topic has it of its broker, and no setting of its own."""


class Raised(Struct, frozen=True):
    """What a topic had before agents raised its retention, and to what they did."""

    before: Retention
    seconds: float


class RetentionChange(Struct, frozen=True):
    """What a topic is to have, and what is to be remembered; None where nothing is any more."""

    retention: Retention
    raised: Raised | None


class RetentionTopics(Protocol):
    """What is asked of Kafka."""

    def retentions(self, topics: Iterable[str]) -> dict[str, Retention | None]:
        """Return the retention of topics; None for one that keeps everything, or is not there.

        Topics that Kafka does not describe at the moment are left out.
        """

    def retain(self, topic: str, retention: Retention) -> None:
        """Give a topic a retention; may raise ``RetentionRefused`` or ``Unreachable``."""


def needed(age: float, kept: float, longest: float) -> float | None:
    """Return for how many seconds an update so old is to be kept; None where ``kept`` will do.

    It is doubled, so that a topic is altered seldom, up to the ``longest`` that is allowed.
    """
    if age <= kept * _USED or longest <= kept:
        return None
    return min(longest, kept * 2.0 ** math.ceil(math.log2(age / (kept * _USED))))


def change_of(
    now: Retention, raised: Raised | None, needs: Iterable[float]
) -> RetentionChange | None:
    """Return what becomes of a topic; None where it has what it is to have.

    Where somebody has altered it since agents did, that is what it has of its own from then on.
    """
    altered = raised is None or abs(now.seconds - raised.seconds) >= 1
    before = now if raised is None or altered else raised.before
    seconds = max((before.seconds, *needs))
    if seconds > before.seconds:
        wanted, remembered = Retention(seconds), Raised(before, seconds)
    else:
        wanted, remembered = before, None
    if wanted == now and remembered == raised:
        return None
    return RetentionChange(wanted, remembered)


class _TopicRow(Struct):
    raised: Raised | None
    written: bytes | None
    """``raised`` as it stands."""
    needs: dict[str, float]
    """By dataflow, in seconds."""


class RetentionKeeper:
    """Keeps topics long enough for the dataflows of this agent, in a thread of its own.

    Args:
        rows: the state table.
        topics: Kafka.
        longest: seconds to which agents may raise a retention; 0: they never do.
        supervision: owns the thread.
    """

    def __init__(
        self, rows: Rows, topics: RetentionTopics, longest: float, supervision: Supervision
    ) -> None:
        self._rows = rows
        self._topics = topics
        self._longest = longest
        self._lock = threading.Lock()
        self._ages: dict[str, Mapping[str, float]] = {}
        self._known: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = supervision.thread(
            ThreadKind.RETENTION, "retention", self._work, self._stopping
        )

    def start(self) -> None:
        """Begin to look after topics."""
        if self._longest:
            self._thread.start()

    def close(self) -> None:
        """Look after topics no more; they stay as they are."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def need(self, dataflow: str, ages: Mapping[str, float]) -> None:
        """Say how old, in seconds, the oldest update is that a dataflow needs, by topic."""
        with self._lock:
            self._ages[dataflow] = dict(ages)

    def rest(self, dataflow: str) -> None:
        """Leave a dataflow's topics to another agent; what it needs stays known."""
        with self._lock:
            self._ages.pop(dataflow, None)

    def remove(self, dataflow: str) -> None:
        """Forget what a dataflow needs, which is removed; topics are given back at the next look.

        Raises:
            Unreachable: HBase does not answer.
        """
        self.rest(dataflow)
        for topic, row in self._read().items():
            if dataflow in row.needs:
                self._rows.delete(_row(topic), (_NEED + dataflow.encode(),))

    def kept(self, topic: str) -> float | None:
        """Return for how many seconds a topic was kept when it was last looked at."""
        return self._known.get(topic)

    def _work(self) -> None:
        while not self._stopping.wait(_LOOK):
            try:
                self.look()
            except Unreachable as error:
                log.info("retention not looked at", problem=str(error))

    def look(self) -> None:
        """Note what this agent's dataflows need, and give topics what all dataflows do.

        Raises:
            Unreachable: HBase or Kafka does not answer.
        """
        with self._lock:
            ages = dict(self._ages)
        rows = self._read()
        names = {topic for of_one in ages.values() for topic in of_one} | rows.keys()
        found = self._topics.retentions(sorted(names))
        self._known = {topic: now.seconds for topic, now in found.items() if now is not None}
        for topic, now in sorted(found.items()):
            if now is not None:
                row = rows.get(topic) or _TopicRow(None, None, {})
                self._note(topic, now, row, ages)
                self._give(topic, now, row)
            elif topic in rows:
                self._rows.delete(_row(topic))

    def _read(self) -> dict[str, _TopicRow]:
        found = {}
        for row, columns in self._rows.scan(_PREFIX, _END):
            topic = row.removeprefix(_PREFIX).decode()
            needs = {
                name.removeprefix(_NEED).decode(): _readable(topic, name, value, float)
                for name, value in columns.items()
                if name.startswith(_NEED)
            }
            written = columns.get(_BEFORE)
            raised = None if written is None else _readable(topic, _BEFORE, written, Raised)
            known = {dataflow: need for dataflow, need in needs.items() if need is not None}
            found[topic] = _TopicRow(raised, written, known)
        return found

    def _note(
        self,
        topic: str,
        now: Retention,
        row: _TopicRow,
        ages: Mapping[str, Mapping[str, float]],
    ) -> None:
        """Have the row say what the dataflows of this agent need."""
        kept = now.seconds if row.raised is None else row.raised.before.seconds
        wanted = {
            dataflow: needed(of_one.get(topic, 0.0), kept, self._longest)
            for dataflow, of_one in ages.items()
        }
        for dataflow, seconds in wanted.items():
            if seconds == row.needs.get(dataflow):
                continue
            if seconds is None:
                self._rows.delete(_row(topic), (_NEED + dataflow.encode(),))
                del row.needs[dataflow]
            else:
                self._rows.put(_row(topic), {_NEED + dataflow.encode(): _encode(seconds)})
                row.needs[dataflow] = seconds

    def _give(self, topic: str, now: Retention, row: _TopicRow) -> None:
        change = change_of(now, row.raised, row.needs.values())
        if change is None:
            return
        if change.raised is not None:
            # First what it had: an agent that ends here has altered nothing.
            noted = {_BEFORE: _encode(change.raised)}
            if not self._rows.check_and_put(_row(topic), _BEFORE, row.written, noted):
                return  # another agent is at it
        try:
            if change.retention != now:
                self._topics.retain(topic, change.retention)
        except RetentionRefused as error:
            self._refuse(topic, str(error), change.retention.seconds)
            if change.raised is not None:
                self._rows.delete(_row(topic), (_BEFORE,))
            return
        self._refused.pop(topic, None)
        self._known[topic] = change.retention.seconds
        if change.raised is None:
            self._rows.delete(_row(topic), (_BEFORE,))
        log.info(
            "retention follows what runs need",
            topic=topic,
            hours=round(change.retention.seconds / 3600, 1),
            dataflows=sorted(row.needs),
        )

    def _refuse(self, topic: str, reason: str, seconds: float) -> None:
        if self._refused.get(topic) != reason:
            self._refused[topic] = reason
            log.warning(
                "retention cannot follow what runs need",
                topic=topic,
                reason=reason,
                consequence="a next run may be shown the whole container",
                cure=f"raise its retention.ms to {round(seconds * 1000)}, or run the action",
            )


def _row(topic: str) -> bytes:
    return _PREFIX + topic.encode()


def _readable(topic: str, column: bytes, value: bytes, kind: type[T]) -> T | None:
    """Return what a cell holds; None, as where there is no cell, if it is nothing of the kind."""
    try:
        return read_cell(value, kind)
    except UnreadableCell as error:
        log.warning(
            "a cell is not counted", topic=topic, cell=repr(column)[2:-1], reason=str(error)
        )
        return None
