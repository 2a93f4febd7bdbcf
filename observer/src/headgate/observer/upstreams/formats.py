"""What the upstreams of a listener speak: found by asking, since a mismatch shows as silence."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from msgspec import Struct

from headgate.hbase import Dialect
from headgate.observer.config import Listener, UpstreamProtocol, UpstreamTransport
from headgate.observer.upstreams.asking import FORMATS, PING, ask, service_of
from headgate.observer.upstreams.circles import Circle
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.pool import Upstream, UpstreamHealth
from headgate.wire import Protocol, Transport, UnsupportedProtocol, WireFormat

_log = structlog.get_logger("headgate.observer.upstreams.formats")

_ANSWER_SECONDS: Final = 2.0
"""For one question: the server answers it by itself, without HBase."""

CURES: Final = {
    "HTTP": "unset hbase.regionserver.thrift.http there",
    "SASL": "unset hbase.thrift.security.qop there",
    "TLS": "unset hbase.thrift.ssl.enabled there, or set up TLS to the upstream",
}
"""What HBase's Thrift servers may be set to speak instead of plain Thrift, and how to end that."""

_TRANSPORTS: Final = {
    UpstreamTransport.FRAMED: Transport.FRAMED,
    UpstreamTransport.BUFFERED: Transport.BUFFERED,
}
_PROTOCOLS: Final = {
    UpstreamProtocol.BINARY: Protocol.BINARY,
    UpstreamProtocol.COMPACT: Protocol.COMPACT,
}


class DetectedFormat(Struct, frozen=True):
    """What a server was found to speak when it was asked.

    Attributes:
        format: None when it answers none of those that headgate knows.
        dialect: None where it is too old to say.
        foreign: what it speaks instead, as far as that is known: ``HTTP``, ``TLS`` ...
    """

    format: WireFormat | None = None
    dialect: Dialect | None = None
    foreign: str = ""


def agree(one: WireFormat, other: WireFormat) -> bool:
    """Return whether these understand each other: HBase reads old binary where it speaks strict."""
    compact = one.protocol is Protocol.COMPACT
    return one.transport is other.transport and compact is (other.protocol is Protocol.COMPACT)


