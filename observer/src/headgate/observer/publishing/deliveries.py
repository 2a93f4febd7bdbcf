"""From messages to acknowledgements, in the order of each partition.

A lane hands its messages to the producer in order. When one fails, the lane stops, waits until the
fate of all that it handed over is known, and hands over what failed again, in order, before
anything newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final, Protocol

import structlog
from msgspec import Struct

from headgate.events import VERSION, Gap, UpdateBatch, decode_update, encode_update
from headgate.observer.publishing.batches import smaller

_log = structlog.get_logger("headgate.observer.publishing.deliveries")

_RETRY_SECONDS: Final = 0.5
_NAMED: Final = 100  # intents that one line of the log may name


class FailureKind(Enum):
    """What a failed delivery asks for."""

    TOO_LARGE = auto()
    """The message must become smaller."""
    TOPIC = auto()
    """The topic or the partition is not there."""
    FATAL = auto()
    """The producer must be made anew."""
    OTHER = auto()


class DeliveryFailure(Struct, frozen=True):
    """Why a message was not delivered."""

    kind: FailureKind
    text: str


Done = Callable[[DeliveryFailure | None], None]


class Producer(Protocol):
    """The seam to Kafka."""

    def send(self, topic: str, partition: int, value: bytes, done: Done) -> bool:
        """Take a message to be delivered; return whether there was room for it."""

    def restart(self) -> None:
        """Give up everything that was sent (each ``done`` is called with a failure); begin anew."""


class _Outgoing:
    __slots__ = ("closing", "done", "failure", "intents", "sole", "value")

    def __init__(
        self, value: bytes, intents: Sequence[int], *, closing: bool = False, sole: bool = False
    ) -> None:
        self.value = value
        self.intents = intents
        self.closing = closing
        """Nothing handed over earlier may come after it: it waits until all of that is there."""
        self.sole = sole
        """Nothing else is about its intents: they were not opened, and end with it."""
        self.done = False
        self.failure: DeliveryFailure | None = None


class Lane:
    """One partition's messages: handed over in order, kept until they are acknowledged."""

    __slots__ = (
        "alone",
        "crowded",
        "open",
        "partition",
        "queue",
        "sent",
        "sequence",
        "stopped",
        "table",
        "topic",
    )

    def __init__(self, table: str, topic: str, partition: int) -> None:
        self.table = table
        self.topic = topic
        self.partition = partition
        self.sequence = 0
        self.queue: deque[_Outgoing] = deque()
        self.sent: deque[_Outgoing] = deque()
        self.open = 0
        """Number of messages handed over whose fate is not known."""
        self.stopped = False
        """A delivery failed; nothing newer is handed over before it is repeated."""
        self.crowded = False
        """The producer had no room; it is asked again in a while."""
        self.alone = False
        """The broker found something too large: messages go one by one, never several together."""


