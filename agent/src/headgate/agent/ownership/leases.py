"""Which dataflows run here: taken over when they are this agent's, held by leases, handed on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog
from confluent_kafka import Consumer, TopicPartition
from msgspec import Struct

from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.errors import AgentError, DamagedState, Fenced, Held, Refused, Unreachable
from headgate.agent.kafka.broker import KafkaBroker
from headgate.agent.ownership.dataflow_pool import DataflowPool
from headgate.agent.ownership.entrance import Presence
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.takeovers import Takeovers
from headgate.agent.state.sealed import Definition, Owner, RowState
from headgate.agent.state.store import Listing, Listings, Ownership, StateStore
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.events import FLOWS_TOPIC
from headgate.flows import Dataflow, DataflowErrors, parse_dataflow

log = structlog.get_logger("headgate.agent")

_LEASE = "lease"  # in metrics and the log: that of a dataflow is nobody's
_POLL = 0.1  # seconds a thread may take to notice that it shall stop


class LeaseSettings(Struct, frozen=True):
    """What leases are kept with; the lease is in seconds."""

    store: StateStore
    broker: KafkaBroker
    group: str
    owner: Owner
    lease: float
    build: Callable[[HostedDataflow, Ownership, Dataflow], Runtime]
    """Makes the runtime of a dataflow, on its first turn."""
    refusal: Callable[[Dataflow, Definition], str | None]
    """Returns why a dataflow may not run here, in words."""
    ended: Callable[[str], None]
    """Called with the name of each dataflow that has ended here, on its last turn."""
    threads: int
    """Most threads that carry dataflows."""
    supervision: Supervision
    presence: Presence | None = None
    """Where the agent has a name that another could have, too."""


class Doubts:
    """Rows of the state table that are not believed; each is logged once for as long as it stands.

    A removal and an update take two steps, and a look between these finds an outdated row. So an
    outdated row is doubted when a second look finds it too.
    """

    def __init__(self) -> None:
        self._passing: dict[tuple[str, str], str] = {}
        self._known: dict[tuple[str, str], str] = {}

    def found(self, listings: Listings) -> None:
        """Note what is not believed now."""
        now = {(row.name, row.state.value): row.words for row in listings.set_aside}
        before, self._passing = (
            self._passing,
            {key: words for key, words in now.items() if key[1] == RowState.OUTDATED.value},
        )
        for key, words in self._passing.items():
            if before.get(key) != words:
                del now[key]
        now |= {(f.definition.name, _LEASE): f.doubt for f in listings.flows if f.doubt}
        for (name, state), words in now.items():
            if self._known.get((name, state)) != words:
                log.warning("set aside", dataflow=name, state=state, reason=words)
        self._known = now

    def counts(self) -> dict[str, int]:
        """Return how much that is, by the kind of doubt; all kinds are named."""
        found = Counter(state for _, state in self._known)
        return {state: found[state] for state in (*RowState, _LEASE)}


class LeaseManager:
    """Takes dataflows over and keeps their leases, from threads of its own.

    Args:
        settings: what it works with.
        halting: ends the renewal of leases, and whatever waits for HBase.
    """

    def __init__(self, settings: LeaseSettings, halting: threading.Event) -> None:
        self._settings = settings
        self._store = settings.store
        self._halting = halting
        self._stopping = threading.Event()
        self._hosted: dict[str, HostedDataflow] = {}
        self._epochs: dict[str, int] = {}
        self._removing: set[str] = set()
        self._doubts = Doubts()
        self._takeovers = Takeovers()
        self._lock = threading.RLock()
        self._look = threading.Event()
        self._pool = DataflowPool(settings.threads, settings.supervision)
        keep = settings.supervision.thread
        self._threads = [
            keep(ThreadKind.GROUP, "group", self._watch_flows, self._stopping),
            keep(ThreadKind.ADOPT, "adopt", self._adopt_flows, self._stopping),
            keep(ThreadKind.LEASES, "leases", self._renew_leases, halting),
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

    def join(self, seconds: float | None = None) -> bool:
        """Wait until no dataflow runs here, for so long at most; return whether none does."""
        deadline = None if seconds is None else time.monotonic() + seconds
        for flow in self.flows():
            flow.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return not any(flow.alive for flow in self.flows())

    def close(self) -> None:
        """Wait for the threads, and renew no lease any more; ``halting`` is set by now."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._pool.close()
        try:
            self._store.end_beat(self._settings.owner)
        except AgentError as error:
            log.info("beat not deleted", reason=str(error))

    def look(self) -> None:
        """Look for dataflows to take over now rather than a moment later."""
        self._look.set()

    def hosted(self, name: str) -> HostedDataflow | None:
        """Return the dataflow if it runs here."""
        with self._lock:
            flow = self._hosted.get(name)
        return flow if flow is not None and flow.alive else None

    def flows(self) -> tuple[HostedDataflow, ...]:
        """Return the dataflows that run here."""
        with self._lock:
            return tuple(self._hosted.values())

    def set_aside(self) -> dict[str, int]:
        """Return how many rows of the state table are not believed, by why."""
        return self._doubts.counts()

    def broken(self, definition: Definition) -> str | None:
        """Say why a definition does not run here; None where nothing is known against it."""
        if self.hosted(definition.name) is not None:
            return None
        return self._takeovers.words_against(definition)

    def broken_count(self) -> int:
        """Return how many dataflows this agent could not go on with, and nobody has changed."""
        with self._lock:
            return self._takeovers.broken(self._hosted)

    def remove(self, flow: HostedDataflow) -> None:
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
                self._takeovers.assign(p.partition for p in partitions)
            self._look.set()

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            # What runs here stays here while this agent lives: moving it would cost a warm session.
            with self._lock:
                self._takeovers.revoke(p.partition for p in partitions)

        with self._lock:
            self._takeovers.revoke_all()
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
            patience = self._takeovers.patience(time.monotonic(), self._settings.lease / 3)
            self._look.wait(patience)
            self._look.clear()
            if self._stopping.is_set():
                return
            try:
                listings = self._store.listings()
            except AgentError as error:
                log.warning("dataflows not looked through", reason=str(error))
                continue
            self._look_at_own(listings)
            self._doubts.found(listings)
            self._takeovers.forget(listings, self._settings.owner)
            for listing in listings.flows:
                if self._mine(listing.definition):
                    self._try(listing)

    def _try(self, listing: Listing) -> None:
        name, revision = listing.definition.name, listing.definition.revision
        try:
            self._adopt(listing)
        except DamagedState as error:
            self._takeovers.refuse(name, revision, str(error))
            log.warning("not taken", dataflow=name, reason=str(error))
        except AgentError as error:
            log.warning("not taken", dataflow=name, reason=str(error))
        except Exception as error:  # noqa: BLE001 the other dataflows are looked at all the same
            self._settings.supervision.failed(ThreadKind.ADOPT, name, error)
            self._takeovers.fail(name, revision, error, time.monotonic())

    def _mine(self, definition: Definition) -> bool:
        partitions = self._settings.broker.flow_partitions
        with self._lock:
            return (
                definition.name not in self._hosted
                and definition.name not in self._removing
                and self._takeovers.is_due(definition, partitions, time.monotonic())
            )

    def _adopt(self, listing: Listing) -> None:
        name = listing.definition.name
        try:
            ownership = self._store.acquire(
                name, self._settings.owner, time.time(), self._settings.lease
            )
        except Held as held:
            if self._takeovers.stand_by(name, held):
                log.info(
                    "standing by",
                    dataflow=name,
                    owner=held.owner,
                    owner_address=held.address,
                    seconds=round(held.until - time.time(), 1),
                )
            return
        held_before = self._takeovers.taken(name)
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
            self._takeovers.refuse(name, definition.revision, f"its definition: {error}")
            self._store.release(name, ownership.epoch)
            return
        refused = self._settings.refusal(dataflow, definition)
        if refused is not None:
            # It was saved by another agent, or by this one under other settings.
            self._takeovers.refuse(name, definition.revision, f"it may not run here: {refused}")
            self._store.release(name, ownership.epoch)
            return
        flow = HostedDataflow(
            name,
            definition.revision,
            self._pool,
            lambda hosted: self._settings.build(hosted, ownership, dataflow),
            lambda hosted, error: self._flow_ended(hosted, error, definition.revision),
        )
        with self._lock:
            begins = not self._stopping.is_set()
            if begins:
                self._epochs[name] = ownership.epoch
                self._hosted[name] = flow
                self._takeovers.begin(name, time.monotonic())
                flow.begin()
        if not begins:
            self._store.release(name, ownership.epoch)

    def _flow_ended(self, flow: HostedDataflow, error: BaseException | None, revision: int) -> None:
        """Give up what has ended; ``revision`` is that of the definition with which it began."""
        try:
            self._settings.ended(flow.name)
        except Exception as problem:  # noqa: BLE001 what follows must follow
            self._settings.supervision.failed(ThreadKind.FLOW, flow.name, problem)
        if isinstance(error, DamagedState):
            self._takeovers.refuse(flow.name, revision, str(error))
        elif error is not None and not isinstance(error, AgentError):
            self._settings.supervision.failed(ThreadKind.FLOW, flow.name, error)
            self._takeovers.fail(flow.name, flow.revision, error, time.monotonic())
        elif error is not None:
            self._takeovers.pause(flow.name, time.monotonic())
        self._release(flow, error)
        # The last of all: from here on it may be taken again.
        with self._lock:
            if self._hosted.get(flow.name) is flow:
                del self._hosted[flow.name]
        self._look.set()

    def _release(self, flow: HostedDataflow, error: BaseException | None) -> None:
        with self._lock:
            # Before it is released: a renewal afterwards would take it back.
            mine = self._hosted.get(flow.name) is flow
            epoch = self._epochs.pop(flow.name, None) if mine else None
        if epoch is None or isinstance(error, Fenced) or not flow.saves:
            return
        try:
            self._store.release(flow.name, epoch)
        except AgentError as problem:
            log.warning("lease not released", dataflow=flow.name, reason=str(problem))
        except Exception as problem:  # noqa: BLE001 it runs out by itself
            self._settings.supervision.failed(ThreadKind.FLOW, flow.name, problem)

    def _look_at_own(self, listings: Listings) -> None:
        """End dataflows that were taken over, and write leases again that are not as they were."""
        settings, found = self._settings, {one.definition.name: one for one in listings.flows}
        aside = {row.name for row in listings.set_aside}
        with self._lock:
            owned = dict(self._epochs)
        for name, epoch in owned.items():
            listing = found.get(name)
            if listing is None and name in aside:
                continue
            if listing is not None and self._store.stands(listing, settings.owner, epoch):
                continue
            try:
                self._store.renew(name, epoch, settings.owner, time.time(), settings.lease)
            except Fenced as error:
                self._fence(name, str(error))
            except Unreachable as error:
                log.warning("lease not renewed", dataflow=name, reason=str(error))

    def _fence(self, name: str, reason: str) -> None:
        flow = self.hosted(name)
        if flow is not None:
            log.warning("taken over", dataflow=name, reason=reason)
            flow.stop(0.0, save=False)

    def _renew_leases(self) -> None:
        while not self._halting.wait(self._settings.lease / 3):
            if self._settings.presence is not None:
                self._settings.presence.renew(time.time())
            try:
                self._store.beat(self._settings.owner, time.time())
            except Unreachable as error:
                log.warning("leases not renewed", reason=str(error))
