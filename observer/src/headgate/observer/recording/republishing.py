"""What earlier epochs of the observer left in its journal: published, and said to have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import structlog

from headgate.events import table_of, updates_topic
from headgate.observer.config import ObserverConfig
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite
from headgate.observer.publishing.kafka import KafkaUnavailable
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.epochs import OpenEpoch
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recovery import UnreadableIntent, recovered
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
        fits: Callable[[str], bool],
        topics: Callable[[], Collection[str]],
        deadline: float,
    ) -> None:
        """Publish nothing yet.

        ``watched`` returns the tables of all watch lists, ``fits`` whether a table is watched
        by pattern, and ``topics`` returns the topics that are there: it blocks, and may raise
        ``KafkaUnavailable``. Until ``deadline`` (the loop's time) Kafka has to have taken
        everything.
        """
        self._config = config
        self._journal = journal
        self._publisher = publisher
        self._watched = watched
        self._fits = fits
        self._topics = topics
        self._there: Collection[str] | None = None
        """The topics, once they were asked for."""
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
        for intent in open_epoch.intents:
            found = recovered(intent)
            if isinstance(found, UnreadableIntent):
                if not await self._is_wanted(found.table, found.received):
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
                if await self._is_wanted(table, ended.received):
                    await self._republish_one(table, open_epoch.epoch, ended)
        if open_epoch.damage:
            await self._announce_damage(open_epoch, now)
        for table, since in open_epoch.gaps.items():
            if not await self._is_wanted(table, since):
                continue
            self._publisher.announce_gap(
                table,
                since=since,
                until=now,
                reason="the journal was full and its policy is to pass",
            )
        while not self._publisher.idle:
            await self._pause()

    async def _is_wanted(self, table: str, since: float) -> bool:
        """Return whether what came for a table then is to be published now.

        What nobody watches nobody waits for: it was journalled while the control topic was lost,
        perhaps under a name that a client invented. So may a name be that only fits a pattern: as
        long as it has no topic nobody reads of it, and its first sure write brings a gap.
        """
        if table in self._watched():
            return True
        if not self._fits(table):
            return False
        if updates_topic(table) in await self._topics_there():
            return True
        self._publisher.doubt(table, since)
        return False

    async def _topics_there(self) -> Collection[str]:
        while self._there is None:
            try:
                self._there = await self._loop.run_in_executor(None, self._topics)
            except KafkaUnavailable as error:
                _log.warning("topics could not be looked at", reason=str(error))
                await self._pause()
        return self._there

    async def _announce_damage(self, open_epoch: OpenEpoch, now: float) -> None:
        """Announce lost requests for each table that may be meant: which it was is lost too."""
        _log.error(
            "the journal is damaged: watched tables must be read again",
            epoch=open_epoch.epoch,
            damage=open_epoch.damage,
            journal=self._config.journal.directory,
        )
        times = [intent.received for intent in open_epoch.intents]
        since = min(times, default=now)
        tables = dict.fromkeys(self._watched())
        for topic in await self._topics_there():
            table = table_of(topic)
            if table is not None and self._fits(table):
                tables[table] = None
        for table in tables:
            self._publisher.announce_gap(
                table,
                since=since,
                until=now,
                reason=f"the journal is damaged: {open_epoch.damage}"[:_REASON_CHARACTERS],
            )
        # Others that fit a pattern are not known by name yet.
        self._publisher.doubt_others(since)

    async def _republish_one(
        self, table: str, epoch: int, ended: EndedWrite | EndedSchemaChange
    ) -> None:
        while not self._publisher.is_ready(table):
            await self._pause()
        if isinstance(ended, EndedWrite):
            self._publisher.recover(table, epoch, [ended])
        else:
            self._publisher.recover_schema_change(table, epoch, ended)

    async def _pause(self) -> None:
        if self._loop.time() > self._deadline:
            raise StartError(
                f"Kafka at {self._config.kafka.bootstrap} did not take what the journal "
                f"{self._config.journal.directory} holds of earlier epochs within "
                f"{self._config.start_seconds:g} s; look at the broker's log"
            )
        await asyncio.sleep(_DELIVERY_SECONDS)
