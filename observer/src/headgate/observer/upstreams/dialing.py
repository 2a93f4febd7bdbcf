"""Opening connections to upstreams: names are resolved each time, every address is tried."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address
from typing import Final

import structlog

from headgate.observer.upstreams.circles import circle_text
from headgate.observer.upstreams.pool import Upstream, UpstreamHealth, UpstreamPool
from headgate.settings import Credentials

_log = structlog.get_logger("headgate.observer.upstreams.dialing")

_OWN_LACK: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
)
"""What this host lacks: no upstream is to blame."""


_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
"""OpenSSL's reasons for bytes that are no TLS."""


class UpstreamsUnreachable(ConnectionError):
    """No upstream took a connection; the message names each with its reason."""

    def __init__(self, reasons: Mapping[Upstream, str]) -> None:
        """Name those that were tried."""
        tried = ", ".join(f"{each.address} ({reason})" for each, reason in reasons.items())
        if len(reasons) == 1:
            super().__init__(f"HBase's Thrift server at {tried} cannot be reached")
        else:
            super().__init__(f"none of HBase's Thrift servers can be reached: {tried}")


class OwnAddress(ConnectionError):
    """An upstream's address is one that the observer itself listens on."""

    def __init__(self) -> None:
        """Say what to change."""
        super().__init__(
            "this observer listens there itself; name the address of HBase's Thrift server"
        )


class Dialed(asyncio.Protocol):
    """What a connection is opened for: a protocol that may have to do without."""

    def dropped(self) -> None:
        """Take it that there is no connection: whoever dialled has given up, or its time was over.

        It may have been made, and ``connection_lost`` may be called or not.
        """


