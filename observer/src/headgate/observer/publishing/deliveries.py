"""From messages to acknowledgements, in the order of each partition.

A lane hands its messages to the producer in order. When one fails, the lane stops, waits until the
fate of all that it handed over is known, and hands over what failed again, in order, before
anything newer.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final, Protocol

import structlog
from msgspec import Struct

from headgate.events import VERSION, Gap, TableChange, UpdateBatch, decode_update, encode_update
from headgate.observer.publishing.batches import MESSAGE_BYTES, smaller

_log = structlog.get_logger("headgate.observer.publishing.deliveries")

_RETRY_SECONDS: Final = 0.5
_NAMED: Final = 100  # intents that one line of the log may name
_REASON_CHARACTERS: Final = 500  # of what Kafka says, in a gap
_PATIENCE: Final = 3
"""Refusals of a message that is alone, before a gap takes its place."""
_TRIED_AGAIN: Final = 1000
"""Messages of a topic that takes only small ones, after which larger ones are tried again."""


class FailureKind(Enum):
    """What a failed delivery asks for."""

    TOO_LARGE = auto()
    """The message must become smaller."""
    TOPIC = auto()
    """The topic or the partition is not there."""
    FATAL = auto()
    """The producer must be made anew."""
    REFUSED = auto()
    """The broker does not take the message, or another that was sent with it."""
    EARLY = auto()
    """The broker finds the message's time too far ahead of its clock: it takes it later."""
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
    __slots__ = ("closing", "done", "dropped", "failure", "intents", "refusals", "sole", "value")

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
        self.dropped = False
        """Nobody wants it any more, though the producer may still have it."""
        self.refusals = 0
        """How often the broker refused it while nothing was sent with it."""
        self.failure: DeliveryFailure | None = None


UNKNOWN: Final = sys.maxsize
"""Bytes of a message up to which a topic was not seen to refuse any."""


