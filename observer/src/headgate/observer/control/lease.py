"""The observer's lease: renewed on the control topic, and heard there, for as long as it lives."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from headgate.events import VERSION, ControlMessage, ObserverLease
from headgate.observer.config import ObserverConfig
from headgate.observer.control.namesakes import Namesakes
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.starting import StartError

_log = structlog.get_logger("headgate.observer.control.lease")

_TEND_SECONDS: Final = 0.1
_PART_BYTES: Final = 512 * 1024
"""Bytes that the topics of one message may take: Kafka takes 1,000,000 for all of it."""
_NUMBER_BYTES: Final = 9  # of a number in msgpack, at most
_PARTS_EACH: Final = 20
"""Leases, of which each says all parts again: they are read at an observer's start."""
_UNMARKED: Final = 1000  # tables in a lease whose notify columns are not set
_REMEMBERED: Final = 100  # leases: an older one that is heard at last says nothing of now
_DOUBT_SECONDS: Final = (
    1.0  # after a pause what was said meanwhile is heard at once: that is no loss
)


# A monotonic clock that also counts while the host sleeps, where there is one.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    """Return the time that leases are measured by, in seconds: it passes whatever is stopped."""
    return time.clock_gettime(_CLOCK)


def divided(sequences: Mapping[str, tuple[int, ...]]) -> list[dict[str, tuple[int, ...]]]:
    """Divide sequences by topic so that each part, of which there is at least one, is a message."""
    parts: list[dict[str, tuple[int, ...]]] = [{}]
    size = 0
    for topic, each in sequences.items():
        size += len(topic) + _NUMBER_BYTES * (len(each) + 1)
        if size > _PART_BYTES and parts[-1]:
            parts.append({})
            size = len(topic) + _NUMBER_BYTES * (len(each) + 1)
        parts[-1][topic] = each
    return parts