class OrderedDelivery:
    """Hands messages over, again where that failed, and settles intents whose messages are there.

    It owns no clock and no thread: ``later(seconds, call)`` schedules, ``ensure(table, topic)``
    asks for a topic that has gone.
    """

    def __init__(
        self,
        *,
        observer: str,
        epoch: int,
        producer: Producer,
        settle: Callable[[Sequence[int]], None],
        ensure: Callable[[str, str], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Connect to the producer; ``settle(intents)`` is called once nothing of them is open."""
        self._observer = observer
        self._epoch = epoch
        self._producer = producer
        self._settle = settle
        self._ensure = ensure
        self._later = later
        self._open_parts: dict[int, int] = {}
        # By intent: messages that are not acknowledged, and entries that are not yet messages.
        self.undelivered = 0
        """Messages that Kafka has not acknowledged."""
        self.published = 0
        """Messages that Kafka has acknowledged."""
        self.failures = 0
        """Deliveries that failed and were or will be repeated."""

    def queue_sole(self, lane: Lane, value: bytes, intents: Sequence[int]) -> None:
        """Do as ``queue`` for intents that nothing else is about; they must not be open."""
        lane.queue.append(_Outgoing(value, intents, sole=True))
        self.undelivered += 1

    def queue(
        self, lane: Lane, value: bytes, intents: Sequence[int], *, closing: bool = False
    ) -> None:
        """Put a message that is about the intents at a lane's end; ``hand_over`` sends it."""
        lane.queue.append(_Outgoing(value, intents, closing=closing))
        self.undelivered += 1
        open_parts = self._open_parts
        for intent in intents:
            open_parts[intent] = open_parts.get(intent, 0) + 1

    def open(self, intent: int) -> None:
        """Keep an intent from being settled until ``close``."""
        self._open_parts[intent] = self._open_parts.get(intent, 0) + 1

    def close(self, intent: int) -> None:
        """Settle an intent, unless something else of it is open."""
        left = self._open_parts[intent] - 1
        if left:
            self._open_parts[intent] = left
        else:
            del self._open_parts[intent]
            self._settle((intent,))

    def hand_over(self, lane: Lane) -> None:
        """Give the producer what waits in a lane, as far as it may go now."""
        queue = lane.queue
        while queue and not lane.stopped and not lane.crowded:
            outgoing = queue[0]
            if lane.open and (lane.alone or outgoing.closing):
                return

            def done(
                failure: DeliveryFailure | None, lane: Lane = lane, outgoing: _Outgoing = outgoing
            ) -> None:
                self._known(lane, outgoing, failure)

            queue.popleft()
            lane.sent.append(outgoing)
            lane.open += 1
            if not self._producer.send(lane.topic, lane.partition, outgoing.value, done):
                lane.open -= 1
                lane.sent.pop()
                queue.appendleft(outgoing)
                lane.crowded = True
                self._later(_RETRY_SECONDS, lambda: self._retry(lane))

    def _retry(self, lane: Lane) -> None:
        lane.crowded = False
        self.hand_over(lane)

    def _known(self, lane: Lane, outgoing: _Outgoing, failure: DeliveryFailure | None) -> None:
        lane.open -= 1
        if failure is None:
            outgoing.done = True
            self.undelivered -= 1
            if outgoing.sole:
                self._settle(outgoing.intents)
            else:
                for intent in outgoing.intents:
                    self.close(intent)
            self.published += 1
        else:
            outgoing.failure = failure
            self.failures += 1
            # Everything that is under way fails with it, for one reason.
            if not lane.stopped:
                _log.warning(
                    "delivery failed; the partition is replayed in order",
                    topic=lane.topic,
                    partition=lane.partition,
                    epoch=self._epoch,
                    intents=list(outgoing.intents[:_NAMED]),
                    reason=failure.text,
                )
            lane.stopped = True
            if failure.kind is FailureKind.FATAL:
                self._producer.restart()
        sent = lane.sent
        while sent and sent[0].done:
            sent.popleft()
        if lane.stopped:
            if not lane.open and sent:
                self._prepare_replay(lane)
        elif lane.queue:
            self.hand_over(lane)

    def _prepare_replay(self, lane: Lane) -> None:
        """Put what failed back in front; publish a gap where order could not be kept."""
        replayed = [outgoing for outgoing in lane.sent if not outgoing.done]
        overtaken = len(replayed) != len(lane.sent)
        wait_for_topic = too_large = False
        repeats: list[_Outgoing] = []
        for outgoing in replayed:
            failure = outgoing.failure
            outgoing.failure = None
            wait_for_topic |= failure is not None and failure.kind is FailureKind.TOPIC
            if failure is not None and failure.kind is FailureKind.TOO_LARGE:
                too_large = True
                if lane.alone:
                    repeats += self._divided(lane, outgoing)
                    continue
            repeats.append(outgoing)
        if too_large and not lane.alone:
            # It may have been several that the client sent as one: then none of them is at fault.
            lane.alone = True
            _log.warning(
                "Kafka finds messages too large; raise max.message.bytes of the topic to 1 MB",
                topic=lane.topic,
            )
        lane.sent.clear()
        if overtaken:
            # A reader may take the repeats for duplicates, since newer watermarks came before them.
            # It has to know before the next mark; a sequence seen before is no loss to it.
            gap = Gap(
                VERSION,
                self._observer,
                self._epoch,
                decode_update(replayed[-1].value).sequence,
                lane.table,
                *_period(replayed),
                "messages were delivered out of order after a failure of Kafka",
            )
            repeats.append(_Outgoing(encode_update(gap), ()))
            self.undelivered += 1
        lane.queue.extendleft(reversed(repeats))
        if wait_for_topic:
            self._ensure(lane.table, lane.topic)
        self._later(_RETRY_SECONDS, lambda: self._resume(lane))

    def _resume(self, lane: Lane) -> None:
        lane.stopped = False
        self.hand_over(lane)

    def _divided(self, lane: Lane, outgoing: _Outgoing) -> list[_Outgoing]:
        """Return what is sent in the place of a message that is too large for the broker."""
        message = decode_update(outgoing.value)
        if not isinstance(message, UpdateBatch):
            return [outgoing]
        found = [
            _Outgoing(encode_update(each), [part.intent for part in parts])
            for each, parts in smaller(message, lane.table)
        ]
        # A recovered message settles nothing.
        if not outgoing.intents:
            for each in found:
                each.intents = ()
        self.undelivered += len(found) - 1
        for each in found:
            for intent in each.intents:
                self.open(intent)
        if not outgoing.sole:
            for intent in outgoing.intents:
                self.close(intent)
        return found


def _period(messages: Iterable[_Outgoing]) -> tuple[float, float]:
    """Return when the oldest and the newest request in the messages came; zeros without any."""
    times = [0.0]
    for outgoing in messages:
        message = decode_update(outgoing.value)
        if isinstance(message, UpdateBatch):
            times += [part.received for part in message.requests]
    return min(times[1:], default=0.0), max(times)
