"""A listener as its sessions see it: what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

from msgspec import Struct

from headgate.hbase import Dialect, Effect, Pattern, Patterns, columns_read, reads_cells
from headgate.observer.config import KEEP_ALIVE_SECONDS, LimitSettings
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.client_log import ListenerLog
from headgate.observer.monitoring.metrics import THINNED, Metrics, Sample
from headgate.observer.recording.admission import WriteAdmission
from headgate.observer.recording.recent_deletes import WriteOrder
from headgate.observer.recording.recorder import Recorder
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.permits import Permit
from headgate.observer.sessions.acknowledgement import Acknowledgements
from headgate.observer.sessions.connection_pair import has_left
from headgate.observer.sessions.exchange import Exchange
from headgate.observer.sessions.holdings import Holdings
from headgate.observer.sessions.replies import KnownReplies
from headgate.observer.sessions.reply_states import ANSWERED, ExchangeState
from headgate.observer.sessions.sweeping import Swept
from headgate.observer.sessions.write_rules import Facts
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.wire import Limits, Message

_MANY: Final = 100
"""Requests between two counts (a tenth of a second) from which on few of them are observed."""

_TURN: Final = 1 << 18
"""Bytes that take some 15 ms, interpreted, where the rows of a batch are all different."""


class ServedSession(Swept, Protocol):
    """A session as its listener sees it."""

    def identify(self) -> None:
        """Ask the guard what is known of the client, and whether it may be here at all."""

    def undone(self, table: str) -> list[Exchange]:
        """Return the requests whose replies prove that earlier writes of a table were applied."""

    def drain(self) -> None:
        """Go towards the end: close between requests, take no more than those under way."""

    def abort(self) -> None:
        """Break both connections: requests under way end as unknown."""


class Upstreams(Struct, frozen=True):
    """The way from a listener to HBase.

    Attributes:
        dialer: opens connections to HBase's Thrift servers.
        formats: what these speak; None: requests go on as they come.
    """

    dialer: Dialer
    formats: UpstreamFormats | None = None


class Enforcement(Struct, frozen=True):
    """The rules that are applied to a listener's requests.

    Attributes:
        control: watch lists and fences.
        gates: the gates that hold writes.
        notify: the notify columns that writes get.
        guard: what each client may do; None: everybody may do everything.
    """

    control: ControlState
    gates: WriteGates
    notify: NotifyColumns
    guard: ListenerGuard | None = None


class Recording(Struct, frozen=True):
    """The way of a watched write to its event.

    Attributes:
        recorder: journals watched writes and publishes them.
        admission: decides what happens where the journal has no room.
        acknowledgements: hold replies until Kafka has the events; None: replies are not held.
    """

    recorder: Recorder
    admission: WriteAdmission
    acknowledgements: Acknowledgements | None = None


class Monitoring(Struct, frozen=True):
    """Where a listener's doings are counted, and by what its observer is known.

    Attributes:
        metrics: the observer's counters.
        epoch: the observer's epoch, named in each line about a client.
        identification: the answer to who asks whether this is an observer.
    """

    metrics: Metrics
    epoch: int = 0
    identification: bytes = b""


class Endpoint:
    """One listener: what all its sessions share."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        dialect: Dialect,
        limits: Limits,
        upstreams: Upstreams,
        enforcement: Enforcement,
        recording: Recording,
        monitoring: Monitoring,
    ) -> None:
        """Serve the dialect on the loop; ``limits`` are those of one request."""
        self.loop = loop
        self.dialect = dialect
        self.name = dialect.value
        self.limits = limits
        self.dialer = upstreams.dialer
        self.formats = upstreams.formats
        self.control = enforcement.control
        self.gates = enforcement.gates
        self.notify = enforcement.notify
        self.guard = enforcement.guard
        self.recorder = recording.recorder
        self.admission = recording.admission
        self.acknowledgements = recording.acknowledgements
        self.metrics = metrics = monitoring.metrics
        self.identification = monitoring.identification
        self.order = WriteOrder(recording.recorder.deletes)
        self.timings = metrics.timings_of(self.name)
        self.log = ListenerLog(self.name, monitoring.epoch, perf_counter)
        self.sessions: set[ServedSession] = set()
        self.has_left: Callable[[asyncio.BaseTransport], bool] = has_left
        """Returns whether the other end of a connection that is not read from is gone."""
        self.max_bytes_per_turn = _TURN
        """Bytes of one request that are parsed before other connections get a turn."""
        self.most_connections = 0
        """Limit of the clients of all listeners of the process; 0: no limit."""
        self.holdings = Holdings(metrics, LimitSettings().waiting_bytes)
        """Bytes kept for clients, counted together for all listeners of the process."""
        self.keep_alive_seconds = KEEP_ALIVE_SECONDS
        """Seconds after which a quiet connection to HBase is kept awake; 0: never."""
        self.patterns = Patterns(dialect)
        self.replies = KnownReplies()
        self._uncounted: list[Pattern] = []
        """The kinds of which requests came or ended since ``count``."""
        self.received_bytes = 0
        """Bytes from clients since ``count``."""
        self.sent_bytes = 0
        """Bytes to clients since ``count``."""
        self.now = perf_counter()
        """Time of the last observed request or ``count``: a clock that costs nothing."""
        self._sample = self.timings.each
        self._every = self._left = 1
        self._observed = 0
        metrics.before_settling(self.name, self.count)

    def facts(self, permit: Permit | None = None) -> Facts:
        """Return the facts by which requests of a client with the permit are judged."""
        origin = None if permit is None else permit.origin
        return Facts(self.control, self.gates, self.guard, permit, origin, self.order)

    def count(self) -> None:
        """Count bytes and requests of known kinds, which come too fast to be counted one by one."""
        self.metrics.received_bytes += self.received_bytes
        self.metrics.sent_bytes += self.sent_bytes
        self.received_bytes = self.sent_bytes = 0
        uncounted, self._uncounted = self._uncounted, []
        for pattern in uncounted:
            if pattern.asked:
                table = pattern.tables[0]
                self.metrics.count_read(table, pattern.asked)
                if pattern.whole_rows:
                    self.metrics.count_column_read(table, b"", pattern.asked)
                for column, count in pattern.take_columns().items():
                    self.metrics.count_column_read(table, column, count)
            if pattern.answered:
                name = pattern.method.name
                self.metrics.count_request(self.name, name, "answered", pattern.answered)
            pattern.asked = pattern.answered = 0
        self.now = perf_counter()
        thin = self._observed * self._every > _MANY
        self._sample = self.timings.thinned if thin else self.timings.each
        self._every = THINNED if thin else 1
        self._left = min(self._left, self._every)
        self._observed = 0

    def sample(self) -> Sample | None:
        """Return where the times of a request that came go; None: it is not observed."""
        left = self._left - 1
        if left:
            self._left = left
            return None
        self._left = self._every
        self._observed += 1
        return self._sample

    def note_read(self, pattern: Pattern, raw: bytes) -> None:
        """Note that a read of a table came, of a known kind."""
        if not pattern.asked and not pattern.answered:
            self._uncounted.append(pattern)
        pattern.asked += 1
        pattern.note_columns(raw)

    def count_read(self, table: str, message: Message) -> None:
        """Count a read of a table, and the columns that it names."""
        self.metrics.count_read(table)
        if not reads_cells(self.dialect, message.name):
            return
        for column in columns_read(self.dialect, message) or (b"",):
            self.metrics.count_column_read(table, column)

    def note_answered(self, pattern: Pattern) -> None:
        """Note that a request ended, with an answer."""
        if not pattern.asked and not pattern.answered:
            self._uncounted.append(pattern)
        pattern.answered += 1

    def count_ended(self, exchange: Exchange, ended: ExchangeState) -> None:
        """Count a request that makes no event, by its last state."""
        if ended is ANSWERED and exchange.pattern is not None:
            self.note_answered(exchange.pattern)
            return
        unknown = exchange.method.effect is Effect.UNKNOWN
        name = "(unknown)" if unknown else exchange.method.name
        self.metrics.count_request(self.name, name, ended.name)

    @property
    def looks_closer(self) -> bool:
        """True if watched writes wait for the disk, or are changed before they are forwarded."""
        return self.admission.syncs_each or bool(self.notify.asked)

    def undone(self, table: str) -> list[Exchange]:
        """Return the requests whose replies prove that earlier writes of a table were applied."""
        return [each for session in self.sessions for each in session.undone(table)]
