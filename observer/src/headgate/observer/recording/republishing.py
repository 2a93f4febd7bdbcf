"""What earlier epochs of the observer left in its journal: published, and said to have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import structlog

from headgate.observer.config import ObserverConfig
from headgate.observer.publishing.ended import EndedDefinition, EndedWrite
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.epochs import OpenEpoch
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Unreadable, recovered
from headgate.observer.starting import StartError

_log = structlog.get_logger("headgate.observer.recording.republishing")

_DELIVERY_SECONDS = 0.004  # how soon an acknowledgement of Kafka's is looked at
_REASON_CHARACTERS = 500  # of what is wrong with a journal


class EarlierEpochs:
    """Epochs that ended without having published everything; gone once that is made up for."""

    def __init__(
        self,
        config: ObserverConfig,
        *,
        journal: Journal,
        publisher: Publisher,
        watched: Callable[[], Collection[str]],
        deadline: float,
    ) -> None:
        """Publish nothing yet.

        ``watched`` returns the tables of all watch lists; until ``deadline`` (the loop's time)
        Kafka has to have taken everything.
        """
        self._config = config
        self._journal = journal
        self._publisher = publisher
        self._watched = watched
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._published: list[int] = []

    async def publish(self) -> None:
        """Publish what they left.

        Raises:
            StartError: Kafka did not take it in time.
        """
        for open_epoch in self._journal.open_epochs():
            if open_epoch.intents or open_epoch.gaps:
                _log.warning(
                    "an earlier epoch ended without publishing everything",
                    epoch=open_epoch.epoch,
                    requests=len(open_epoch.intents),
                )
            await self._republish(open_epoch)
            self._published.append(open_epoch.epoch)

    async def end(self, say: Callable[[int], None], undelivered: Callable[[], int]) -> None:
        """Say of each epoch that nothing of it can still come, and forget them.

        ``undelivered`` returns how much of what was said Kafka has not acknowledged.

        Raises:
            StartError: Kafka did not take it in time.
        """
        for epoch in self._published:
            say(epoch)
        while undelivered():
            await self._pause()
        for epoch in self._published:
            self._journal.forget_epoch(epoch)

    async def _republish(self, open_epoch: OpenEpoch) -> None:
        now = time.time()
        watched = self._watched()
        for intent in open_epoch.intents:
            found = recovered(intent)
            if isinstance(found, Unreadable):
                if found.table not in watched:
                    continue
                _log.error(
                    "a journalled request is unreadable",
                    epoch=open_epoch.epoch,
                    intent=found.intent,
                    table=found.table,
                    reason=found.reason,
                )
                self._publisher.announce_gap(
                    found.table,
                    since=found.received,
                    until=now,
                    reason=f"a journalled request could not be decoded: {found.reason}",
                )
                continue
            for table, ended in found:
                # What nobody watches nobody waits for: it was journalled while the control topic
                # was lost, perhaps under a name that a client invented.
                if table in watched:
                    await self._republish_one(table, open_epoch.epoch, ended)
        if open_epoch.damage:
            self._announce_damage(open_epoch, now)
        for table, since in open_epoch.gaps.items():
            if table not in watched:
                continue
            self._publisher.announce_gap(
                table,
                since=since,
                until=now,
                reason="the journal was full and its policy is to pass",
            )
        while not self._publisher.idle:
            await self._pause()

    def _announce_damage(self, open_epoch: OpenEpoch, now: float) -> None:
        """Tell of each table that may be meant that requests are lost: which it was is lost too."""
        _log.error(
            "the journal is damaged: watched tables must be read again",
            epoch=open_epoch.epoch,
            damage=open_epoch.damage,
            journal=self._config.journal.directory,
        )
        times = [intent.received for intent in open_epoch.intents]
        for table in self._watched():
            self._publisher.announce_gap(
                table,
                since=min(times, default=now),
                until=now,
                reason=f"the journal is damaged: {open_epoch.damage}"[:_REASON_CHARACTERS],
            )

    async def _republish_one(
        self, table: str, epoch: int, ended: EndedWrite | EndedDefinition
    ) -> None:
        while not self._publisher.is_ready(table):
            await self._pause()
        if isinstance(ended, EndedWrite):
            self._publisher.recover(table, epoch, [ended])
        else:
            self._publisher.recover_definition(table, epoch, ended)

    async def _pause(self) -> None:
        if self._loop.time() > self._deadline:
            raise StartError(
                f"Kafka at {self._config.kafka.bootstrap} did not take what the journal "
                f"{self._config.journal.directory} holds of earlier epochs within "
                f"{self._config.start_seconds:g} s; look at the broker's log"
            )
        await asyncio.sleep(_DELIVERY_SECONDS)