class UpstreamFormats:
    """What each upstream of one listener speaks, and what requests are written in for it."""

    def __init__(self, dialer: Dialer, dialect: Dialect, listener: Listener) -> None:
        """Speak to the dialer's upstreams as the listener's configuration says."""
        self._dialer = dialer
        self.dialect = dialect
        self._known: dict[str, DetectedFormat] = {}
        self._asking: dict[str, asyncio.Task[DetectedFormat]] = {}
        self.reconfigure(listener)

    def reconfigure(self, listener: Listener) -> None:
        """Write the requests of new connections as the listener says."""
        self._transport = _TRANSPORTS.get(listener.upstream_transport)
        self._protocol = _PROTOCOLS.get(listener.upstream_protocol)

    def wanted(self, client: WireFormat) -> WireFormat:
        """Return what a client's requests go on in."""
        wanted = WireFormat(self._transport or client.transport, self._protocol or client.protocol)
        return client if agree(wanted, client) else wanted

    def known(self, upstream: Upstream) -> WireFormat | None:
        """Return what an upstream spoke when it was last asked."""
        detected = self._known.get(upstream.address)
        return detected.format if detected is not None else None

    def forget(self, upstream: Upstream) -> None:
        """Have an upstream asked again: it does not answer any more in what it spoke."""
        self._known.pop(upstream.address, None)

    def mismatch(self, client: WireFormat, upstream: Upstream, detected: DetectedFormat) -> str:
        """Return why requests of a client make no sense to an upstream; nothing when they do."""
        found, wanted = detected.format, self.wanted(client)
        place = f"[{self.dialect.value}]"
        if detected.foreign:
            cure = CURES.get(detected.foreign, "set it to binary or compact Thrift")
            return (
                f"the HBase Thrift server at {upstream.address} speaks {detected.foreign}; {cure}"
            )
        if found is None or agree(found, wanted):
            return ""
        keys = (
            f'upstream_transport = "{found.transport.value}" and '
            f'upstream_protocol = "{found.protocol.value}" under {place}'
        )
        if agree(wanted, client):
            return (
                f"the client speaks {client}, the HBase Thrift server at {upstream.address} "
                f"{found}; set the client to {found}, or set {keys} to have headgate translate"
            )
        return (
            f"headgate is configured to speak {wanted} to the HBase Thrift server at "
            f"{upstream.address}, which speaks {found}; set {keys}"
        )

    async def find(self, upstream: Upstream) -> DetectedFormat:
        """Return what an upstream speaks now, as far as it says anything."""
        try:
            return await self.ask(upstream)
        except Circle as error:
            self._dialer.pool.leads_back(upstream, str(error))
            return DetectedFormat()
        except OSError:
            return DetectedFormat()
        except Exception:  # noqa: BLE001 - others are served all the same
            _log.exception("an upstream could not be asked", upstream=upstream.address)
            return DetectedFormat()

    async def ask(self, upstream: Upstream) -> DetectedFormat:
        """Ask an upstream what it speaks; all who ask at a time share one question.

        Raises:
            OSError: it takes no connection.
            TimeoutError: likewise, or it takes one and does not answer.
        """
        task = self._asking.get(upstream.address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(upstream))
            self._asking[upstream.address] = task
            task.add_done_callback(lambda done: self._asked(upstream, done))
        return await asyncio.shield(task)

    def _asked(self, upstream: Upstream, task: asyncio.Task[DetectedFormat]) -> None:
        self._asking.pop(upstream.address, None)
        if not task.cancelled():
            task.exception()  # whoever still waits gets it

    async def find_all(self) -> None:
        """Ask all upstreams that take connections; the others are asked when they are back."""
        upstreams = self._dialer.pool.configured
        well = [each for each in upstreams if each.health is UpstreamHealth.HEALTHY]
        await asyncio.gather(*(self.find(each) for each in well))

    async def _ask(self, upstream: Upstream) -> DetectedFormat:
        before = self._known.get(upstream.address, DetectedFormat())
        foreign = ""
        silent: TimeoutError | None = None
        for format_ in sorted(FORMATS, key=lambda each: each != before.format):
            try:
                reply = await ask(self._dialer, upstream, format_, PING, _ANSWER_SECONDS)
            except UnsupportedProtocol as error:
                foreign = error.spoken
            except TimeoutError as error:
                silent = error
            else:
                if reply is not None:
                    found = DetectedFormat(format_, service_of(reply))
                    self._note(upstream, before, found)
                    return found
        self.forget(upstream)
        if silent is not None:
            raise silent
        if foreign:
            _log.error("upstream speaks no Thrift that is known here", spoken=foreign)
        return DetectedFormat(foreign=foreign)

    def _note(self, upstream: Upstream, before: DetectedFormat, found: DetectedFormat) -> None:
        self._known[upstream.address] = found
        if found == before:
            return
        _log.info(
            "upstream speaks",
            listener=self.dialect.value,
            upstream=upstream.address,
            format=str(found.format),
            service=found.dialect.value if found.dialect is not None else "unknown",
        )
        problem = self.misplaced(upstream)
        if problem:
            _log.error("upstream is of the other service", reason=problem)

    def misplaced(self, upstream: Upstream) -> str:
        """Return what is wrong when an upstream is of the other service; nothing when it is not."""
        detected = self._known.get(upstream.address)
        if detected is None or detected.dialect in (None, self.dialect):
            return ""
        return (
            f"[{self.dialect.value}] upstream = {upstream.address} is HBase's "
            f"{detected.dialect.value} server; put it under [{detected.dialect.value}]"
        )