class Sizes:
    """How large the messages of one topic may be, as far as the broker's refusals have shown."""

    __slots__ = ("alone", "most", "taken")

    def __init__(self) -> None:
        self.most = UNKNOWN
        """Bytes of a message that are not known to be too many."""
        self.alone = False
        """True while messages go one by one, because several sent together were too large."""
        self.taken = 0
        """Messages that were taken since a refusal."""

    def refuse(self, size: int) -> None:
        """Learn that a message of the size, which was sent alone, is too large."""
        self.most = min(self.most, size // 2)
        self.taken = 0

    def take(self) -> None:
        """Learn that a message was taken; after many, larger ones are tried: see the topic."""
        self.taken += 1
        if self.taken >= _TRIED_AGAIN:
            self.taken = 0
            self.alone = self.most < MESSAGE_BYTES // 2
            self.most = 2 * self.most if self.alone else UNKNOWN


class Lane:
    """One partition's messages: handed over in order, kept until they are acknowledged."""

    __slots__ = (
        "acknowledged",
        "alone",
        "crowded",
        "open",
        "partition",
        "queue",
        "refusal",
        "sent",
        "sequence",
        "sizes",
        "stopped",
        "table",
        "topic",
        "waiting_bytes",
    )

    def __init__(self, table: str, topic: str, partition: int, sizes: Sizes | None = None) -> None:
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
        """The broker refused a message: they go one by one until all are there."""
        self.sizes = Sizes() if sizes is None else sizes
        """Those of the topic: all its lanes share them."""
        self.acknowledged = 0
        """Messages that Kafka has acknowledged."""
        self.waiting_bytes = 0
        """Bytes of those that it has not."""
        self.refusal = ""
        """Why the last delivery failed; empty once one succeeds."""


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
        self._token = 0
        self._open_parts: dict[int, int] = {}
        # By intent: messages that are not acknowledged, and entries that are not yet messages.
        self.undelivered = 0
        """Messages that Kafka has not acknowledged."""
        self.published = 0
        """Messages that Kafka has acknowledged."""
        self.failures = 0
        """Deliveries that failed and were or will be repeated."""

    def begin_epoch(self, epoch: int) -> None:
        """Publish under another epoch from now on."""
        self._epoch = epoch

    def queue_sole(self, lane: Lane, value: bytes, intents: Sequence[int]) -> None:
        """Do as ``queue`` for intents that nothing else is about; they must not be open."""
        lane.queue.append(_Outgoing(value, intents, sole=True))
        lane.waiting_bytes += len(value)
        self.undelivered += 1

    def queue(
        self, lane: Lane, value: bytes, intents: Sequence[int], *, closing: bool = False
    ) -> None:
        """Put a message that is about the intents at a lane's end; ``hand_over`` sends it."""
        lane.queue.append(_Outgoing(value, intents, closing=closing))
        lane.waiting_bytes += len(value)
        self.undelivered += 1
        open_parts = self._open_parts
        for intent in intents:
            open_parts[intent] = open_parts.get(intent, 0) + 1

    def new_token(self) -> int:
        """Return a number that stands for messages in the place of an intent: it is negative."""
        self._token -= 1
        return self._token

    def is_open(self, intent: int) -> bool:
        """Return whether a message about an intent, or for a token, is not acknowledged."""
        return intent in self._open_parts

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
            if intent >= 0:
                self._settle((intent,))

    def hand_over(self, lane: Lane) -> None:
        """Give the producer what waits in a lane, as far as it may go now."""
        queue, sizes = lane.queue, lane.sizes
        while queue and not lane.stopped and not lane.crowded:
            outgoing = queue[0]
            if len(outgoing.value) > sizes.most:
                queue.popleft()
                queue.extendleft(reversed(self._fitting(lane, outgoing)))
                outgoing = queue[0]
            if lane.open and (lane.alone or sizes.alone or outgoing.closing):
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
        if outgoing.dropped:
            pass
        elif failure is None:
            outgoing.done = True
            self.undelivered -= 1
            lane.acknowledged += 1
            lane.waiting_bytes -= len(outgoing.value)
            lane.refusal = ""
            if lane.sizes.alone:
                lane.sizes.take()
            if outgoing.sole:
                self._settle(outgoing.intents)
            else:
                for intent in outgoing.intents:
                    self.close(intent)
            self.published += 1
        else:
            outgoing.failure = failure
            self.failures += 1
            lane.refusal = failure.text
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
            if not lane.open:
                self._prepare_replay(lane)
        elif lane.queue:
            self.hand_over(lane)
        elif lane.alone and not sent:
            lane.alone = False

    def _prepare_replay(self, lane: Lane) -> None:
        """Put what failed back in front; publish a gap where order could not be kept."""
        replayed = [outgoing for outgoing in lane.sent if not outgoing.done]
        overtaken = len(replayed) != len(lane.sent)
        kinds = {each.failure.kind for each in replayed if each.failure is not None}
        alone = lane.alone or lane.sizes.alone
        repeats: list[_Outgoing] = []
        for outgoing in replayed:
            failure, outgoing.failure = outgoing.failure, None
            if failure is None or not alone:
                repeats.append(outgoing)
            elif failure.kind is FailureKind.TOO_LARGE:
                repeats += self._divided(lane, outgoing)
            elif failure.kind is FailureKind.REFUSED:
                repeats += self._after_refusal(lane, outgoing, failure.text)
            else:
                repeats.append(outgoing)
        if FailureKind.TOO_LARGE in kinds and not alone:
            # It may have been several that the client sent as one: then none of them is at fault.
            lane.sizes.alone = True
            _log.warning(
                "Kafka finds messages too large; raise max.message.bytes of the topic to 1 MB",
                topic=lane.topic,
            )
        elif kinds & {FailureKind.REFUSED, FailureKind.EARLY}:
            # One that is refused fails all that were sent with it.
            lane.alone = True
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
            outgoing = _Outgoing(encode_update(gap), ())
            repeats.append(outgoing)
            lane.waiting_bytes += len(outgoing.value)
            self.undelivered += 1
        lane.queue.extendleft(reversed(repeats))
        if FailureKind.TOPIC in kinds:
            self._ensure(lane.table, lane.topic)
        # What is too large was refused for good: waiting mends nothing.
        delay = 0.0 if kinds == {FailureKind.TOO_LARGE} else _RETRY_SECONDS
        self._later(delay, lambda: self._resume(lane))

    def _resume(self, lane: Lane) -> None:
        lane.stopped = False
        self.hand_over(lane)

    def _fitting(self, lane: Lane, outgoing: _Outgoing) -> list[_Outgoing]:
        """Return what is sent in the place of a message that is known to be too large."""
        fitting: list[_Outgoing] = []
        left = [outgoing]
        while left:
            each = left.pop()
            parts = self._smaller(lane, each) if len(each.value) > lane.sizes.most else []
            if len(parts) > 1:
                left.extend(reversed(parts))
            else:
                fitting.append(each)
        return fitting

    def _divided(self, lane: Lane, outgoing: _Outgoing) -> list[_Outgoing]:
        """Return what is sent in the place of a message that the broker found too large."""
        found = self._smaller(lane, outgoing, cells=True)
        if len(found) > 1:
            lane.sizes.refuse(len(outgoing.value))
        return found

    def _smaller(self, lane: Lane, outgoing: _Outgoing, *, cells: bool = False) -> list[_Outgoing]:
        """Return messages that say the same in less, in the place of one.

        One that is about a single cell stays as it is, unless ``cells`` is set: what the broker has
        not refused may fit.
        """
        message = decode_update(outgoing.value)
        if not isinstance(message, UpdateBatch) or (len(message.rows) == 1 and not cells):
            return [outgoing]
        found = [
            _Outgoing(encode_update(each), [part.intent for part in parts])
            for each, parts in smaller(message, lane.table)
        ]
        self._take_place(lane, outgoing, found)
        return found

    def _after_refusal(self, lane: Lane, outgoing: _Outgoing, reason: str) -> list[_Outgoing]:
        """Return what follows a message that the broker refused though it was sent alone.

        That is the message; after some refusals it is a gap, so that those behind it are heard of.
        """
        outgoing.refusals += 1
        message = decode_update(outgoing.value)
        if outgoing.refusals < _PATIENCE or not isinstance(message, UpdateBatch):
            return [outgoing]
        _log.error(
            "Kafka refuses a message for good: a gap is announced in its place",
            topic=lane.topic,
            partition=lane.partition,
            table=lane.table,
            intents=list(outgoing.intents[:_NAMED]),
            reason=reason,
        )
        gap = Gap(
            VERSION,
            message.observer,
            message.epoch,
            message.sequence,
            lane.table,
            *_period([outgoing]),
            f"Kafka refused a message: {reason}"[:_REASON_CHARACTERS],
        )
        found = [_Outgoing(encode_update(gap), list(outgoing.intents))]
        self._take_place(lane, outgoing, found)
        return found

    def _take_place(self, lane: Lane, outgoing: _Outgoing, found: Sequence[_Outgoing]) -> None:
        """Have messages settle the intents of the one in whose place they are sent."""
        # A recovered message has a token: its requests are of another epoch.
        if not outgoing.intents or outgoing.intents[0] < 0:
            for each in found:
                each.intents = outgoing.intents
        self.undelivered += len(found) - 1
        lane.waiting_bytes += sum(len(each.value) for each in found) - len(outgoing.value)
        for each in found:
            for intent in each.intents:
                self.open(intent)
        if not outgoing.sole:
            for intent in outgoing.intents:
                self.close(intent)

    def discard(self, lane: Lane) -> list[float]:
        """Drop a lane's messages that Kafka has not acknowledged.

        Returns when their requests came (Unix seconds). Their sequences are not used again, so that
        readers see the loss.
        """
        dropped = [each for each in (*lane.sent, *lane.queue) if not each.done]
        lane.sent.clear()
        lane.queue.clear()
        lane.waiting_bytes = 0
        for outgoing in dropped:
            outgoing.dropped = True
            self.undelivered -= 1
            if outgoing.sole:
                self._settle(outgoing.intents)
            else:
                for intent in outgoing.intents:
                    self.close(intent)
        return [time for outgoing in dropped for time in _times(outgoing)]


def _times(outgoing: _Outgoing) -> list[float]:
    """Return when the requests in a message came."""
    message = decode_update(outgoing.value)
    if isinstance(message, UpdateBatch):
        return [part.received for part in message.requests]
    return [message.received] if isinstance(message, TableChange) else []


def _period(messages: Iterable[_Outgoing]) -> tuple[float, float]:
    """Return when the oldest and the newest request in the messages came; zeros without any."""
    times = [time for outgoing in messages for time in _times(outgoing)]
    return min(times, default=0.0), max(times, default=0.0)
