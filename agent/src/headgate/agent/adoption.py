"""Which dataflows run here: taken over when they are this agent's, held by leases, handed on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from headgate.agent.broker import KafkaBroker
from headgate.agent.errors import AgentError, DamagedState, Fenced, Held, Refused, Unreachable
from headgate.agent.hosting import Hosted
from headgate.agent.runtime import Runtime
from headgate.agent.sealed import Definition, Owner, RowState
from headgate.agent.store import Listing, Listings, Ownership, StateStore
from headgate.events import FLOWS_TOPIC, partition_of
from headgate.flows import Dataflow, DataflowErrors, parse_dataflow

log = structlog.get_logger("headgate.agent")

_AGAIN = 1.0  # seconds until a dataflow that could not start is tried again
_LEASE = "lease"  # in metrics and the log: that of a dataflow is nobody's
_POLL = 0.1  # seconds a thread may take to notice that it shall stop


class AdoptionSettings(Struct, frozen=True):
    """What an adoption works with; the lease is in seconds."""

    store: StateStore
    broker: KafkaBroker
    group: str
    owner: Owner
    lease: float
    build: Callable[[Hosted, Ownership, Dataflow], Runtime]
    """Makes the runtime of a dataflow, on its thread."""
    ended: Callable[[str], None]
    """Told the name of each dataflow that has ended here, on its thread."""


class Doubts:
    """What of the state table is not believed; each is logged once for as long as it stands."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def found(self, listings: Listings) -> None:
        """Note what is not believed now."""
        now = {(row.name, row.state.value): row.words for row in listings.set_aside}
        now |= {(f.definition.name, _LEASE): f.doubt for f in listings.flows if f.doubt}
        for (name, state), words in now.items():
            if self._known.get((name, state)) != words:
                log.warning("set aside", dataflow=name, state=state, reason=words)
        self._known = now

    def counts(self) -> dict[str, int]:
        """Return how much that is, by the kind of doubt; all kinds are named."""
        found = Counter(state for _, state in self._known)
        return {state: found[state] for state in (*RowState, _LEASE)}