class LeaseRenewer:
    """Renews one epoch's lease from ``begin`` to ``end``, whatever the observer does meanwhile.

    Who does not hear its own lease takes the control topic for lost. Agents give the observer up
    some time after they have heard a lease, which is after it was said; so what was heard up to it
    is good for as long from when it was said.
    """

    def __init__(
        self,
        config: ObserverConfig,
        epoch: int,
        *,
        say: Callable[[ControlMessage], None],
        control: ControlState,
        notify: NotifyColumns,
        publisher: Publisher,
        admin: Callable[[], str],
        reads: Callable[[], dict[str, dict[str, int]]],
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        fail: Callable[[Exception], None],
    ) -> None:
        """Say nothing yet.

        ``admin`` returns the observer's admin address, ``reads`` what was read of watched tables
        (see ``ObserverLease``); ``clock`` is the control state's, ``later`` runs a call after so
        many seconds, and ``fail`` ends the observer over an error.
        """
        self._config = config
        self._epoch = epoch
        self._say = say
        self._control = control
        self._notify = notify
        self._publisher = publisher
        self._admin = admin
        self._reads = reads
        self._clock = clock
        self._later = later
        self._fail = fail
        self._incarnation = uuid.uuid4().hex
        self.namesakes = Namesakes(config.name, self._incarnation, epoch, clock)
        self._said: dict[int, float] = {}
        """When leases were said that were not heard yet, by number."""
        self._number = 0
        self._said_parts: dict[int, dict[str, int]] = {}
        """Number of partitions of each topic, by part of the lease, as it was said last."""
        self._said_at = 0.0
        self._kept = False
        self._lost_at: float | None = None
        """When the topic was taken for lost; None while it is heard, or somebody else did."""
        self._loss_logged = False
        self._said_unmarked: tuple[str, ...] = ()
        self._spread: dict[str, int] = {}
        """By topic: over how many partitions the observer's last epoch that had it wrote."""
        self.came_back = asyncio.Event()
        """Set once the lease was heard on the control topic."""

    def reconfigure(self, config: ObserverConfig) -> None:
        """Let the lease have another length from now on."""
        self._config = config

    @property
    def begun(self) -> bool:
        """Whether the epoch was announced to anybody."""
        return bool(self._said_at)

    async def claim(self, begin_above: Callable[[int], int]) -> None:
        """Begin above all epochs that were heard of the name, and be alone with it.

        ``begin_above`` begins another epoch, above the one given, and returns it. All that was said
        before the start must have been heard. This waits for the end of a lease whose process may
        be alive.

        Raises:
            StartError: another observer of the name lives.
        """
        heard = self.namesakes.highest
        if heard >= self._epoch:
            self._epoch = begin_above(heard)
            self._publisher.begin_epoch(self._epoch)
            _log.warning(
                "a higher epoch of this observer was heard: was its journal lost, or is the clock "
                "behind? It begins above that",
                epoch=self._epoch,
                heard=heard,
            )
        self.namesakes.look_out()
        while self.namesakes.may_live():
            self.namesakes.refuse()
            await asyncio.sleep(_TEND_SECONDS)

    def begin(self) -> None:
        """Say for the first time that the observer lives; what was said before must be heard."""
        self._publisher.spread_before(self._spread)
        self._renew()
        self._control.trusted_until = self._said_at + self._config.lease_seconds
        self._kept = True
        self._later(_TEND_SECONDS, self._keep)

    def end(self) -> None:
        """Say that nothing of the epoch comes any more."""
        self.leave()
        first, *_ = divided(self._publisher.tables.sequences())
        self._say(self._now(first, ended=True))

    def leave(self) -> None:
        """Renew the lease no more: who waits for its end without a word has to reconcile."""
        self._kept = False

    def _keep(self) -> None:
        if self._kept:
            self.tend()
            self._later(_TEND_SECONDS, self._keep)

    def _renew(self) -> None:
        self._number += 1
        self._said_at = self._said[self._number] = self._clock()
        self._said.pop(self._number - _REMEMBERED, None)
        sequences = self._publisher.tables.sequences()
        first, *others = divided(sequences)
        self._say_parts(others)
        self._say(self._now(first))

    def _say_parts(self, parts: Sequence[dict[str, tuple[int, ...]]]) -> None:
        """Say which topics have no room in the lease: when these change, and from time to time."""
        for number, part in enumerate(parts, start=1):
            spread = {topic: len(each) for topic, each in part.items()}
            if self._number % _PARTS_EACH and self._said_parts.get(number) == spread:
                continue
            self._said_parts[number] = spread
            name, seconds = self._config.name, self._config.lease_seconds
            self._say(
                ObserverLease(
                    VERSION,
                    name,
                    self._epoch,
                    seconds,
                    part,
                    part=number,
                    incarnation=self._incarnation,
                )
            )

    def end_of(self, epoch: int) -> None:
        """Say that nothing of an earlier epoch comes any more."""
        seconds, own = self._config.lease_seconds, self._incarnation
        self._say(
            ObserverLease(
                VERSION, self._config.name, epoch, seconds, {}, ended=True, incarnation=own
            )
        )

    def _now(self, sequences: dict[str, tuple[int, ...]], *, ended: bool = False) -> ObserverLease:
        self._said_unmarked = self._notify.stopped
        return ObserverLease(
            VERSION,
            self._config.name,
            self._epoch,
            self._config.lease_seconds,
            sequences,
            self._admin(),
            ended,
            self._said_unmarked[:_UNMARKED],
            self._reads(),
            self._number,
            incarnation=self._incarnation,
        )

    def hear(self, message: ObserverLease, left: float) -> None:
        """Take note of a lease on the control topic, should it be of this name.

        ``left`` is for how many seconds it still lasts.
        """
        if message.observer != self._config.name:
            return
        if message.epoch != self._epoch:
            self._spread |= {topic: len(each) for topic, each in message.sequences.items()}
        if message.incarnation != self._incarnation:
            self.namesakes.hear(message, left)
            return
        if message.epoch != self._epoch:
            return
        said_at = self._said.get(message.number)
        if said_at is None:
            return
        self._said = {each: at for each, at in self._said.items() if each > message.number}
        self._control.trusted_until = said_at + message.seconds
        self.came_back.set()
        if self._control.everything and self._clock() <= self._control.trusted_until:
            self._control.found()
            self._lost_at = None
            if self._loss_logged:
                self._loss_logged = False
                _log.info("the control topic is back")
        self._publisher.forget_unwanted()

    def tend(self) -> None:
        """Renew the lease in time, and see whether it is still heard, and alone."""
        lease, now = self._config.lease_seconds, self._clock()
        if self.namesakes.yields(self._epoch):
            self.leave()
            self._fail(StartError(self.namesakes.living()))
            return
        if now - self._said_at >= lease / 3 or self._said_unmarked != self._notify.stopped:
            self._renew()
        if now > self._control.trusted_until and not self._control.everything:
            self._control.lost()
            self._lost_at = now
        elif (
            self._lost_at is not None
            and not self._loss_logged
            and now - self._lost_at >= _DOUBT_SECONDS
        ):
            self._loss_logged = True
            _log.error(
                "the control topic is lost: every table is treated as watched until it is back",
                topic=self._config.kafka.control_topic,
            )
