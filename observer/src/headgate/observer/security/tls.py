"""The listening side of TLS: handshakes whose failures are logged, counted and bounded.

Connections are accepted here and not by the event loop's own server, which keeps to itself why a
handshake failed and whose it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from headgate.hbase import Dialect, io_error_reply
from headgate.observer.monitoring.metrics import Metrics
from headgate.settings import Credentials, LogRate, write_address
from headgate.wire import Limits, MessageReader, ProtocolError

_log = structlog.get_logger("headgate.observer.security.tls")

TLS_ONLY: Final = "this port takes TLS connections only"
"""What a client without TLS gets as an answer."""

_HANDSHAKE_RECORD: Final = b"\x16"  # first byte of every TLS connection (RFC 8446, section 5.1)
_AT_ONCE: Final = 64  # connections accepted before others have a turn
_MAX_EARLY: Final = 4096  # connections whose handshake has not begun: a socket and a task each
_MAX_HANDSHAKES: Final = 512  # under way on a listener: some 50 KiB each
_STALLED_SECONDS: Final = 2.0  # of a handshake, after which it gives way to others
_TURN_SECONDS: Final = 0.25  # between two looks for one that does
_ACCEPT_PAUSE_SECONDS: Final = 1.0  # without free file descriptors
_PLAIN_SECONDS: Final = 2.0  # for the first request of a client without TLS
_PLAIN_LIMITS: Final = Limits(max_frame=65536, max_string=65536, max_container=4096, max_depth=16)
_CHUNK: Final = 65536

_EXPIRED: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21)
_REVOKED: Final = 23  # X509_V_ERR_CERT_REVOKED
_NO_LIST: Final = 3  # X509_V_ERR_UNABLE_TO_GET_CRL
_BAD_LIST: Final = (5, 8, 11, 12, 15, 16, 33, 35)  # 12: X509_V_ERR_CRL_HAS_EXPIRED
# OpenSSL's reasons that a peer or its settings cause, with what is said and what to do about it.
_REASONS: Final[dict[str, tuple[str, str]]] = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "no_certificate",
        "the client showed no certificate, which this listener requires; give the client one",
    ),
    "UNSUPPORTED_PROTOCOL": ("version", "the client speaks only TLS below 1.2; update it"),
    "VERSION_TOO_LOW": ("version", "the client speaks only TLS below 1.2; update it"),
    "NO_SHARED_CIPHER": (
        "cipher",
        "client and listener have no cipher in common; update the client or change the key's kind",
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "refused_by_client",
        "the client does not know the authority of this listener's certificate; give it that CA",
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "refused_by_client",
        "the client does not accept this listener's certificate; look at its names and its CA",
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": (
        "refused_by_client",
        "the client does not accept this listener's certificate; look at its names and its CA",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": (
        "refused_by_client",
        "the client says that this listener's certificate has expired; renew it",
    ),
}


async def listening_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int, backlog: int, *, reuse_port: bool = False
) -> list[socket.socket]:
    """Return sockets that listen on every address of a host.

    Raises:
        OSError: one of them cannot be used.
    """
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    listening: list[socket.socket] = []
    try:
        for family, address in addresses:
            listening.append(
                socket.create_server(address, family=family, backlog=backlog, reuse_port=reuse_port)
            )
            listening[-1].settimeout(0)
    except OSError:
        for each in listening:
            each.close()
        raise
    return listening


class TlsServer:
    """One listener's address, for clients with TLS alone."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        loop: asyncio.AbstractEventLoop,
        dialect: Dialect,
        credentials: Credentials,
        handshake_seconds: float,
        protocol: Callable[[], asyncio.Protocol],
        admits: Callable[[str], bool],
        metrics: Metrics,
    ) -> None:
        """Accept clients, until ``close``.

        Args:
            sockets: TCP sockets that listen, and do not block.
            loop: where connections are served.
            dialect: the listener's, for answering those who speak no TLS.
            credentials: asked for a context at each connection.
            handshake_seconds: how long a client may take until it has shown who it is.
            protocol: makes what serves a connection, once its handshake is done.
            admits: returns whether a host may connect at all.
            metrics: counts failures.
        """
        self.sockets = sockets
        self._loop = loop
        self._dialect = dialect
        self._name = dialect.value
        self._credentials = credentials
        self._handshake_seconds = handshake_seconds
        self._protocol = protocol
        self._admits = admits
        self._metrics = metrics
        self._rate = LogRate(loop.time)
        self._early: dict[asyncio.Task[None], str] = {}
        """Connections that have sent nothing yet, or wait for their turn: peers, oldest first."""
        self._shaking: dict[asyncio.Task[None], tuple[float, str]] = {}
        """Since when handshakes are under way, and with whom, oldest first."""
        self._turns = asyncio.Semaphore(_MAX_HANDSHAKES)
        self._accepting = False
        self._closed = False
        self._resume()

    def close(self) -> None:
        """Accept nothing more; what is still shaking hands is cut off."""
        self._closed = True
        self._pause()
        for listening in self.sockets:
            listening.close()
        for task in (*self._early, *self._shaking):
            task.cancel()

    # -- accepting

    def _resume(self) -> None:
        if not self._closed and not self._accepting:
            self._accepting = True
            for listening in self.sockets:
                self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            for listening in self.sockets:
                self._loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _log.error("no connection can be accepted", reason=error.strerror or str(error))
                self._pause()
                self._loop.call_later(_ACCEPT_PAUSE_SECONDS, self._resume)
                return
            if not self._admits(peer[0]):
                connection.close()
                continue
            connection.settimeout(0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._early) >= _MAX_EARLY:
                # Whoever means it sends something at once.
                self._cut_off(next(iter(self._early)), "it sent nothing, and others need its place")
            name = write_address(*peer[:2])
            task = self._loop.create_task(self._welcome(connection, name))
            self._early[task] = name
            task.add_done_callback(self._welcomed)

    def _cut_off(self, task: asyncio.Task[None], reason: str) -> None:
        peer = self._early.pop(task, "") or self._shaking.pop(task)[1]
        self._failed("timeout", reason, peer)
        task.cancel()

    def _welcomed(self, task: asyncio.Task[None]) -> None:
        self._early.pop(task, None)
        self._shaking.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self._loop.call_exception_handler(
                {"message": "accepting a client failed", "exception": task.exception()}
            )
        self._resume()

    # -- one client

    async def _welcome(self, connection: socket.socket, peer: str) -> None:
        taken = False
        try:
            async with asyncio.timeout(self._handshake_seconds):
                head = await self._first_byte(connection)
                if head == _HANDSHAKE_RECORD:
                    await self._turn(peer)
                    try:
                        taken = True
                        await self._loop.connect_accepted_socket(
                            self._protocol,
                            connection,
                            ssl=self._credentials.context,
                            ssl_handshake_timeout=self._handshake_seconds,
                        )
                    finally:
                        self._turns.release()
                elif head:
                    self._failed("plain", "the client speaks no TLS; turn TLS on in it", peer)
                    await self._answer_plain(connection)
        except TimeoutError:
            text = f"the handshake was not over after {self._handshake_seconds:g} s"
            self._failed("timeout", text, peer)
        except OSError as error:
            self._failed(*handshake_failure(error), peer)
        except Exception as error:  # noqa: BLE001 - others are served all the same
            _log.exception("a client could not be welcomed", listener=self._name, client=peer)
            self._failed("fault", f"a fault of the observer: {error}", peer)
        finally:
            if not taken:
                connection.close()

    async def _first_byte(self, connection: socket.socket) -> bytes:
        """Wait for the first byte and leave it where it is; nothing: the client went away."""
        readable: asyncio.Future[None] = self._loop.create_future()
        number = connection.fileno()
        self._loop.add_reader(number, _settle, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(number)
        return connection.recv(1, socket.MSG_PEEK)

    async def _turn(self, peer: str) -> None:
        """Wait for a place among the handshakes under way; release it afterwards.

        Those that make no progress cannot keep others waiting for as long as they are allowed to
        take: they give way.
        """
        while True:
            if self._turns.locked():
                self._cut_stalled()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    await self._turns.acquire()
                    break
        task = asyncio.current_task()
        if task is not None and self._early.pop(task, None) is not None:
            self._shaking[task] = self._loop.time(), peer

    def _cut_stalled(self) -> None:
        for task, (since, _) in self._shaking.items():
            if self._loop.time() - since >= _STALLED_SECONDS:
                self._cut_off(task, "the handshake stood still, and others need its place")
            return

    def _failed(self, reason: str, text: str, peer: str) -> None:
        self._metrics.count_tls_failure(self._name, reason)
        left_out = self._rate.admit()
        if left_out is not None:
            _log.warning(
                "TLS handshake failed",
                listener=self._name,
                client=peer,
                reason=reason,
                text=text,
                left_out=left_out,
            )

    async def _answer_plain(self, connection: socket.socket) -> None:
        """Answer the first request of a client without TLS, if it is Thrift, with what to do."""
        reader = MessageReader(_PLAIN_LIMITS)
        with contextlib.suppress(TimeoutError, ProtocolError):  # then it is only closed
            async with asyncio.timeout(_PLAIN_SECONDS):
                while (message := reader.next_message()) is None:
                    data = await self._loop.sock_recv(connection, _CHUNK)
                    if not data:
                        return
                    reader.feed(data)
                text = f"headgate: {TLS_ONLY}; turn TLS on in the client (Thrift: TSSLSocket)"
                reply = io_error_reply(self._dialect, message, text, can_retry=False)
                await self._loop.sock_sendall(connection, reply)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def handshake_failure(error: OSError) -> tuple[str, str]:
    """Return why a client's handshake failed: one of few words for counting, and a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the client's certificate is not accepted: {error.verify_message}"
        if error.verify_code in _EXPIRED:
            return "expired", f"{text}; renew it"
        if error.verify_code in _UNKNOWN_ISSUER:
            return "unknown_ca", f"{text}; sign it by an authority of client_ca"
        if error.verify_code == _REVOKED:
            return "revoked", f"{text}; give the client a new one, should it still be served"
        if error.verify_code == _NO_LIST:
            return "revocation_list", f"{text}; add its authority's list to client_crl"
        if error.verify_code in _BAD_LIST:
            cure = "put a list into client_crl that its authority has signed and that is valid now"
            return "revocation_list", f"{text}; {cure}"
        return "untrusted", text
    if isinstance(error, ssl.SSLError):
        known = _REASONS.get(error.reason or "")
        return known or ("other", (error.reason or str(error)).replace("_", " ").lower())
    if isinstance(error, ConnectionAbortedError):
        return "timeout", "the handshake took too long"
    return "closed", "the client left during the handshake; does it know this listener's CA?"
