"""Stands between a session and its upstream until they are known to understand each other.

Where client and upstream speak the same it steps aside with the first reply. Where the listener is
configured for another transport or protocol than the client's it stays and translates. Otherwise it
answers the client in words, since a Thrift server that does not understand is silent or closes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct

from headgate.hbase import Dialect, dialect_of
from headgate.observer.upstreams.formats import DetectedFormat, UpstreamFormats, agree
from headgate.observer.upstreams.pool import Upstream
from headgate.wire import (
    ApplicationError,
    Limits,
    Message,
    MessageReader,
    MessageType,
    ProtocolError,
    UnsupportedProtocol,
    WireFormat,
    detect,
    transcode,
    write_exception,
)
from headgate.wire import Protocol as WireProtocol

_log = structlog.get_logger("headgate.observer.upstreams.translation")

_SILENT_SECONDS: Final = 5.0
"""Without a first reply for so long, the upstream is asked whether it speaks the same."""

_TRUSTED: Final = Limits(
    # The session has checked the requests, and HBase is trusted to answer what was asked.
    max_frame=(1 << 31) - 1,
    max_string=(1 << 31) - 1,
    max_container=(1 << 31) - 1,
    max_depth=250,
)


class Speaker(Protocol):
    """The session, as the interpreter sees it."""

    def reply_received(self, data: bytes) -> None:
        """Take bytes of a reply."""

    def upstream_lost(self, error: Exception | None) -> None:
        """Take the end of the connection."""

    def upstream_full(self) -> None:
        """Send no more requests for now."""

    def upstream_drained(self) -> None:
        """Send requests again."""


class _Asked(Struct, frozen=True):
    """What a refusal needs of a request."""

    name: str
    type: MessageType
    seqid: int
    format: WireFormat

    def exception(self, error: ApplicationError, text: str) -> bytes:
        message = Message(
            b"", 0, self.name, self.type, self.seqid, self.format.transport, self.format.protocol
        )
        return write_exception(message, error, f"headgate: {text}")


def _asked(message: Message) -> _Asked:
    return _Asked(message.name, message.type, message.seqid, message.format)


class TranslatingTransport(asyncio.Transport):
    """A session's connection to its upstream, until ``settle``."""

    def __init__(
        self,
        session: Speaker,
        formats: UpstreamFormats,
        upstream: Upstream,
        settle: Callable[[], None],
    ) -> None:
        """Stand between; ``settle`` is called once when both understand each other."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._formats = formats
        self._upstream = upstream
        self._transport: asyncio.Transport
        self._settle = settle
        self._requests = MessageReader(_TRUSTED)
        self._replies = MessageReader(_TRUSTED)
        self._client: WireFormat | None = None
        self._wanted: WireFormat | None = None
        # Requests in the order of their replies; bytes: the reply, that does not come from HBase.
        self._due: deque[_Asked | bytes] = deque()
        self._held: list[Message] | None = []
        self._ends = False
        self._refused = False
        self._answered = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def made(self, transport: asyncio.Transport) -> None:
        """Take the connection to the upstream."""
        self._transport = transport

    # -- requests

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take requests."""
        self._requests.feed(bytes(data))
        while (message := self._requests.next_message()) is not None:
            if self._client is None:
                self._begin(message)
            if self._held is not None:
                self._held.append(message)
            else:
                self._send(message)

    def _begin(self, message: Message) -> None:
        """Decide by the first request what becomes of the connection."""
        formats = self._formats
        self._client = message.format
        self._wanted = formats.wanted(message.format)
        other = _other_dialect(formats.dialect, message)
        if other is not None:
            self._loop.call_soon(self._refuse, _misled(message.name, other, formats.dialect))
            return
        known = formats.known(self._upstream)
        # Old binary has no mark of its own: a server of the other transport would not refuse it but
        # read other requests out of it than were read here.
        passes = message.protocol is not WireProtocol.OLD_BINARY
        if agree(known, self._wanted) if known is not None else passes:
            self._held = None
            return
        # The server may have been started anew, speaking another, since it was asked.
        self._session.upstream_full()
        self._task = self._loop.create_task(self._ask_first(DetectedFormat(known)))

    async def _ask_first(self, before: DetectedFormat) -> None:
        detected = await self._formats.find(self._upstream)
        if detected == DetectedFormat():
            detected = before  # it is too busy to say otherwise
        problem = self._problem(detected)
        if not problem and detected.format is None:
            problem = (
                f"the HBase Thrift server at {self._upstream.address} does not say what it speaks, "
                "and the client speaks old binary, which another server would misread; try again, "
                "or have the client write the version (strict)"
            )
        if problem:
            self._refuse(problem)
            return
        held, self._held = self._held or [], None
        for message in held:
            self._send(message)
        self._session.upstream_drained()
        if self._ends and self._transport.can_write_eof():
            self._transport.write_eof()

    def _problem(self, detected: DetectedFormat) -> str:
        assert self._client is not None  # noqa: S101 - known since the first request
        return self._formats.mismatch(self._client, self._upstream, detected)

    def _send(self, message: Message) -> None:
        wanted = self._wanted
        assert wanted is not None  # noqa: S101 - known since the first request
        if not agree(message.format, wanted):
            try:
                message_raw = transcode(message, wanted.protocol, wanted.transport, _TRUSTED).raw
            except ProtocolError as error:
                text = f"{message.name} cannot be translated to {wanted}: {error}"
                _log.warning("a request cannot be translated", reason=text)
                if message.type is not MessageType.ONEWAY:
                    refusal = _asked(message).exception(ApplicationError.PROTOCOL_ERROR, text)
                    self._due.append(refusal)
                    self._loop.call_soon(self._give_due)
                return
        else:
            message_raw = message.raw
        self._transport.write(message_raw)
        if message.type is not MessageType.ONEWAY:
            self._due.append(_asked(message))
            if self._timer is None and not self._answered:
                self._timer = self._loop.call_later(_SILENT_SECONDS, self._grow_suspicious)

    # -- replies

    def reply_received(self, data: bytes) -> None:
        """Take bytes from HBase."""
        if self._refused:
            return
        if not self._answered:
            self._answered = True
            self._stop()
            try:
                found = detect(data)
            except UnsupportedProtocol as error:
                self._refuse(self._problem(DetectedFormat(foreign=error.spoken)))
                return
            except ProtocolError:
                found = None
            if not self._translates(found):
                self._settle()
                self._session.reply_received(data)
                return
        self._translate(data)

    def _translates(self, found: WireFormat | None) -> bool:
        """Return whether replies need to be translated, or at least to be looked at."""
        assert self._client is not None  # noqa: S101 - known since the first request
        assert self._wanted is not None  # noqa: S101 - likewise
        return not agree(self._client, self._wanted) or (
            found is not None and not agree(self._client, found)
        )

    def _translate(self, data: bytes) -> None:
        assert self._client is not None  # noqa: S101 - known since the first request
        compact = self._client.protocol is WireProtocol.COMPACT
        protocol = WireProtocol.COMPACT if compact else WireProtocol.BINARY
        try:
            self._replies.feed(data)
            while (reply := self._replies.next_message()) is not None:
                if self._due:
                    self._due.popleft()
                written = transcode(reply, protocol, self._client.transport, _TRUSTED)
                self._session.reply_received(written.raw)
                self._give_due()
        except ProtocolError as error:
            self._refuse(f"a reply of {self._upstream.address} cannot be translated: {error}")

    def _give_due(self) -> None:
        while self._due and isinstance(self._due[0], bytes):
            reply = self._due.popleft()
            assert isinstance(reply, bytes)  # noqa: S101 - looked at above
            self._session.reply_received(reply)

    # -- when there is none

    def _grow_suspicious(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._ask_silent())

    async def _ask_silent(self) -> None:
        problem = self._problem(await self._formats.find(self._upstream))
        self._task = None
        if problem and not self._answered:
            self._refuse(problem)

    def lost(self, error: Exception | None) -> None:
        """Take the end of the connection; before the first reply that may be a mismatch."""
        self._stop()
        if self._answered or self._refused or not self._due or self._client is None:
            self._session.upstream_lost(error)
            return
        self._refused = True
        self._task = self._loop.create_task(self._ask_after(error))

    async def _ask_after(self, error: Exception | None) -> None:
        problem = self._problem(await self._formats.find(self._upstream))
        if problem:
            self._report(problem)
        self._session.upstream_lost(error)

    def _refuse(self, text: str) -> None:
        """Answer all that is under way with an exception, and close."""
        if not self._refused:
            self._refused = True
            self._stop()
            self._report(text)
            self._transport.abort()

    def _report(self, text: str) -> None:
        _log.warning("client and upstream do not understand each other", reason=text)
        for asked in list(self._due):
            if isinstance(asked, bytes):
                self._session.reply_received(asked)
            else:
                # It was sent: what the server made of it is not known.
                self._answer(asked, text, ApplicationError.INTERNAL_ERROR)
        self._due.clear()
        for message in self._held or ():
            self._answer(_asked(message), text)
        self._held = None

    def _answer(
        self,
        asked: _Asked,
        text: str,
        error: ApplicationError = ApplicationError.PROTOCOL_ERROR,
    ) -> None:
        if asked.type is not MessageType.ONEWAY:
            self._session.reply_received(asked.exception(error, text))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None and self._task is not asyncio.current_task(self._loop):
            self._task.cancel()
        self._task = None

    # -- the rest of a transport

    def write_eof(self) -> None:
        """Pass the end of the requests on."""
        self._ends = True
        if self._held is None and not self._refused:
            self._transport.write_eof()

    def can_write_eof(self) -> bool:
        """Return whether the end of requests can be passed on."""
        return self._transport.can_write_eof()

    def pause_reading(self) -> None:
        """Take no replies."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take replies again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close in order."""
        self._transport.close()

    def abort(self) -> None:
        """Break the connection."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether it is over."""
        return self._refused or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the connection says, but not its socket: all must pass through here."""
        if name == "socket":
            return default
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""
        return self._transport.get_write_buffer_size()


def _other_dialect(dialect: Dialect, message: Message) -> Dialect | None:
    try:
        found = dialect_of(message)
    except ProtocolError:
        return None  # HBase refuses it in its own words
    return found if found is not dialect else None


def _misled(name: str, meant: Dialect, here: Dialect) -> str:
    return (
        f"{name} is a call of HBase's {meant.value}, and this address leads to {here.value} "
        f"servers; connect to the address of [{meant.value}] listen"
    )
