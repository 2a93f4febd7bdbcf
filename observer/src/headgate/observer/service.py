"""The observer's service: starts, serves, answers the control topic, and ends without losing."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import structlog

from headgate.events import (
    VERSION,
    BarrierRequest,
    ControlMessage,
    Gate,
    MalformedMessage,
    ObserverLease,
    control_key,
    decode_control,
    encode_control,
)
from headgate.hbase import Dialect
from headgate.observer.access import Guard
from headgate.observer.acknowledgement import Acknowledgements
from headgate.observer.admin import AdminServer, Health
from headgate.observer.admission import Admission
from headgate.observer.barriers import Traffic, answer_barrier
from headgate.observer.config import Access, Acknowledge, Listener, ObserverConfig
from headgate.observer.config import Journal as JournalConfig
from headgate.observer.config import Limits as LimitsConfig
from headgate.observer.control import ControlState
from headgate.observer.credentials import Keyring
from headgate.observer.deliveries import Failure, FailureKind
from headgate.observer.dialing import Dialer, UpstreamsUnreachable
from headgate.observer.ended import EndedDefinition, EndedWrite
from headgate.observer.endpoint import Endpoint
from headgate.observer.epochs import OpenEpoch
from headgate.observer.formats import UpstreamFormats
from headgate.observer.gates import Gates
from headgate.observer.introduction import Introduction, encode_introduction
from headgate.observer.journal import Journal
from headgate.observer.kafka import ControlReader, KafkaProducer, KafkaUnavailable, Topics
from headgate.observer.metrics import Metrics
from headgate.observer.notify import NotifyColumns
from headgate.observer.probing import HealthChecker
from headgate.observer.publisher import Publisher
from headgate.observer.reconfiguration import Reconfiguration
from headgate.observer.recorder import Recorder, Unreadable, recovered
from headgate.observer.session import Session
from headgate.observer.sweeping import Sweeper
from headgate.observer.tls import TlsServer, listening_sockets
from headgate.observer.upstreams import UpstreamMetrics, UpstreamPool, UpstreamView
from headgate.settings import parse_address, set_log_level
from headgate.wire import Limits

_log = structlog.get_logger("headgate.observer")

_DELIVERY_SECONDS = 0.004  # how soon an acknowledgement of Kafka's is looked at
_TEND_SECONDS = 0.1
_RETRY_SECONDS = 2.0
_DRAIN_SECONDS = 0.05
_DRAIN_SHARE = 0.7  # of the time for a clean end: the rest is for delivering events
_COLLECTED_AFTER = (20_000, 50, 100)  # objects and generations: a tenth off a put's time
_DESCRIPTORS_PER_CLIENT = 2  # its connection and the one to HBase
_OWN_DESCRIPTORS = 100  # journal, Kafka, libraries
_CERTIFICATE_SECONDS = 5.0  # how soon new certificates on the disk are found
_BARRIER_SECONDS = 60.0  # agents ask again long before for what they still wait for
_REASON_CHARACTERS = 500  # of what is wrong with a journal
_LIVE_OF_LISTENERS = ("upstream", "upstream_transport", "upstream_protocol", "health")
_BACKLOG = 1024  # connections that the kernel holds until they are accepted


class StartError(RuntimeError):
    """The observer cannot begin to serve; the message says what is missing and where."""


class Addresses:
    """Where the observer can be reached; ``host:port`` each, empty where there is none."""

    def __init__(self) -> None:
        self.thrift1 = ""
        self.thrift2 = ""
        self.admin = ""

    def by_name(self) -> dict[str, str]:
        """Return those that there are, by name."""
        found = {"thrift1": self.thrift1, "thrift2": self.thrift2, "admin": self.admin}
        return {name: address for name, address in found.items() if address}

    def line(self) -> str:
        """Return the line that says that clients are accepted."""
        return " ".join(["ready", *(f"{name}={at}" for name, at in self.by_name().items())])


class Observer:
    """One observer process."""

    _reuse_port = False
    """Whether other processes listen on the same addresses."""

    def __init__(self, config: ObserverConfig) -> None:
        """Take the journal's directory; nothing is contacted yet.

        Raises:
            CredentialsError: certificates or keys cannot be used.
            JournalError: the directory cannot be used.
        """
        self._config = config
        self._state = "starting"
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._metrics = Metrics()
        self._keyring = Keyring(config)
        self._metrics.certificate_expiries = self._keyring.expiries
        self._notify = NotifyColumns(limit_bytes=config.limits.message_bytes)
        self._control = ControlState(self._notify)
        self._journal = Journal(
            Path(config.journal.directory),
            limit_bytes=config.journal.limit_bytes,
            segment_bytes=config.journal.segment_bytes,
            first_epoch=int(time.time()),
        )
        kafka = config.kafka
        self._producer = KafkaProducer(kafka.bootstrap, kafka.properties)
        self._topics = Topics(kafka.bootstrap, kafka.properties, replication=kafka.replication)
        self._publisher = Publisher(
            observer=config.name,
            epoch=self._journal.epoch,
            producer=self._producer,
            settle=self._journal.settle,
            unfinished=lambda table: self._recorder.lowest_unfinished(table),
            ensure=self._ensure_topic,
            later=self._loop.call_later,
            linger_seconds=0.0,  # the recorder has gathered already
        )
        self._recorder = Recorder(
            journal=self._journal,
            publisher=self._publisher,
            metrics=self._metrics,
            clock=time.time,
            soon=self._loop.call_soon,
            later=self._loop.call_later,
            gather_seconds=kafka.linger_seconds,
        )
        self._admission = Admission(self._journal, self._publisher, config.journal, clock=time.time)
        self._acknowledgements: Acknowledgements | None = None
        if kafka.acknowledge is Acknowledge.KAFKA:
            self._acknowledgements = Acknowledgements(
                seconds=kafka.acknowledge_seconds, clock=self._loop.time
            )
            self._journal.on_settled = self._acknowledgements.settled
        self._gates = Gates(hold_seconds=config.gates.hold_seconds, clock=time.time)
        self._admin = AdminServer(self._metrics.text, self.health, self.upstreams)
        self._reader = ControlReader(
            kafka.bootstrap,
            kafka.properties,
            kafka.control_topic,
            self._hear_from_thread,
        )
        self._caught_up = asyncio.Event()
        self._own_lease_heard = asyncio.Event()
        self._recovered = False
        self._early_barriers: list[BarrierRequest] = []
        self._heard_at = 0.0
        self._leased_at = 0.0
        self._said_unmarked: tuple[str, ...] = ()
        self._undelivered_control = 0
        self._dialers = {
            name: Dialer(
                self._loop,
                UpstreamPool(name, listener.upstreams, listener.health),
                config.connect_seconds,
                self._keyring.upstreams.get(name),
            )
            for name, listener in self._listeners()
        }
        self._formats = {
            name: UpstreamFormats(self._dialers[name], Dialect(name), listener)
            for name, listener in self._listeners()
        }
        self._endpoints: list[Endpoint] = []
        self._sweepers: list[Sweeper] = []
        self._servers: list[asyncio.Server | TlsServer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._restoring: asyncio.Task[None] | None = None
        self._failed: BaseException | None = None
        self.addresses = Addresses()
        self._loop.set_exception_handler(self._fail)
        self.reconfiguration = Reconfiguration(config)
        """Parts that can change live register here."""
        self._let_keys_change()
        self._describe()

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """End on an error that nobody expected: the journal has what must not be lost."""
        error = context.get("exception")
        if isinstance(error, OSError):
            _log.warning("connection error", reason=str(error))
            return
        failure = error if isinstance(error, BaseException) else RuntimeError(context["message"])
        _log.critical("unexpected error: ending", exc_info=failure)
        self._failed = failure
        self._stopping.set()

    def _describe(self) -> None:
        metrics = self._metrics
        metrics.register(UpstreamMetrics(each.pool for each in self._dialers.values()))
        journal, publisher, admission = self._journal, self._publisher, self._admission
        metrics.gauge(
            "serving", "1 while clients are served.", lambda: float(self._state == "serving")
        )
        metrics.gauge("journal_bytes", "Bytes of the journal on disk.", lambda: journal.size)
        metrics.gauge(
            "journal_limit_bytes",
            "Bytes that the journal may have.",
            lambda: self._config.journal.limit_bytes,
        )
        metrics.gauge(
            "journal_unsettled_requests",
            "Journalled requests whose events Kafka has not acknowledged.",
            lambda: journal.unsettled,
        )
        metrics.gauge(
            "journal_oldest_seconds",
            "Age of the oldest of them.",
            lambda: journal.oldest_age(time.time()),
        )
        metrics.gauge(
            "undelivered_messages",
            "Messages that Kafka has not acknowledged.",
            lambda: publisher.undelivered,
        )
        metrics.gauge(
            "undelivered_oldest_seconds",
            "For how long the oldest message that Kafka was sent waits for its acknowledgement.",
            self._producer.oldest_age,
        )
        metrics.histogram(
            "delivery_seconds",
            "From sending a message to Kafka to the acknowledgement of all replicas.",
            self._producer.delivery,
        )
        metrics.gauge(
            "tasks", "Tasks of the event loop.", lambda: len(asyncio.all_tasks(self._loop))
        )
        metrics.gauge(
            "control_topic_lost",
            "1 while the control topic cannot be read and every table is treated as watched.",
            lambda: float(self._control.everything),
        )
        metrics.gauge(
            "watched_tables", "Tables in watch lists.", lambda: len(self._control.watched)
        )
        metrics.counter(
            "messages", "Messages that Kafka acknowledged.", lambda: publisher.published
        )
        metrics.counter(
            "delivery_failures",
            "Deliveries to Kafka that failed and were repeated.",
            lambda: publisher.failures,
        )
        metrics.counter(
            "blocked_writes",
            "Writes refused because the journal had no room.",
            lambda: admission.blocked,
        )
        gates = self._gates
        metrics.gauge("gates_closed", "Gates that are closed.", lambda: gates.closed_gates)
        metrics.gauge("held_writes", "Writes that a gate holds now.", lambda: gates.held)
        metrics.counter("gate_closings", "How often a gate was closed.", lambda: gates.closings)
        metrics.counter(
            "refused_at_gates", "Writes that a gate held as long as allowed.", lambda: gates.refused
        )
        metrics.counter(
            "dropped_at_gates",
            "Writes whose client was gone while a gate held them.",
            lambda: gates.dropped,
        )
        notify = self._notify
        metrics.counter(
            "marked_writes", "Writes that were given notify cells.", lambda: notify.marked
        )
        metrics.counter(
            "unmarked_writes",
            "Writes that went on without the notify cells that their table asks for.",
            lambda: notify.unmarked,
        )
        metrics.gauge(
            "unmarked_tables",
            "Tables whose notify columns are asked for and not set.",
            lambda: len(notify.stopped),
        )
        metrics.histogram("held_seconds", "How long a gate held a write.", gates.held_seconds)
        metrics.counter(
            "passed_writes", "Writes that went by without events.", lambda: admission.passed
        )
        held = self._acknowledgements
        metrics.gauge(
            "writes_waiting_for_kafka",
            "Writes whose reply waits until Kafka has their events.",
            lambda: 0 if held is None else len(held),
        )
        metrics.counter(
            "unacknowledged_closes",
            "Connections closed because Kafka did not have a write's events in time.",
            lambda: 0 if held is None else held.expired,
        )

    def _let_keys_change(self) -> None:
        at = self.reconfiguration.at
        at("lease_seconds", "start_seconds", "shutdown_seconds", "kafka.partitions")
        at("log_level", prepare=lambda _old, new: lambda: set_log_level(new.log_level))
        at(
            "journal.limit_bytes",
            "journal.segment_bytes",
            "journal.fsync",
            "journal.fsync_seconds",
            "journal.when_full",
            "journal.block_seconds",
            prepare=lambda _old, new: lambda: self._change_journal(new.journal),
        )
        at(
            "limits",
            "connect_seconds",
            *(f"{name}.{key}" for name in self._dialers for key in _LIVE_OF_LISTENERS),
            prepare=lambda _old, new: lambda: self._change_listeners(new),
        )

        at(*self._keyring.live_keys(), prepare=self._keyring.prepare)
        at(
            "access",
            *(f"{name}.{key}" for name in self._dialers for key in ("origin", "networks")),
            prepare=lambda _old, new: lambda: self._change_access(new),
        )

    def _change_access(self, config: ObserverConfig) -> None:
        for endpoint in self._endpoints:
            listener = config.thrift1 if endpoint.dialect is Dialect.THRIFT1 else config.thrift2
            if listener is not None:
                endpoint.guard = self._guard(endpoint.name, listener, config.access)
            for session in list(endpoint.sessions):
                session.identify()

    def _change_journal(self, config: JournalConfig) -> None:
        self._journal.reconfigure(
            limit_bytes=config.limit_bytes, segment_bytes=config.segment_bytes
        )
        self._admission.reconfigure(config)

    def _change_listeners(self, config: ObserverConfig) -> None:
        for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2)):
            if listener is not None:
                self._dialers[name].connect_seconds = config.connect_seconds
                self._dialers[name].pool.reconfigure(listener.upstreams, listener.health)
                self._formats[name].reconfigure(listener)
        for endpoint, sweeper in zip(self._endpoints, self._sweepers, strict=True):
            endpoint.limits = _wire_limits(config.limits)
            endpoint.most_connections = config.limits.connections
            sweeper.limits = config.limits

    def reload(self, load: Callable[[], ObserverConfig]) -> None:
        """Change to the configuration that ``load`` returns, but for keys that need a restart."""
        config = self.reconfiguration.reload(load)
        if config is not None:
            self._config = config

    def health(self) -> Health:
        """Tell whether clients are served, and what is not as it should be."""
        reasons = [*self._admission.reasons, *self._gates.reasons]
        if self._control.everything:
            reasons.append("the control topic cannot be read: every table is treated as watched")
        if unmarked := self._notify.stopped:
            reasons.append(f"notify columns are not set in tables {', '.join(unmarked[:10])}")
        waiting = self._publisher.waiting_topics()
        for dialer in self._dialers.values():
            reasons.extend(dialer.pool.reasons)
        if waiting:
            reasons.append(f"topics are missing for tables {', '.join(sorted(waiting)[:10])}")
        return Health(self._state == "serving", self._state, tuple(reasons))

    def upstreams(self) -> dict[str, tuple[UpstreamView, ...]]:
        """Tell of each listener's upstreams."""
        return {name: dialer.pool.view() for name, dialer in self._dialers.items()}

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopping.set()

    # -- life

    async def run(self, ready: Callable[[Addresses], None]) -> None:
        """Serve until ``stop``; ``ready`` is called once clients are accepted.

        Raises:
            StartError: something needed at start did not come.
        """
        await self._open_admin()
        work = self._loop.create_task(self._serve(ready))
        stop = self._loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                work.cancel()
                await asyncio.wait({work})
            if self._failed is not None:
                raise self._failed
            await self._shut_down()
        finally:
            stop.cancel()
            await self._admin.close()
            self._reader.close()
            self._journal.close()

    async def _open_admin(self) -> None:
        host, port = parse_address(self._config.admin)
        try:
            host, port = await self._admin.start(host, port)
        except OSError as error:
            raise StartError(
                f"admin address {self._config.admin}: {error.strerror or error}; choose another"
            ) from error
        self.addresses.admin = f"{host}:{port}"

    def _tune_process(self) -> None:
        # What was made at start lives as long as the process, and requests leave few cycles.
        gc.freeze()
        gc.set_threshold(*_COLLECTED_AFTER)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        needed = _DESCRIPTORS_PER_CLIENT * self._config.limits.connections + _OWN_DESCRIPTORS
        if resource.RLIM_INFINITY != most < needed:
            _log.warning(
                "limits.connections cannot be reached: raise the limit of open files (ulimit -n)",
                open_files=most,
                needed=needed,
            )

    async def _serve(self, ready: Callable[[Addresses], None]) -> None:
        deadline = self._loop.time() + self._config.start_seconds
        await self._await_kafka(deadline)
        await self._await_upstreams(deadline)
        self._loop.call_later(_DELIVERY_SECONDS, self._look_at_deliveries)
        self._reader.start()
        await self._within(self._caught_up.wait(), deadline, "the control topic was not read")
        recovered_epochs = await self._recover(deadline)
        # First the new lease, then the end of the old ones: agents wait for this observer's marks
        # without a break, and no mark comes before what was recovered.
        self._send_lease()
        await self._within(
            self._own_lease_heard.wait(), deadline, "the observer's own lease did not come back"
        )
        await self._end_epochs(recovered_epochs, deadline)
        await self._listen()
        self._tune_process()
        self._state = "serving"
        self._loop.call_later(_TEND_SECONDS, self._tend)
        if self._keyring:
            self._tasks.add(self._loop.create_task(self._watch_certificates()))
        ready(self.addresses)
        _log.info(
            "serving",
            observer=self._config.name,
            epoch=self._journal.epoch,
            thrift1=self.addresses.thrift1,
            thrift2=self.addresses.thrift2,
            admin=self.addresses.admin,
        )
        await self._stopping.wait()

    async def _within(self, awaited: object, deadline: float, what: str) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await awaited  # type: ignore[misc]
        except TimeoutError as error:
            raise StartError(
                f"Kafka at {self._config.kafka.bootstrap}: {what} within "
                f"{self._config.start_seconds:g} s; look at the broker's log"
            ) from error

    async def _await_kafka(self, deadline: float) -> None:
        def find() -> None:
            self._topics.reach(_RETRY_SECONDS)
            self._make_control_topic()

        while True:
            try:
                await self._loop.run_in_executor(None, find)
            except KafkaUnavailable as error:
                _log.warning("waiting for Kafka", reason=str(error))
                if self._loop.time() + _RETRY_SECONDS > deadline:
                    raise StartError(
                        f"{error} (waited {self._config.start_seconds:g} s)"
                    ) from error
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _await_upstreams(self, deadline: float) -> None:
        for name, dialer in self._dialers.items():
            while True:
                try:
                    await dialer.reach()
                    break
                except UpstreamsUnreachable as error:
                    _log.warning("waiting for HBase", listener=name, reason=str(error))
                    if self._loop.time() + _RETRY_SECONDS > deadline:
                        raise StartError(
                            f"{error} (waited {self._config.start_seconds:g} s); does it run, "
                            f"and is [{name}] upstream right?"
                        ) from error
                    await asyncio.sleep(_RETRY_SECONDS)
            await self._ask_formats(name)

    async def _ask_formats(self, name: str) -> None:
        """Find out what the upstreams speak; those that cannot be asked now are asked later."""
        formats = self._formats[name]
        await formats.find_all()
        for upstream in self._dialers[name].pool.configured:
            problem = formats.misplaced(upstream)
            if problem:
                raise StartError(problem)

    def _check_upstreams(self) -> None:
        for name, dialer in self._dialers.items():
            checker = HealthChecker(dialer, self._formats[name], time.perf_counter)
            task = self._loop.create_task(checker.run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _listeners(self) -> list[tuple[str, Listener]]:
        found = (("thrift1", self._config.thrift1), ("thrift2", self._config.thrift2))
        return [(name, listener) for name, listener in found if listener is not None]

    async def _watch_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            await self._loop.run_in_executor(None, self._keyring.reload_changed)

    async def _listen(self) -> None:
        for name, listener in self._listeners():
            endpoint = Endpoint(
                loop=self._loop,
                dialect=Dialect(name),
                dialer=self._dialers[name],
                limits=_wire_limits(self._config.limits),
                control=self._control,
                recorder=self._recorder,
                admission=self._admission,
                gates=self._gates,
                acknowledgements=self._acknowledgements,
                notify=self._notify,
                metrics=self._metrics,
                guard=self._guard(name, listener, self._config.access),
                epoch=self._journal.epoch,
                introduction=encode_introduction(
                    Introduction(self._config.name, self._journal.epoch)
                ),
                formats=self._formats[name],
            )
            try:
                server = await self._open_listener(listener, endpoint)
            except OSError as error:
                raise StartError(
                    f"[{name}] listen = {listener.listen}: {error.strerror or error}; "
                    "choose another address"
                ) from error
            endpoint.most_connections = self._config.limits.connections
            self._endpoints.append(endpoint)
            self._sweepers.append(
                Sweeper(lambda at=endpoint: at.sessions, self._config.limits, self._metrics)  # type: ignore[misc]
            )
            self._servers.append(server)
            for listening in server.sockets:
                # Connections inherit it: one whose host has vanished does not stay for ever.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            taken = server.sockets[0].getsockname()
            setattr(self.addresses, name, f"{taken[0]}:{taken[1]}")
        self._check_upstreams()

    def _guard(self, name: str, listener: Listener, access: Access | None) -> Guard | None:
        if not Guard.needed(listener, access):
            return None
        return Guard(name, listener, access, metrics=self._metrics, clock=time.monotonic)

    async def _open_listener(
        self, listener: Listener, endpoint: Endpoint
    ) -> asyncio.Server | TlsServer:
        host, port = parse_address(listener.listen)
        if listener.tls is None:
            return await self._loop.create_server(
                lambda: Session(endpoint),
                host,
                port,
                backlog=_BACKLOG,
                reuse_port=self._reuse_port,
            )
        return TlsServer(
            await listening_sockets(self._loop, host, port, _BACKLOG, reuse_port=self._reuse_port),
            loop=self._loop,
            dialect=endpoint.dialect,
            credentials=self._keyring.clients[endpoint.name],
            handshake_seconds=listener.tls.handshake_seconds,
            protocol=lambda: Session(endpoint),
            admits=lambda host: endpoint.guard is None or endpoint.guard.admits(host),
            metrics=self._metrics,
        )

    async def _shut_down(self) -> None:
        self._state = "ending"
        _log.info("ending: no more clients are accepted")
        for server in self._servers:
            server.close()
        now, seconds = self._loop.time(), self._config.shutdown_seconds
        deadline = now + seconds
        drained_by = now + seconds * _DRAIN_SHARE
        while self._loop.time() < drained_by:
            open_sessions = [each for endpoint in self._endpoints for each in endpoint.sessions]
            if not open_sessions:
                break
            self._gates.tend()
            for session in open_sessions:
                session.drain()
            await asyncio.sleep(_DRAIN_SECONDS)
        for endpoint in self._endpoints:
            for session in list(endpoint.sessions):
                session.abort()
        while any(endpoint.sessions for endpoint in self._endpoints):
            await asyncio.sleep(_DRAIN_SECONDS)
        self._recorder.work()
        self._publisher.flush()
        while (
            not self._publisher.idle or self._admission.gaps_open
        ) and self._loop.time() < deadline:
            self._admission.tend()
            self._look_at_deliveries_once()
            await asyncio.sleep(_DELIVERY_SECONDS)
        self._look_at_deliveries_once()
        if not self._leased_at:
            return
        if self._publisher.idle and not self._admission.gaps_open:
            self._say(self._lease(ended=True))
            while self._undelivered_control and self._loop.time() < deadline:
                self._look_at_deliveries_once()
                await asyncio.sleep(_DELIVERY_SECONDS)
            _log.info("ended", observer=self._config.name, epoch=self._journal.epoch)
        else:
            _log.error(
                "ended with events that Kafka did not take; they are in the journal and are "
                "published at the next start",
                requests=self._journal.unsettled,
                journal=self._config.journal.directory,
            )

    # -- recovery

    async def _recover(self, deadline: float) -> list[int]:
        """Publish what earlier epochs left in the journal; return those epochs."""
        epochs = []
        for open_epoch in self._journal.open_epochs():
            if open_epoch.intents or open_epoch.gaps:
                _log.warning(
                    "an earlier epoch ended without publishing everything",
                    epoch=open_epoch.epoch,
                    requests=len(open_epoch.intents),
                )
            await self._republish(open_epoch, deadline)
            epochs.append(open_epoch.epoch)
        self._recovered = True
        for barrier in self._early_barriers:
            self._answer(barrier)
        return epochs

    async def _end_epochs(self, epochs: list[int], deadline: float) -> None:
        """Say that nothing of earlier epochs can still come, and forget them."""
        for epoch in epochs:
            seconds = self._config.lease_seconds
            self._say(ObserverLease(VERSION, self._config.name, epoch, seconds, {}, ended=True))
        while self._undelivered_control:
            await self._pause(deadline)
        for epoch in epochs:
            self._journal.forget_epoch(epoch)

    async def _republish(self, open_epoch: OpenEpoch, deadline: float) -> None:
        now = time.time()
        for intent in open_epoch.intents:
            found = recovered(intent)
            if isinstance(found, Unreadable):
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
                await self._republish_one(table, open_epoch.epoch, ended, deadline)
        if open_epoch.damage:
            self._announce_damage(open_epoch, now)
        for table, since in open_epoch.gaps.items():
            self._publisher.announce_gap(
                table,
                since=since,
                until=now,
                reason="the journal was full and its policy is to pass",
            )
        while not self._publisher.idle:
            await self._pause(deadline)

    def _announce_damage(self, open_epoch: OpenEpoch, now: float) -> None:
        """Tell of each table that may be meant that requests are lost: which it was is lost too."""
        _log.error(
            "the journal is damaged: watched tables must be read again",
            epoch=open_epoch.epoch,
            damage=open_epoch.damage,
            journal=self._config.journal.directory,
        )
        times = [intent.received for intent in open_epoch.intents]
        for table in {*self._control.watched, *(each.table for each in open_epoch.intents)}:
            self._publisher.announce_gap(
                table,
                since=min(times, default=now),
                until=now,
                reason=f"the journal is damaged: {open_epoch.damage}"[:_REASON_CHARACTERS],
            )

    async def _republish_one(
        self, table: str, epoch: int, ended: EndedWrite | EndedDefinition, deadline: float
    ) -> None:
        while not self._publisher.is_ready(table):
            await self._pause(deadline)
        if isinstance(ended, EndedWrite):
            self._publisher.recover(table, epoch, [ended])
        else:
            self._publisher.recover_definition(table, epoch, ended)

    async def _pause(self, deadline: float) -> None:
        if self._loop.time() > deadline:
            raise StartError(
                f"Kafka at {self._config.kafka.bootstrap} did not take what the journal "
                f"{self._config.journal.directory} holds of earlier epochs within "
                f"{self._config.start_seconds:g} s; look at the broker's log"
            )
        await asyncio.sleep(_DELIVERY_SECONDS)

    # -- Kafka

    def _make_control_topic(self) -> None:
        topic = self._config.kafka.control_topic
        self._topics.ensure(topic, partitions=1, settings={"cleanup.policy": "compact"})

    async def _restore_control_topic(self) -> None:
        """Make the control topic again, which somebody has deleted; leases follow by themselves."""
        try:
            await self._loop.run_in_executor(None, self._make_control_topic)
        except KafkaUnavailable as error:
            _log.warning("the control topic could not be made", reason=str(error))
        finally:
            self._restoring = None

    def _ensure_topic(self, table: str, topic: str) -> None:
        task = self._loop.create_task(self._make_topic(table, topic))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make_topic(self, table: str, topic: str) -> None:
        while True:
            # A topic that was deleted must not come back with fewer partitions than have messages.
            known = self._publisher.partitions(table)
            ensure = partial(
                self._topics.ensure,
                topic,
                partitions=max(self._config.kafka.partitions, known),
                settings={},
                at_least=max(1, known),
            )
            try:
                count = await self._loop.run_in_executor(None, ensure)
            except KafkaUnavailable as error:
                _log.warning("a topic could not be made", topic=topic, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._publisher.topic_ready(table, count)
                return

    def _look_at_deliveries_once(self) -> None:
        self._producer.poll()
        self._journal.save_watermark()

    def _look_at_deliveries(self) -> None:
        self._look_at_deliveries_once()
        under_way = self._publisher.undelivered or self._undelivered_control
        delay = _DELIVERY_SECONDS if under_way else _TEND_SECONDS
        self._loop.call_later(delay, self._look_at_deliveries)

    def _say(self, message: ControlMessage) -> None:
        self._undelivered_control += 1

        def done(failure: Failure | None) -> None:
            self._undelivered_control -= 1
            if failure is not None:
                _log.warning("control message not delivered", reason=failure.text)
                if failure.kind is FailureKind.TOPIC and self._restoring is None:
                    self._restoring = self._loop.create_task(self._restore_control_topic())

        topic = self._config.kafka.control_topic
        if not self._producer.send_keyed(
            topic, control_key(message), encode_control(message), done
        ):
            self._undelivered_control -= 1
            _log.warning("control message not sent: the producer is full")

    def _lease(self, *, ended: bool = False) -> ObserverLease:
        self._said_unmarked = self._notify.stopped
        return ObserverLease(
            VERSION,
            self._config.name,
            self._journal.epoch,
            self._config.lease_seconds,
            self._publisher.sequences(),
            self.addresses.admin,
            ended,
            self._said_unmarked,
        )

    def _send_lease(self) -> None:
        self._leased_at = self._heard_at = self._loop.time()
        self._say(self._lease())

    # -- the control topic

    def _hear_from_thread(
        self, records: list[tuple[float, bytes]], position: int, end: int
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hear, records, position, end)

    def _hear(self, records: list[tuple[float, bytes]], position: int, end: int) -> None:
        oldest = time.time() - _BARRIER_SECONDS
        for said, value in records:
            try:
                message = decode_control(value)
            except MalformedMessage as error:
                _log.warning("control message skipped", reason=str(error))
                continue
            barrier = self._control.apply(message, self._config.name)
            if isinstance(message, Gate):
                self._gates.apply(message)
            # Somebody may wait for one that was asked for while no observer was there to hear it.
            if barrier is not None and (self._caught_up.is_set() or said >= oldest):
                self._answer(barrier)
            if (
                isinstance(message, ObserverLease)
                and message.observer == self._config.name
                and message.epoch == self._journal.epoch
            ):
                self._hear_own_lease()
        self._gates.tend()
        for table, wanted in self._control.watched.items():
            self._publisher.prepare(table, values=wanted)
        if position >= end:
            self._caught_up.set()

    def _answer(self, barrier: BarrierRequest) -> None:
        if not self._recovered:
            self._early_barriers.append(barrier)
            return
        self._metrics.barriers += len(set(barrier.tables))
        answer_barrier(barrier, self._traffic(), self._recorder, self._publisher)

    def _traffic(self) -> Sequence[Traffic]:
        return self._endpoints

    def _hear_own_lease(self) -> None:
        self._heard_at = self._loop.time()
        self._own_lease_heard.set()
        if self._control.everything:
            self._control.found()
            _log.info("the control topic is back")
            for table in self._publisher.waiting_topics():
                if not self._control.is_watched(table):
                    self._publisher.forget(table)

    def _tend(self) -> None:
        now = self._loop.time()
        lease = self._config.lease_seconds
        if now - self._leased_at >= lease / 3 or self._said_unmarked != self._notify.stopped:
            self._leased_at = now
            self._say(self._lease())
        if now - self._heard_at > lease and not self._control.everything:
            self._control.lost()
            _log.error(
                "the control topic is lost: every table is treated as watched until it is back",
                topic=self._config.kafka.control_topic,
            )
        for sweeper in self._sweepers:
            sweeper.sweep(now)
        self._admission.tend()
        self._gates.tend()
        self._metrics.settle()
        if self._acknowledgements is not None:
            self._acknowledgements.tend()
        self._admission.sync_if_due()
        if self._state == "serving":
            self._loop.call_later(_TEND_SECONDS, self._tend)


def _wire_limits(limits: LimitsConfig) -> Limits:
    return Limits(
        max_frame=limits.message_bytes,
        max_string=limits.string_bytes,
        max_container=limits.container_elements,
        max_depth=limits.nesting,
    )
