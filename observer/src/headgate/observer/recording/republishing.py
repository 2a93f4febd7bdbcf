"""Publication of what earlier epochs of the observer left in its journal, and of their ends.

Files are dealt with one by one: the requests of a file are published, Kafka acknowledges them, and
the file is deleted. Where Kafka answers but does not take the events of a table, that table's
requests are set aside. They are published when Kafka takes them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto
from typing import Final

import structlog

from headgate.events import table_of, updates_topic
from headgate.observer.config import ObserverConfig
from headgate.observer.publishing.ended import EndedWrite
from headgate.observer.publishing.kafka import KafkaUnavailable
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.publishing.recovered import RecoveredEvents
from headgate.observer.recording.epochs import EpochPart, OpenEpoch
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recovery import KnownPuts, UnreadableIntent, recovered
from headgate.observer.recording.segments import Intent
from headgate.observer.starting import StartError

_log = structlog.get_logger("headgate.observer.recording.republishing")

_DELIVERY_SECONDS: Final = 0.004  # how soon an acknowledgement of Kafka's is looked at
_REASON_CHARACTERS: Final = 500  # of what is wrong with a journal
_TURN: Final = 500
"""Requests that are read before others have a turn: some 5 ms."""
_UNDER_WAY: Final = 64
"""Messages that may wait for Kafka: with more of them a journal would be in memory as a whole."""
_PATIENCE_SECONDS: Final = 10.0
"""How long Kafka may take for the events of a table, if it answers other questions."""
_FINISH_SECONDS: Final = 2.0  # between looks at whether Kafka takes what was set aside
_PROGRESS_SECONDS: Final = 5.0  # between two lines of the log


class _Place(Enum):
    """Fate of a table's requests."""

    UNWANTED = auto()
    """They are left out."""
    READY = auto()
    """They are published."""
    STUCK = auto()
    """They are set aside."""


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
    ) -> None:
        """Publish nothing yet.

        ``watched`` returns the tables of all watch lists, ``fits`` whether a table is watched
        by pattern, and ``topics`` returns the topics that are there: it blocks, and may raise
        ``KafkaUnavailable``.
        """
        self._config = config
        self._journal = journal
        self._publisher = publisher
        self._watched = watched
        self._fits = fits
        self._topics = topics
        self._there: Collection[str] | None = None
        """The topics, once they were asked for."""
        self._loop = asyncio.get_running_loop()
        self._published: list[int] = []
        self._left: list[int] = []
        """Epochs of which something is set aside."""
        self._stuck: dict[str, int] = {}
        """Tables whose requests are set aside; how many of their messages Kafka had taken then."""
        self._puts = KnownPuts()
        self._requests = 0
        self._logged_at = self._loop.time()
        # Of the file that is being read:
        self._places: dict[str, _Place] = {}
        self._numbers: dict[str, list[int]] = {}
        """Numbers of the requests that were published, or are to be set aside, by table."""
        self._gaps: dict[str, float] = {}
        """Start of the announced gap, in Unix seconds, by table."""
        self._delivered: Callable[[str], bool] = lambda _table: True
        """Returns whether Kafka has what was published of a table."""

    async def publish(self) -> None:
        """Publish what they left, however long that takes while Kafka takes it.

        Raises:
            StartError: Kafka took nothing for ``start_seconds``.
        """
        for open_epoch in self._journal.open_epochs():
            if await self._republish(open_epoch):
                self._published.append(open_epoch.epoch)
            else:
                self._left.append(open_epoch.epoch)
        if self._requests:
            _log.warning("what earlier epochs left is published", requests=self._requests)

    async def end(self, say: Callable[[int], None], undelivered: Callable[[], int]) -> None:
        """Say of each epoch that nothing of it can still come, and forget them.

        ``undelivered`` returns how much of what was said Kafka has not acknowledged.

        Raises:
            StartError: Kafka did not take it in time.
        """
        for epoch in self._published:
            say(epoch)
        if not await self._wait(lambda: not undelivered(), ()):
            raise self._refused()
        for epoch in self._published:
            self._journal.forget_epoch(epoch)
        self._published.clear()

    async def finish(self, say: Callable[[int], None], undelivered: Callable[[], int]) -> None:
        """Publish what was set aside, as soon as Kafka takes it; return when nothing is left."""
        while self._left:
            await asyncio.sleep(_FINISH_SECONDS)
            free = [table for table in self._stuck if self._is_free(table)]
            if not free:
                continue
            for table in free:
                del self._stuck[table]
            try:
                await self._finish_some()
                await self.end(say, undelivered)
            except StartError as error:
                _log.warning("what was set aside is not published yet", reason=str(error))

    async def _finish_some(self) -> None:
        for open_epoch in self._journal.open_epochs():
            if open_epoch.epoch in self._left and await self._republish(open_epoch):
                self._left.remove(open_epoch.epoch)
                self._published.append(open_epoch.epoch)

    def _is_free(self, table: str) -> bool:
        """Return whether a table that was stuck may not be so any more."""
        if table not in self._watched() and not self._fits(table):
            return True
        tables = self._publisher.tables
        if not self._publisher.is_ready(table):
            return False
        return not tables.undelivered(table) or tables.acknowledged(table) > self._stuck[table]

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        return (
            f"publishing what earlier epochs left: {self._requests} requests so far, "
            f"{self._journal.size >> 20} MiB are left"
        )

    # -- one epoch

    async def _republish(self, open_epoch: OpenEpoch) -> bool:
        """Publish what an epoch left; return whether nothing of it is left."""
        events = self._publisher.recovering(open_epoch.epoch)
        self._delivered = events.is_delivered
        whole = True
        since = time.time()
        for part in open_epoch.parts():
            self._begin_part()
            for turn, intent in enumerate(part.intents()):
                if not turn:
                    self._log_beginning(open_epoch, part)
                if not turn % _TURN:
                    await self._let_others()
                since = min(since, intent.received)
                self._requests += 1
                if not self._publish_put(events, intent):
                    await self._take(events, intent)
            if part.damage:
                await self._announce_damage(events, open_epoch, part.damage, since)
            events.flush()
            await self._settle(open_epoch)
            numbers = {n for table in self._stuck for n in self._numbers.get(table, ())}
            kept = (each for each in part.intents() if each.number in numbers) if numbers else ()
            self._journal.forget_part(open_epoch, part, kept)
            whole = whole and not numbers
        self._begin_part()
        missing = open_epoch.missing_at_the_end
        if missing:
            await self._announce_damage(events, open_epoch, missing, since)
        for table, passed in tuple(open_epoch.gaps.items()):
            reason = "the journal was full and its policy is to pass"
            await self._announce(events, table, passed, reason)
        await self._settle(open_epoch)
        left = {table: at for table, at in open_epoch.gaps.items() if table in self._stuck}
        if left != open_epoch.gaps:
            open_epoch.keep_gaps(left)
        return whole and not left

    def _begin_part(self) -> None:
        self._places = {}
        self._numbers = {}
        self._gaps = {}

    def _log_beginning(self, open_epoch: OpenEpoch, part: EpochPart) -> None:
        if part.is_aside:
            return
        now = self._loop.time()
        if not self._requests or now - self._logged_at >= _PROGRESS_SECONDS:
            self._logged_at = now
            _log.warning(
                "an earlier epoch ended without publishing everything",
                epoch=open_epoch.epoch,
                requests=self._requests,
                left_bytes=self._journal.size,
            )

    def _publish_put(self, events: RecoveredEvents, intent: Intent) -> bool:
        """Publish a put that is like one before it, as most are; return whether it is one.

        Where nobody wants its table it is left out.
        """
        known = self._puts.find(intent)
        if known is None:
            return False
        pattern, cell = known
        table = pattern.tables[0]
        place = self._places.get(table)
        if place is _Place.UNWANTED:
            return True
        if place is not _Place.READY:
            return False
        number = intent.number
        if not events.add_put(
            table, number, pattern.name, intent.received, cell, pattern.timestamp
        ):
            return False
        self._note(table, number)
        return True

    async def _take(self, events: RecoveredEvents, intent: Intent) -> None:
        """Publish what a request may have done, or note that it is set aside."""
        found = recovered(intent)
        if isinstance(found, UnreadableIntent):
            await self._announce_unreadable(events, found)
            return
        self._puts.learn(intent)
        for table, ended in found:
            place = self._places.get(table) or await self._place_of(table, ended.received)
            if place is not _Place.UNWANTED:
                self._note(table, intent.number)
            if place is not _Place.READY:
                continue
            if isinstance(ended, EndedWrite):
                events.add(table, ended)
            else:
                events.add_schema_change(table, ended)

    def _note(self, table: str, number: int) -> None:
        numbers = self._numbers.get(table)
        if numbers is None:
            self._numbers[table] = [number]
        else:
            numbers.append(number)

    async def _place_of(self, table: str, since: float) -> _Place:
        """Return what becomes of a table's requests; its topic is there if they are published."""
        place = self._places.get(table)
        if place is None:
            place = _Place.READY
            if not await self._is_wanted(table, since):
                place = _Place.UNWANTED
            elif table in self._stuck:
                place = _Place.STUCK
            elif not await self._wait(lambda: self._publisher.is_ready(table), (table,)):
                self._give_up_on((table,))
                place = _Place.STUCK
            self._places[table] = place
        return place

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
        begun = self._loop.time()
        while self._there is None:
            try:
                self._there = await self._loop.run_in_executor(None, self._topics)
            except KafkaUnavailable as error:
                _log.warning("topics could not be looked at", reason=str(error))
                await self._pause(begun)
        return self._there

    # -- gaps

    async def _announce_unreadable(self, events: RecoveredEvents, found: UnreadableIntent) -> None:
        if await self._place_of(found.table, found.received) is _Place.UNWANTED:
            return
        _log.error(
            "a journalled request is unreadable",
            intent=found.intent,
            table=found.table,
            reason=found.reason,
        )
        self._note(found.table, found.intent)
        reason = f"a journalled request could not be decoded: {found.reason}"
        await self._announce(events, found.table, found.received, reason)

    async def _announce_damage(
        self, events: RecoveredEvents, open_epoch: OpenEpoch, damage: str, since: float
    ) -> None:
        """Announce lost requests for each table that may be meant: which it was is lost too."""
        _log.error(
            "the journal is damaged: watched tables must be read again",
            epoch=open_epoch.epoch,
            damage=damage,
            journal=self._config.journal.directory,
        )
        tables = dict.fromkeys(self._watched())
        for topic in await self._topics_there():
            table = table_of(topic)
            if table is not None and self._fits(table):
                tables[table] = None
        for table in tables:
            reason = f"the journal is damaged: {damage}"[:_REASON_CHARACTERS]
            await self._announce(events, table, since, reason)
        # Others that fit a pattern are not known by name yet.
        self._publisher.doubt_others(since)

    async def _announce(
        self, events: RecoveredEvents, table: str, since: float, reason: str
    ) -> None:
        """Announce a gap of a table, unless nobody wants it or it has to wait."""
        place = await self._place_of(table, since)
        if place is _Place.UNWANTED:
            return
        self._gaps[table] = min(since, self._gaps.get(table, since))
        if place is _Place.READY:
            self._numbers.setdefault(table, [])
            token = events.token(table)
            now = time.time()
            self._publisher.announce_gap(table, since=since, until=now, reason=reason, token=token)

    # -- Kafka

    async def _let_others(self) -> None:
        """Let others have a turn, and Kafka take what there is too much of."""
        tables = self._numbers.keys() - self._stuck.keys()
        if not await self._wait(lambda: self._under_way(tables) <= _UNDER_WAY, tables):
            self._give_up_on(tables)
        await asyncio.sleep(0)

    def _under_way(self, tables: Iterable[str]) -> int:
        return sum(self._publisher.tables.undelivered(table) for table in tables)

    async def _settle(self, open_epoch: OpenEpoch) -> None:
        """Return when Kafka has what was published; what it does not take is stuck from then on."""
        delivered = self._delivered
        tables = self._numbers.keys() - self._stuck.keys()
        if not await self._wait(lambda: all(map(delivered, tables)), tables):
            self._give_up_on(tables)
        known = open_epoch.gaps
        kept = {
            table: min(since, known.get(table, since))
            for table, since in self._gaps.items()
            if table in self._stuck
        }
        if not kept.items() <= known.items():
            # What was announced of them may never be sent.
            open_epoch.keep_gaps({**known, **kept})

    def _give_up_on(self, tables: Collection[str]) -> None:
        """Set aside from now on what belongs to those tables of which something waits."""
        for table in tables:
            if self._publisher.is_ready(table) and self._delivered(table):
                continue
            self._stuck[table] = self._publisher.tables.acknowledged(table)
            self._places[table] = _Place.STUCK
            _log.error(
                "Kafka does not take the events of a table: they are set aside",
                table=table,
                reason=self._publisher.tables.refusal(table),
            )

    async def _wait(self, over: Callable[[], bool], tables: Collection[str]) -> bool:
        """Return when a condition holds; False: Kafka answers, but takes nothing of the tables.

        Raises:
            StartError: Kafka takes nothing and answers nothing.
        """
        begun = self._loop.time()
        acknowledged = -1
        while not over():
            now = sum(self._publisher.tables.acknowledged(table) for table in tables)
            if now != acknowledged:
                acknowledged, begun = now, self._loop.time()
            elif self._loop.time() - begun >= self._patience and await self._kafka_answers():
                return over()
            await self._pause(begun)
        return True

    @property
    def _patience(self) -> float:
        return min(_PATIENCE_SECONDS, self._config.start_seconds)

    async def _kafka_answers(self) -> bool:
        try:
            await self._loop.run_in_executor(None, self._topics)
        except KafkaUnavailable as error:
            _log.warning("Kafka does not take what earlier epochs left", reason=str(error))
            return False
        return True

    async def _pause(self, begun: float) -> None:
        if self._loop.time() - begun > self._config.start_seconds:
            raise self._refused()
        await asyncio.sleep(_DELIVERY_SECONDS)

    def _refused(self) -> StartError:
        return StartError(
            f"Kafka at {self._config.kafka.bootstrap} did not take what the journal "
            f"{self._config.journal.directory} holds of earlier epochs: nothing for "
            f"{self._config.start_seconds:g} s; look at the broker's log"
        )
