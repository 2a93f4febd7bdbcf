"""One client's connection, with the one connection to HBase's Thrift server that it is pinned to.

Request bytes go on as they came. Reading them is its intake's, what was forwarded and its replies
are its pipeline's, and both connections its pair's.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final, cast

from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.sessions.connection_pair import (
    CLIENT_FULL,
    HELD,
    UPSTREAM_FULL,
    ConnectionPair,
    has_taken_all,
)
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange, named
from headgate.observer.sessions.pipeline import Pipeline
from headgate.observer.sessions.requests.answers import Answers
from headgate.observer.sessions.requests.idleness import Idleness
from headgate.observer.sessions.requests.intake import RequestIntake
from headgate.observer.sessions.sweeping import Stage
from headgate.observer.upstreams.dialing import UpstreamsUnreachable
from headgate.observer.upstreams.pinning import PinnedConnection
from headgate.observer.upstreams.pool import Upstream
from headgate.wire import MessageReader

_clock: Final = perf_counter
_ORPHAN_SECONDS: Final = 60.0  # HBase's own default limit for an operation of a client
_QUIET_SECONDS: Final = 0.2  # without bytes for so long, an unparsed reply counts as over


class Session:
    """The client's side, an ``asyncio.Protocol``. It lives until both connections are over.

    It does not derive from that class: what does is compiled to slower code.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Wait for a client of the endpoint."""
        self._endpoint = endpoint
        self._metrics = endpoint.metrics
        self._loop = endpoint.loop
        self._log = log = ClientLog(endpoint.log)
        self._connections = connections = ConnectionPair(endpoint.metrics, log)
        reader = MessageReader(endpoint.limits, most=endpoint.max_bytes_per_turn)
        self.pipeline = Pipeline(endpoint, log, connections, reader)
        self._idleness = Idleness(self.pipeline, connections.scanners)
        self._answers = Answers(endpoint, log, connections, self.pipeline)
        self._intake = RequestIntake(
            endpoint, log, connections, reader, self.pipeline, self._answers, self._connect
        )
        self._connecting: asyncio.Task[None] | None = None
        self._upstream: Upstream | None = None
        """Server that the connection to HBase leads to, or led to last."""
        self._parting = False
        self._orphaned: asyncio.TimerHandle | None = None

    # -- the client's connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client, unless there are too many."""
        endpoint, log, metrics = self._endpoint, self._log, self._metrics
        log.peer = transport.get_extra_info("peername")
        client = cast("asyncio.Transport", transport)
        self._connections.client_made(client, endpoint.acknowledgements)
        metrics.connections += 1
        limit = endpoint.most_connections
        if limit and metrics.connections > limit:
            # As HBase's own server does: an answer would have to wait for a request.
            metrics.count_refusal("connections")
            self.close()
            return
        metrics.connections_accepted += 1
        log.connection = metrics.connections_accepted
        endpoint.sessions.add(self)
        if endpoint.guard is not None:
            self.identify()

    def identify(self) -> None:
        """Ask the guard what is known of the client, and whether it may be here at all."""
        self._intake.dispatcher.identify()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._connections.closing:
            return
        try:
            self._intake.receive(data)
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            self._connections.give_up_on(error)
            return
        # What the recorder does is about other clients too: an error there does end the process,
        # and the journal has what must not be lost.
        if self._endpoint.recorder.backlog_due:
            self._endpoint.recorder.work()

    def eof_received(self) -> bool:
        """Pass the end of the client's requests on; replies may still come, except over TLS."""
        connections = self._connections
        connections.eof = True
        self._intake.pass_end_on()
        return connections.client is not None and connections.client.can_write_eof()

    def pause_writing(self) -> None:
        """Read neither replies nor requests: the client is slow, and some are answered here."""
        self._connections.pause(CLIENT_FULL)
        self._connections.pause_replies()

    def resume_writing(self) -> None:
        """Read replies and requests again."""
        self._connections.resume_replies()
        self._intake.go_on_after(CLIENT_FULL)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the base's
        """End with the client, but hear HBase out about writes that are under way."""
        connections = self._connections
        connections.client_lost()
        self._metrics.connections -= 1
        self._intake.leave()
        if self._connecting is not None:
            self._connecting.cancel()
        upstream = connections.upstream
        if upstream is None:
            self._endpoint.sessions.discard(self)
            return
        if self.pipeline.may_write():
            upstream.resume_reading()
            connections.closing = True
            self.pipeline.parse_to_the_end()
            self._orphaned = self._loop.call_later(_ORPHAN_SECONDS, upstream.abort)
        else:
            upstream.close()

    # -- the connection to HBase

    def _connect(self) -> None:
        self._connections.pause(HELD)
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._open())

    async def _open(self) -> None:
        connections = self._connections
        try:
            dialer, formats = self._endpoint.dialer, self._endpoint.formats

            def pinned(upstream: Upstream) -> PinnedConnection:
                self._upstream = upstream
                return PinnedConnection(self, dialer.pool, upstream, formats)

            await dialer.connect(pinned, self._upstream)
        except UpstreamsUnreachable as error:
            connections.unreachable = f"headgate: {error}"
            self._log.warning("upstream unreachable", reason=str(error))
        except Exception as error:  # noqa: BLE001 - it stays with this connection
            connections.give_up_on(error)
            return
        finally:
            self._connecting = None
        self._intake.go_on_after(HELD)
        if connections.unreachable:
            self.close_when_answered()

    def upstream_made(self, transport: asyncio.Transport) -> None:
        """Take the connection to HBase, or what stands for it."""
        self._connections.upstream_made(transport)
        if self._connections.client is None:
            transport.close()

    def upstream_settled(self, transport: asyncio.Transport) -> None:
        """Take the connection itself: HBase understands what the client sends."""
        self._connections.upstream_settled(transport)

    def upstream_dropped(self) -> None:
        """Have no connection to HBase yet: it was made when nobody waited for it any more."""
        self._connections.upstream_gone()
        if self._connections.client is None:
            self._endpoint.sessions.discard(self)

    def upstream_lost(self, error: Exception | None) -> None:
        """End with HBase's connection: what is under way may or may not have been done.

        One that HBase has closed because nothing was asked for long is replaced at the next
        request, unless scanners are open in it.
        """
        connections = self._connections
        connections.upstream_gone()
        if self._orphaned is not None:
            self._orphaned.cancel()
        if self._can_do_without():
            self.pipeline.renew()
            return
        broken = self.pipeline.unanswered()
        if broken and connections.client is not None:
            self._log.warning(
                "upstream closed the connection with requests under way",
                requests=len(broken),
                **named(broken),
                reason=str(error) if error else "closed",
            )
        self.pipeline.break_off()
        connections.closing = True
        if connections.client is None:
            self._endpoint.sessions.discard(self)
        else:
            connections.client.close()

    def _can_do_without(self) -> bool:
        """Return whether the client cannot notice that its connection to HBase is another."""
        connections = self._connections
        there = connections.client is not None and not (connections.closing or connections.eof)
        over = self.pipeline.is_over() and self._intake.quiet()
        return there and not connections.scanners.count and over

    def stay_awake(self) -> None:
        """Keep the connection to HBase from being closed as idle, where the client needs it."""
        if self._connections.upstream is not None:
            self._idleness.stay_awake(self._endpoint.keep_alive_seconds)

    def upstream_full(self) -> None:
        """Stop reading requests: HBase is slow."""
        self._connections.pause(UPSTREAM_FULL)

    def upstream_drained(self) -> None:
        """Read requests again."""
        self._connections.resume(UPSTREAM_FULL)

    def reply_received(self, data: bytes) -> None:
        """Take bytes from HBase."""
        self.pipeline.received(data)

    # -- the end

    def undone(self, table: str) -> list[Exchange]:
        """Return the requests whose replies prove that earlier writes of a table were applied."""
        return self.pipeline.undone(table)

    def waits_since(self) -> float | None:
        """Return when the oldest request under way was forwarded, or last got bytes of a reply."""
        return self.pipeline.waits_since()

    def waits_for_reply(self) -> bool:
        """Return whether a request is under way of whose reply nothing has come."""
        return self.pipeline.waits_for_reply()

    def quiet(self) -> bool:
        """Return whether the connection can be closed without cutting a request or a reply."""
        if self.waits_for_reply() or not self._intake.quiet():
            return False
        pipeline = self.pipeline
        return not pipeline.in_flight or _clock() - pipeline.touched > _QUIET_SECONDS

    def drain(self) -> None:
        """Go towards the end: close between requests, take no more than those under way."""
        client = self._connections.client
        if self.waits_for_reply():
            self.close_when_answered()
        elif client is not None and client.is_closing() and not client.can_write_eof():
            # TLS ends when the peer has taken leave too, which idle clients do not do. One call
            # later than the end began, for until then the transport may hold bytes itself.
            if self._parting and not client.get_write_buffer_size() and has_taken_all(client):
                self.abort()
            self._parting = True
        elif self.quiet():
            self.close()

    def stage(self) -> Stage:
        """Return at which stage the session is."""
        connections = self._connections
        if connections.closing:
            waits = connections.client is None or self.waits_for_reply()
            return Stage.SERVER if waits else Stage.REPLIES
        if connections.paused & CLIENT_FULL:
            return Stage.REPLIES
        if connections.paused:
            return Stage.SERVER
        if self._intake.buffered:
            return Stage.REQUEST
        if connections.upstream is None:
            return Stage.IDLE if connections.had_upstream else Stage.SILENT
        return Stage.SERVER if self.waits_for_reply() else Stage.IDLE

    def progress(self) -> tuple[float, int, int]:
        """Return what is different after every request that was taken or answered."""
        return self._idleness.since, len(self.pipeline.in_flight), self.unsent()

    def unsent(self) -> int:
        """Return how many bytes of replies the client has not taken."""
        client = self._connections.client
        return client.get_write_buffer_size() if client is not None else 0

    def expire(self, reason: str, *, at_once: bool) -> None:
        """Close a connection that its client only holds."""
        self._log.info("connection closed", reason=reason)
        if at_once:
            self.abort()
        else:
            self.close_when_answered()

    def close_when_answered(self) -> None:
        """Take no more requests; close once those under way are answered."""
        self._answers.close_when_answered()

    def close(self) -> None:
        """Close at once, in order: what is written is still sent."""
        self._connections.close()

    def abort(self) -> None:
        """Break both connections: requests under way end as unknown."""
        self._connections.abort()
