"""The observer's service: starts, serves, answers the control topic, and ends without losing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from headgate.hbase import Dialect
from headgate.observer.admin import AdminServer, ObserverHealth
from headgate.observer.config import Acknowledge, JournalSettings, ObserverConfig
from headgate.observer.control.barriers import BarrierResponder, Traffic
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.hearing import Hearing
from headgate.observer.control.lease import LeaseRenewer, lease_clock
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.control.table_patterns import TablePatterns
from headgate.observer.control.topic import ControlTopic
from headgate.observer.gauges import (
    expose_control,
    expose_deliveries,
    expose_held_writes,
    expose_journal,
    expose_process,
)
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.publishing.kafka import KafkaProducer, Topics
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.publishing.update_topics import UpdateTopics
from headgate.observer.reconfiguration import Reconfiguration
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.dropped import DroppedTables
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recorder import Recorder
from headgate.observer.recording.republishing import EarlierEpochs
from headgate.observer.recording.setting_aside import SettingAside
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.keyring import Keyring
from headgate.observer.sessions.acknowledgement import Acknowledgements
from headgate.observer.sessions.endpoint import (
    Endpoint,
    Enforcement,
    Monitoring,
    Recording,
    Upstreams,
)
from headgate.observer.sessions.identification import Identification, encode_identification
from headgate.observer.sessions.listening import Listeners, wire_limits
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.tuning import Turns, is_compiled, tune_process
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import UpstreamMetrics, UpstreamView
from headgate.settings import parse_address, set_log_level, write_address

_log = structlog.get_logger("headgate.observer")

_COLUMNS_LISTED = 100  # in each lease, every few seconds: what people look at, not all there is
_DELIVERY_SECONDS = 0.004  # how soon an acknowledgement of Kafka's is looked at
_TEND_SECONDS = 0.1
_DRAIN_SHARE = 0.7  # of the time for a clean end: the rest is for delivering events
_CERTIFICATE_SECONDS = 5.0  # how soon new certificates on the disk are found
_OUR_OWN = frozenset({"handle", "task", "future"})
"""Keys that event loops set where an error came out of a call or a task, not a transport."""
_LIVE_OF_LISTENERS = (
    "upstream",
    "upstream_transport",
    "upstream_protocol",
    "upstream_keep_alive_seconds",
    "health",
    "order",
)


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
        self._control = ControlState(self._notify, lease_clock, TablePatterns.of(config))
        self._journal = Journal(
            Path(config.journal.directory),
            limit_bytes=config.journal.limit_bytes,
            segment_bytes=config.journal.segment_bytes,
            first_epoch=int(time.time()),
        )
        kafka = config.kafka
        self._producer = KafkaProducer(kafka.bootstrap, kafka.properties)
        self._topics = Topics(kafka.bootstrap, kafka.properties, replication=kafka.replication)
        self._update_topics = UpdateTopics(config, topics=self._topics, learn=self._producer.learn)
        self._publisher = Publisher(
            observer=config.name,
            epoch=self._journal.epoch,
            producer=self._producer,
            settle=self._journal.settle_all,
            unfinished=lambda table: self._recorder.lowest_unfinished(table),
            ensure=lambda table, topic: self._update_topics.ensure(self._publisher, table, topic),
            wanted=self._control.is_watched,
            named=self._control.is_named,
            named_alone=self._control.is_named_by_pattern_alone,
            later=self._loop.call_later,
            linger_seconds=0.0,  # the recorder has gathered already
            clock=time.time,
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
        self._admission = WriteAdmission(
            self._journal,
            self._publisher,
            config.journal,
            clock=time.time,
            passing=time.monotonic,
        )
        self._dropped = DroppedTables(
            Path(config.journal.directory), self._publisher.dropped, self._loop.call_soon
        )
        self._earlier: EarlierEpochs | None = None
        """Epochs that ended without having published everything; None until they are looked for."""
        self._setting_aside = SettingAside(self._journal, self._publisher)
        self._acknowledgements: Acknowledgements | None = None
        if kafka.acknowledge is Acknowledge.KAFKA:
            self._acknowledgements = Acknowledgements(
                seconds=kafka.acknowledge_seconds, clock=self._loop.time
            )
            self._journal.on_settled = self._acknowledgements.settled
        self._gates = WriteGates(hold_seconds=config.gates.hold_seconds, clock=lease_clock)
        self._admin = AdminServer(self._metrics.text, self.health, self.upstreams)
        self.addresses = ObserverAddresses()
        self._barriers = BarrierResponder(
            self._recorder, self._publisher, self._metrics, lambda: self._traffic()
        )
        self._control_topic = ControlTopic(
            kafka,
            producer=self._producer,
            topics=self._topics,
            hear=lambda heard: self._hearing.hear(heard),
        )
        self._lease = LeaseRenewer(
            config,
            self._journal.epoch,
            say=self._control_topic.say,
            control=self._control,
            notify=self._notify,
            publisher=self._publisher,
            admin=lambda: self.addresses.admin,
            reads=lambda: self._metrics.reads_of(self._control.watched, _COLUMNS_LISTED),
            clock=lease_clock,
            later=self._loop.call_later,
            fail=self._end_over,
        )
        self._hearing = Hearing(
            config.name,
            self._control_topic.caught_up,
            control=self._control,
            gates=self._gates,
            barriers=self._barriers,
            lease=self._lease,
            publisher=self._publisher,
        )
        self._listeners = Listeners(config, keyring=self._keyring, metrics=self._metrics)
        self._turns = Turns(config.scheduling)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._loop.set_exception_handler(self._fail)
        self.reconfiguration = Reconfiguration(config)
        """Parts that can change live register here."""
        self._let_keys_change()
        self._describe()

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """End on an error that nobody expected: the journal has what must not be lost."""
        error = context.get("exception")
        # One of a call or a task is no connection's: what it was to do again, nobody does any more.
        if isinstance(error, OSError) and _OUR_OWN.isdisjoint(context):
            _log.warning("connection error", reason=str(error))
            return
        failure = error if isinstance(error, BaseException) else RuntimeError(context["message"])
        _log.critical("unexpected error: ending", exc_info=failure)
        self._end_over(failure)

    def _end_over(self, failure: BaseException) -> None:
        """End over an error, once what is under way is over."""
        self._failed = failure
        self._stopping.set()

    def _describe(self) -> None:
        metrics = self._metrics
        metrics.register(UpstreamMetrics(self._listeners.pools.values()))
        expose_process(metrics, self._loop, lambda: self._state == "serving")
        expose_journal(metrics, self._journal, lambda: self._config.journal.limit_bytes)
        expose_deliveries(metrics, self._publisher, self._producer)
        expose_held_writes(metrics, self._admission, self._gates, self._acknowledgements)
        expose_control(metrics, self._control, self._notify)

    def _let_keys_change(self) -> None:
        at = self.reconfiguration.at
        at("start_seconds", "shutdown_seconds")
        at("lease_seconds", prepare=lambda _old, new: lambda: self._lease.reconfigure(new))
        at(
            "kafka.partitions",
            prepare=lambda _old, new: lambda: self._update_topics.reconfigure(new),
        )
        at("watch", prepare=lambda _old, new: lambda: self._watch_by_pattern(new))
        at(
            "scheduling",
            prepare=lambda _old, new: lambda: self._turns.reconfigure(new.scheduling),
        )
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
            *(f"{name}.{key}" for name in self._listeners.names for key in _LIVE_OF_LISTENERS),
            prepare=lambda _old, new: lambda: self._listeners.reconfigure(new),
        )

        at(*self._keyring.live_keys(), prepare=self._keyring.prepare)
        at(
            "access",
            *(f"{name}.{key}" for name in self._listeners.names for key in ("origin", "networks")),
            prepare=lambda _old, new: self._listeners.prepare_access(new),
        )

    def _watch_by_pattern(self, config: ObserverConfig) -> None:
        self._hearing.watch_by_pattern(TablePatterns.of(config))

    def _change_journal(self, config: JournalSettings) -> None:
        self._journal.reconfigure(
            limit_bytes=config.limit_bytes, segment_bytes=config.segment_bytes
        )
        self._admission.reconfigure(config)

    def reload(self, load: Callable[[], ObserverConfig]) -> None:
        """Change to the configuration that ``load`` returns, but for keys that need a restart."""
        config = self.reconfiguration.reload(load)
        if config is not None:
            self._config = config

    def health(self) -> ObserverHealth:
        """Return whether clients are served, and what is not as it should be."""
        reasons = [*self._admission.reasons, *self._gates.reasons]
        if self._state == "starting" and self._earlier is not None:
            reasons.append(self._earlier.progress)
        reasons += filter(None, [self._lease.namesakes.living()])
        if self._control.everything:
            reasons.append("the control topic cannot be read: every table is treated as watched")
        if unmarked := self._notify.stopped:
            reasons.append(f"notify columns are not set in tables {', '.join(unmarked[:10])}")
        waiting = self._publisher.tables.waiting_topics()
        for pool in self._listeners.pools.values():
            reasons.extend(pool.reasons)
        if waiting:
            reasons.append(f"topics are missing for tables {', '.join(sorted(waiting)[:10])}")
            reasons.extend(sorted({reason for reason in waiting.values() if reason})[:10])
        reasons.extend(sorted(self._publisher.stuck.values())[:10])
        return ObserverHealth(self._state == "serving", self._state, tuple(reasons))

    def upstreams(self) -> dict[str, tuple[UpstreamView, ...]]:
        """Report on each listener's upstreams."""
        return self._listeners.view()

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopping.set()

    # -- life

    async def run(self, ready: Callable[[ObserverAddresses], None]) -> None:
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
            self._lease.leave()
            self._control_topic.close()
            self._setting_aside.close()
            self._journal.close()

    async def _open_admin(self) -> None:
        host, port = parse_address(self._config.admin)
        try:
            host, port = await self._admin.start(host, port)
        except OSError as error:
            raise StartError(
                f"admin address {self._config.admin}: {error.strerror or error}; choose another"
            ) from error
        self.addresses.admin = write_address(host, port)

    def _tune_process(self) -> None:
        tune_process(self._config)
        self._turns.begin()

    async def _serve(self, ready: Callable[[ObserverAddresses], None]) -> None:
        deadline = self._loop.time() + self._config.start_seconds
        await self._control_topic.await_kafka(deadline, self._config.start_seconds)
        await self._await_upstreams(deadline)
        self._loop.call_later(_DELIVERY_SECONDS, self._look_at_deliveries)
        self._control_topic.start()
        await self._within(
            self._control_topic.caught_up.wait(), deadline, "the control topic was not read"
        )
        await self._lease.claim(self._journal.begin_above)
        earlier = EarlierEpochs(
            self._config,
            journal=self._journal,
            publisher=self._publisher,
            watched=lambda: self._control.watched,
            fits=lambda table: self._control.patterns.match(table),
            topics=self._topics.partitions,
        )
        self._earlier = earlier
        await earlier.publish()
        deadline = self._loop.time() + self._config.start_seconds
        self._barriers.begin()
        # First the new lease, then the end of the old ones: agents wait for this observer's marks
        # without a break, and no mark comes before what was recovered.
        self._lease.begin()
        await self._within(
            self._lease.came_back.wait(), deadline, "the observer's own lease did not come back"
        )
        await earlier.end(self._lease.end_of, lambda: self._control_topic.undelivered)
        await self._listen()
        self._tune_process()
        self._state = "serving"
        self._loop.call_later(_TEND_SECONDS, self._tend)
        self._tasks.add(self._loop.create_task(self._update_topics.follow(self._publisher)))
        finishing = earlier.finish(self._lease.end_of, lambda: self._control_topic.undelivered)
        self._tasks.add(self._loop.create_task(finishing))
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

    async def _await_upstreams(self, deadline: float) -> None:
        await self._listeners.await_upstreams(deadline)

    async def _watch_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            await self._loop.run_in_executor(None, self._keyring.reload_changed)

    async def _listen(self) -> None:
        await self._listeners.open(self._endpoint, self.addresses, reuse_port=self._reuse_port)

    def _endpoint(
        self, name: str, dialer: Dialer, formats: UpstreamFormats, guard: ListenerGuard | None
    ) -> Endpoint:
        epoch = self._journal.epoch
        identification = Identification(self._config.name, epoch, is_compiled())
        return Endpoint(
            loop=self._loop,
            dialect=Dialect(name),
            limits=wire_limits(self._config.limits),
            upstreams=Upstreams(dialer, formats),
            enforcement=Enforcement(self._control, self._gates, self._notify, guard),
            recording=Recording(self._recorder, self._admission, self._acknowledgements),
            monitoring=Monitoring(self._metrics, epoch, encode_identification(identification)),
        )

    async def _shut_down(self) -> None:
        self._state = "ending"
        _log.info("ending: no more clients are accepted")
        self._listeners.close()
        now, seconds = self._loop.time(), self._config.shutdown_seconds
        deadline = now + seconds
        await self._listeners.drain(
            now + seconds * _DRAIN_SHARE, self._tend_held, self._gates.turn_all_away
        )
        self._recorder.work()
        self._publisher.flush()
        while (
            not self._publisher.idle or self._admission.gaps_open
        ) and self._loop.time() < deadline:
            self._admission.tend()
            self._look_at_deliveries_once()
            await asyncio.sleep(_DELIVERY_SECONDS)
        self._look_at_deliveries_once()
        if not self._lease.begun:
            return
        if self._publisher.idle and not self._admission.gaps_open:
            self._lease.end()
            while self._control_topic.undelivered and self._loop.time() < deadline:
                self._look_at_deliveries_once()
                await asyncio.sleep(_DELIVERY_SECONDS)
            self._dropped.end()
            _log.info("ended", observer=self._config.name, epoch=self._journal.epoch)
        else:
            _log.error(
                "ended with events that Kafka did not take; they are in the journal and are "
                "published at the next start",
                requests=self._journal.unsettled,
                journal=self._config.journal.directory,
            )

    def _tend_held(self) -> None:
        """Keep no write waiting for room: another observer may take it sooner than this one."""
        self._gates.tend()
        self._admission.turn_all_away()

    # -- meanwhile

    def _look_at_deliveries_once(self) -> None:
        self._producer.poll()
        self._journal.save_watermark()

    def _look_at_deliveries(self) -> None:
        self._look_at_deliveries_once()
        under_way = self._publisher.undelivered or self._control_topic.undelivered
        delay = _DELIVERY_SECONDS if under_way else _TEND_SECONDS
        self._loop.call_later(delay, self._look_at_deliveries)

    def _traffic(self) -> Sequence[Traffic]:
        return self._listeners.endpoints

    def _tend(self) -> None:
        now = self._loop.time()
        self._listeners.tend(now)
        self._admission.tend()
        self._gates.tend()
        self._metrics.settle()
        self._turns.tend(now, self._metrics.waited_seconds)
        if self._acknowledgements is not None:
            self._acknowledgements.tend()
        self._admission.sync_if_due()
        self._setting_aside.tend(now, self._config.journal.limit_bytes)
        if self._state == "serving":
            self._loop.call_later(_TEND_SECONDS, self._tend)