class Adoption:
    """Takes dataflows over and keeps their leases, from threads of its own.

    Args:
        settings: what it works with.
        halting: ends the renewal of leases, and whatever waits for HBase.
    """

    def __init__(self, settings: AdoptionSettings, halting: threading.Event) -> None:
        self._settings = settings
        self._store = settings.store
        self._halting = halting
        self._stopping = threading.Event()
        self._hosted: dict[str, Hosted] = {}
        self._epochs: dict[str, int] = {}
        self._removing: set[str] = set()
        self._standing_by: dict[str, Held] = {}
        self._doubts = Doubts()
        self._broken: dict[str, tuple[int, str]] = {}
        self._assigned: set[int] = set()
        self._lock = threading.RLock()
        self._look = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch_flows, name="flows", daemon=True),
            threading.Thread(target=self._adopt_flows, name="adopt", daemon=True),
            threading.Thread(target=self._renew_leases, name="leases", daemon=True),
        ]

    def start(self) -> None:
        """Begin to take dataflows over."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> None:
        """Take no more and end what runs here; steps under way have so long. Does not wait."""
        with self._lock:
            self._stopping.set()
        self._look.set()
        for flow in self.flows():
            flow.stop(seconds)

    def join(self) -> None:
        """Wait until no dataflow runs here any more."""
        for flow in self.flows():
            flow.join()

    def close(self) -> None:
        """Wait for the threads; ``halting`` is set by now."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def look(self) -> None:
        """Look for dataflows to take over now rather than a moment later."""
        self._look.set()

    def hosted(self, name: str) -> Hosted | None:
        """Return the dataflow if it runs here."""
        with self._lock:
            flow = self._hosted.get(name)
        return flow if flow is not None and flow.alive else None

    def flows(self) -> tuple[Hosted, ...]:
        """Return the dataflows that run here."""
        with self._lock:
            return tuple(self._hosted.values())

    def set_aside(self) -> dict[str, int]:
        """Return how many rows of the state table are not believed, by why."""
        return self._doubts.counts()

    def broken(self, definition: Definition) -> str | None:
        """Say why a definition cannot run here; None where nothing is known against it."""
        revision, words = self._broken.get(definition.name, (-1, ""))
        return words if revision == definition.revision else None

    def remove(self, flow: Hosted) -> None:
        """End a dataflow that runs here and delete it from the store.

        Raises:
            Refused: it has just ended here.
        """
        with self._lock:
            epoch = self._epochs.get(flow.name)
            if epoch is None:
                raise Refused(f"dataflow {flow.name} does not run here")
            self._removing.add(flow.name)
        try:
            flow.stop(0.0, save=False)
            flow.join()
            self._store.remove(flow.name, epoch)
        finally:
            with self._lock:
                self._removing.discard(flow.name)

    def _watch_flows(self) -> None:
        """Be a member of the group: it says which partitions' dataflows this agent may take."""
        consumer = self._settings.broker.group(self._settings.group)

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            with self._lock:
                self._assigned |= {p.partition for p in partitions}
            self._look.set()

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            # What runs here stays here while this agent lives: moving it would cost a warm session.
            with self._lock:
                self._assigned -= {p.partition for p in partitions}

        try:
            consumer.subscribe(
                [FLOWS_TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked
            )
            while not self._stopping.is_set():
                message = consumer.poll(_POLL)
                if message is None:
                    continue
                if message.error() is not None:
                    log.warning("flows topic", problem=str(message.error()))
                else:
                    self._look.set()
        finally:
            consumer.close()

    def _adopt_flows(self) -> None:
        """Take over dataflows that are this agent's to take and that nobody else runs."""
        while not self._stopping.is_set():
            self._look.wait(self._settings.lease / 3)
            self._look.clear()
            if self._stopping.is_set():
                return
            try:
                listings = self._store.listings()
            except AgentError as error:
                log.warning("dataflows not looked through", reason=str(error))
                continue
            self._doubts.found(listings)
            for listing in listings.flows:
                if self._mine(listing.definition):
                    self._try(listing)

    def _try(self, listing: Listing) -> None:
        try:
            self._adopt(listing)
        except DamagedState as error:
            self._broken[listing.definition.name] = (listing.definition.revision, str(error))
            log.warning("not taken", dataflow=listing.definition.name, reason=str(error))
        except AgentError as error:
            log.warning("not taken", dataflow=listing.definition.name, reason=str(error))

    def _mine(self, definition: Definition) -> bool:
        name = definition.name
        broken = self._broken.get(name)
        with self._lock:
            return (
                partition_of(name.encode(), self._settings.broker.flow_partitions) in self._assigned
                and name not in self._hosted
                and name not in self._removing
                and (broken is None or broken[0] != definition.revision)
            )

    def _adopt(self, listing: Listing) -> None:
        name = listing.definition.name
        try:
            ownership = self._store.acquire(
                name, self._settings.owner, time.time(), self._settings.lease
            )
        except Held as held:
            if name not in self._standing_by:
                log.info(
                    "standing by",
                    dataflow=name,
                    owner=held.owner,
                    owner_address=held.address,
                    seconds=round(held.until - time.time(), 1),
                )
            self._standing_by[name] = held
            return
        held_before = self._standing_by.pop(name, None)
        log.info(
            "taken over" if held_before else "taken",
            dataflow=name,
            epoch=ownership.epoch,
            former=held_before.owner if held_before else None,
        )
        try:
            definition = ownership.definition
            dataflow = parse_dataflow(definition.source, name, definition.profile, name)
        except DataflowErrors as error:
            self._broken[name] = (ownership.definition.revision, f"its definition: {error}")
            self._store.release(name, ownership.epoch)
            return
        flow = Hosted(
            name,
            lambda hosted: self._settings.build(hosted, ownership, dataflow),
            lambda hosted, error: self._flow_ended(hosted, error, definition.revision),
        )
        with self._lock:
            begins = not self._stopping.is_set()
            if begins:
                self._epochs[name] = ownership.epoch
                self._hosted[name] = flow
                flow.begin()
        if not begins:
            self._store.release(name, ownership.epoch)

    def _flow_ended(self, flow: Hosted, error: Exception | None, revision: int) -> None:
        """Give up what has ended; ``revision`` is that of the definition with which it began."""
        self._settings.ended(flow.name)
        if isinstance(error, DamagedState):
            self._broken[flow.name] = (revision, str(error))
        with self._lock:
            epoch = self._epochs.get(flow.name)
            if self._hosted.get(flow.name) is flow:
                del self._hosted[flow.name]
                self._epochs.pop(flow.name, None)
        if error is not None and not isinstance(error, AgentError):
            # The same would happen again at once; a new submit is a new attempt.
            self._broken[flow.name] = (revision, f"{type(error).__name__}: {error}")
        elif error is not None and not isinstance(error, DamagedState):
            # Kafka or HBase was away: look again soon, not at once.
            again = threading.Timer(_AGAIN, self._look.set)
            again.daemon = True
            again.start()
        if epoch is None or isinstance(error, Fenced) or not flow.saves:
            return
        try:
            self._store.release(flow.name, epoch)
        except AgentError as problem:
            log.warning("lease not released", dataflow=flow.name, reason=str(problem))

    def _renew_leases(self) -> None:
        while not self._halting.wait(self._settings.lease / 3):
            with self._lock:
                owned = dict(self._epochs)
            for name, epoch in owned.items():
                until = time.time() + self._settings.lease
                try:
                    self._store.renew(name, epoch, self._settings.owner, until)
                except Fenced as error:
                    flow = self.hosted(name)
                    if flow is not None:
                        log.warning("taken over", dataflow=name, reason=str(error))
                        flow.stop(0.0, save=False)
                except Unreachable as error:
                    log.warning("lease not renewed", dataflow=name, reason=str(error))