class _Visitor(Dialed):
    """Closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Dialer:
    """Opens connections to the upstreams of one pool."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: UpstreamPool,
        connect_seconds: float,
        credentials: Credentials | None = None,
    ) -> None:
        """Dial for a pool.

        Args:
            loop: where connections are served.
            pool: the upstreams.
            connect_seconds: how long one of them may take.
            credentials: for TLS, asked for a context at each connection; None: without TLS.
        """
        self._loop = loop
        self.pool = pool
        self.connect_seconds = connect_seconds
        self._credentials = credentials
        self.mark = ""
        """The observer's mark in its checks of upstreams; empty: they bear none."""
        self.own: Collection[tuple[str, int]] = ()
        """Hosts (numbers) and ports that this observer listens on: no upstream is there."""
        self._turn = 0

    async def connect(
        self, protocol: Callable[[Upstream], Dialed], before: Upstream | None = None
    ) -> None:
        """Open one connection to the best upstream that takes it.

        That is the one ``before``, where the client had another connection to it and it is well.

        Raises:
            UpstreamsUnreachable: none does.
        """
        pool = self.pool
        reasons: dict[Upstream, str] = {}
        again = before is not None and before.health is UpstreamHealth.HEALTHY
        while (
            upstream := before if again and before not in reasons else pool.choose(reasons)
        ) is not None:
            if upstream.circle:
                reasons[upstream] = circle_text(upstream.circle)
                continue
            try:
                await self.open(upstream, lambda upstream=upstream: protocol(upstream))  # type: ignore[misc]
            except (OSError, TimeoutError) as error:
                reasons[upstream] = reason_of(error)
                if isinstance(error, OSError) and error.errno in _OWN_LACK:
                    _log.error("no connection can be opened", reason=reason_of(error))
                    break
                pool.refused(upstream, reasons[upstream])
            else:
                return
        raise UpstreamsUnreachable(reasons)

    async def reach(self) -> None:
        """Try every upstream once, all at a time.

        Raises:
            UpstreamsUnreachable: none takes a connection.
        """
        upstreams = self.pool.configured
        found = await asyncio.gather(*(self._try(each) for each in upstreams))
        reasons = dict(zip(upstreams, found, strict=True))
        if all(reasons.values()):
            raise UpstreamsUnreachable(reasons)

    async def visit(self, upstream: Upstream) -> None:
        """Open a connection to one upstream and close it; raises what ``open`` does."""
        await self.open(upstream, _Visitor)

    async def _try(self, upstream: Upstream) -> str:
        """Return why an upstream takes no connection; nothing when it does."""
        try:
            await self.visit(upstream)
        except (OSError, TimeoutError) as error:
            reason = reason_of(error)
            self.pool.refused(upstream, reason)
            return reason
        self.pool.passed(upstream)
        return ""

    async def open(self, upstream: Upstream, protocol: Callable[[], Dialed]) -> None:
        """Open a connection to one upstream, at the first of its addresses that takes it.

        Raises:
            OSError: its name has no address, or none takes a connection.
            TimeoutError: it did not answer in time.
        """
        upstream.opening += 1
        try:
            async with asyncio.timeout(self.connect_seconds):
                addresses = await self._resolve(upstream)
                share = self.connect_seconds / len(addresses)
                for left, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
                    try:
                        async with asyncio.timeout(share):
                            await self._connect(protocol, address, upstream)
                            return
                    except (OSError, TimeoutError):
                        if not left:
                            raise
        finally:
            upstream.opening -= 1

    async def _connect(
        self, protocol: Callable[[], Dialed], address: str, upstream: Upstream
    ) -> None:
        if self._is_own(address, upstream.port):
            raise OwnAddress
        made: list[Dialed] = []

        def make() -> Dialed:
            made.append(protocol())
            return made[-1]

        try:
            await self._create(make, address, upstream)
        except BaseException:
            # It may have been made in the same turn of the loop as its time was over: then uvloop
            # closes it, and notifies nobody.
            for each in made:
                each.dropped()
            raise

    def _is_own(self, address: str, port: int) -> bool:
        """Tell whether this observer itself would answer.

        A request would go from it to itself without end, and each time into the journal.
        """
        return any(
            port == own_port
            and (address == host or (_is_everywhere(host, address) and _is_of_this_host(address)))
            for host, own_port in self.own
        )

    async def _create(self, make: Callable[[], Dialed], address: str, upstream: Upstream) -> None:
        credentials = self._credentials
        if credentials is None:
            await self._loop.create_connection(make, address, upstream.port)
            return
        name = credentials.server_name or upstream.host
        try:
            await self._loop.create_connection(
                make,
                address,
                upstream.port,
                ssl=credentials.context,
                server_hostname=name,
                ssl_handshake_timeout=self.connect_seconds,
            )
        except OSError:
            raise  # a certificate that is not accepted is a ValueError, too
        except (ValueError, TypeError) as error:
            raise OSError(f"{name!r} is no name for a certificate") from error

    async def _resolve(self, upstream: Upstream) -> list[str]:
        """Return the addresses of an upstream's host, another first each time."""
        try:
            return [str(ip_address(upstream.host))]
        except ValueError:
            pass
        try:
            found = await self._loop.getaddrinfo(
                upstream.host, upstream.port, type=socket.SOCK_STREAM
            )
        except UnicodeError as error:
            raise OSError(errno.EINVAL, f"{upstream.host!r} is no host name") from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        self._turn += 1
        first = self._turn % len(addresses)
        return addresses[first:] + addresses[:first]


def _is_everywhere(host: str, address: str) -> bool:
    """Tell whether who listens on a host listens on all addresses of an address's version.

    Of version 6 it may be those of both.
    """
    listening = ip_address(host)
    return listening.is_unspecified and ip_address(address).version <= listening.version


def _is_of_this_host(address: str) -> bool:
    """Tell whether an address is one of this host's: its packets would leave by itself."""
    number = ip_address(address)
    if number.is_loopback:
        return True
    family = socket.AF_INET if number.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as nothing_sent:
        try:
            nothing_sent.connect((address, 9))
        except OSError:
            return False
        return bool(ip_address(nothing_sent.getsockname()[0]) == number)


def reason_of(error: Exception) -> str:
    """Return why a connection failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {error.verify_message}; look at ca and server_name "
            "under upstream_tls"
        )
    if isinstance(error, ssl.SSLError):
        if error.reason in _NO_TLS:
            return "it speaks no TLS: take upstream_tls away, or turn TLS on in the server"
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno:
        return os.strerror(error.errno)  # asyncio puts its own words in front
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "no answer"
