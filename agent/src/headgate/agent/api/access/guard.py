"""What stands before every request to the API: who asks, from where, with what.

The order matters: what a browser was made to send is refused first, then strangers, then bodies
that are too large; nothing of a body is read before it is known who sends it.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct
from starlette.exceptions import HTTPException

from headgate.agent.api.access.certificates import caller_by
from headgate.agent.api.access.tokens import OwnTokens, TokenFile
from headgate.agent.configuration import AUDITED, CertificateGrant
from headgate.agent.roles import Caller, Role
from headgate.settings import LogRate, canonical_host

log = structlog.get_logger("headgate.agent.audit")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS: Final = frozenset({"/livez", "/readyz", "/healthz", "/metrics"})
CALLER: Final = "headgate.caller"
"""Of a request's state: who asks."""
CERTIFICATE: Final = "headgate.certificate"
"""Of a request's scope: the client's verified certificate, as ``ssl`` returns it."""
STANDING_FOR: Final = "headgate-caller"
"""The header in which an agent, or a proxy, names in whose place it asks."""
STANDING_FOR_ROLE: Final = "headgate-role"

_NOTES: Final = "headgate.notes"
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods of requests that change nothing."""
_BODY_SECONDS: Final = 30.0  # for a body to arrive whole
_LONGEST_PATH: Final = 300  # characters of a path in the log
_LONGEST_NAME: Final = 100
_NAME: Final = re.compile(r"[ -~]{1,100}")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_CURE: Final = (
    "show one in HEADGATE_TOKEN or with --token-file; the user who runs the agent finds it in "
    "their state folder without either, and `headgate token` makes one for somebody else"
)


class Denied(Exception):
    """A request that goes no further.

    Attributes:
        status: of the answer.
        reason: one word, for the metric.
        words: why, and what to do.
    """

    def __init__(self, status: int, reason: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.reason = reason
        self.words = words


class Note(Struct, frozen=True):
    """What a change is about, for the audit: names, never content."""

    dataflow: str = ""
    action: str = ""


class GuardSettings(Struct, frozen=True):
    """What a guard goes by.

    Attributes:
        own: tokens of the agents themselves.
        tokens: those of callers; None where there are none.
        certificates: whose client certificates are.
        hosts: names, besides those of loopback, by which the API is called.
        proxied: whether a proxy in front has TLS, so that a browser's scheme may differ.
        open_probes: whether probes and metrics are for everybody.
        body_bytes: of the longest body that is taken.
        denied: called with the reason of each refusal, for the metric.
    """

    own: OwnTokens
    tokens: TokenFile | None
    certificates: tuple[CertificateGrant, ...]
    hosts: frozenset[str]
    proxied: bool
    open_probes: bool
    body_bytes: int
    denied: Callable[[str], None]


class Guard:
    """An ASGI application that lets through to another what may go there.

    Args:
        application: what is guarded; it finds the caller in the request's state.
        settings: what the guard goes by.
    """

    def __init__(self, application: Application, settings: GuardSettings) -> None:
        self._application = application
        self._settings = settings
        self._rate = LogRate(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            raise TypeError(f"the API speaks HTTP alone, not {scope['type']}")
        body = _Body(scope, receive, self._settings.body_bytes)
        answered = _Answered(scope, send, body)
        if scope["path"] in OPEN_PATHS and self._settings.open_probes:
            await self._application(scope, body.receive, answered.send)
            return
        try:
            caller = self.admit(scope, body)
        except Denied as denied:
            self._settings.denied(denied.reason)
            self._log(denied, scope)
            await _refuse(denied, answered.send)
            return
        scope.setdefault("state", {})[CALLER] = caller
        await self._application(scope, body.receive, answered.send)

    def _log(self, denied: Denied, scope: Scope) -> None:
        left_out = self._rate.admit()
        if left_out is not None:
            log.warning(
                "refused",
                reason=denied.reason,
                source=_source(scope),
                request=_request(scope),
                status=denied.status,
                left_out=left_out or None,
            )

    def admit(self, scope: Scope, body: _Body) -> Caller:
        """Return who asks.

        Raises:
            Denied: the request goes no further.
        """
        headers = _Headers(scope)
        self._require_known_host(headers)
        self._require_own_origin(headers, scope["scheme"])
        caller = self._authenticate(headers, scope.get(CERTIFICATE))
        body.expect(headers)
        return caller

    def _require_known_host(self, headers: _Headers) -> None:
        name = host_name(headers.one("host"))
        if name not in _LOOPBACK_NAMES and name not in self._settings.hosts:
            raise Denied(
                421,
                "host",
                f"this agent is not called {name[:_LONGEST_NAME]!r}; call it by its own address, "
                "or add the name to access.hosts in agent.toml",
            )

    def _require_own_origin(self, headers: _Headers, scheme: str) -> None:
        site = headers.one("sec-fetch-site")
        origin = headers.one("origin").lower()
        host = headers.one("host").lower()
        own = {f"{scheme}://{host}"}
        if self._settings.proxied:
            own.add(f"https://{host}")
        if site not in {"", "same-origin", "none"} or (origin and origin not in own):
            raise Denied(
                403, "origin", "a page of another origin asks: the agent answers only its own"
            )

    def _authenticate(self, headers: _Headers, certificate: Mapping[str, Any] | None) -> Caller:
        shown = headers.one("authorization")
        if shown:
            caller = self._by_token(shown)
        elif certificate:
            caller = self._by_certificate(certificate)
        else:
            raise Denied(401, "no_token", f"this agent answers only with a token: {_CURE}")
        name = headers.one(STANDING_FOR)
        if not name:
            return caller
        role = headers.one(STANDING_FOR_ROLE)
        if role not in tuple(Role) or not _NAME.fullmatch(name):
            raise Denied(
                400,
                "standing_for",
                f"{STANDING_FOR} takes a name of at most 100 characters of printable ASCII, and "
                f"wants {STANDING_FOR_ROLE} beside it: read, operate or define",
            )
        return caller.standing_for(name, Role(role))

    def _by_certificate(self, certificate: Mapping[str, Any]) -> Caller:
        caller = caller_by(certificate, self._settings.certificates)
        if caller is None:
            raise Denied(
                401,
                "certificate",
                "the client's certificate is nobody's that this agent knows; add it to "
                f"[[access.certificates]] in agent.toml; or use a token: {_CURE}",
            )
        return caller

    def _by_token(self, shown: str) -> Caller:
        scheme, _, token = shown.partition(" ")
        settings = self._settings
        if scheme.lower() == "bearer":
            caller = settings.own.caller(token.strip())
            if caller is None and settings.tokens is not None:
                caller = settings.tokens.caller(token.strip())
            if caller is not None:
                return caller
        raise Denied(401, "token", f"this agent knows no such token: {_CURE}")


def note(scope: Scope, note: Note) -> None:
    """Say what a change is about, for its line in the audit."""
    scope.setdefault("state", {})[_NOTES] = note


def host_name(written: str) -> str:
    """Return the canonical name or address in a ``Host`` header, without port and brackets."""
    name = written.strip()
    if name.startswith("["):
        return canonical_host(name[1:].partition("]")[0])
    return canonical_host(name.partition(":")[0].removesuffix("."))


class _Headers:
    """The headers of a request; one that must be there once and is there twice is an attack."""

    def __init__(self, scope: Scope) -> None:
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]

    def one(self, name: str) -> str:
        """Return a header's value; empty where it is absent.

        Raises:
            Denied: it is there more than once.
        """
        found = [value for key, value in self._headers if key == name.encode()]
        if len(found) > 1:
            raise Denied(400, "header", f"header {name} is there {len(found)} times; send it once")
        return found[0].decode("latin-1") if found else ""


class _Body:
    """A request's body, which is cut off where it is too long or too slow."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._read = 0
        self._deadline = math.inf
        self.open = any(
            key == b"transfer-encoding" or (key == b"content-length" and value != b"0")
            for key, value in scope["headers"]
        )
        """Whether there is more to come."""

    def expect(self, headers: _Headers) -> None:
        """Look at what is said of the body before any of it is read.

        Raises:
            Denied: it is not JSON, or longer than is taken.
        """
        length = headers.one("content-length")
        if not self.open:
            return
        kind = headers.one("content-type").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Denied(
                415, "content_type", "the body is not JSON; say content-type: application/json"
            )
        if length.isdigit() and int(length) > self._limit:
            raise Denied(413, "body", self._too_long())
        self._deadline = asyncio.get_running_loop().time() + _BODY_SECONDS

    async def receive(self) -> Message:
        """Return the next piece.

        Raises:
            HTTPException: there is too much of it, or it takes too long.
        """
        if not self.open:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            raise HTTPException(408, f"the body did not arrive in {_BODY_SECONDS:g} s") from error
        self._read += len(message.get("body", b""))
        if self._read > self._limit:
            raise HTTPException(413, self._too_long())
        self.open = message["type"] == "http.request" and message.get("more_body", False)
        return message

    def _too_long(self) -> str:
        return (
            f"the body is longer than {self._limit} bytes; raise access.body_bytes in agent.toml "
            "where a dataflow file needs more"
        )


class _Answered:
    """The way of an answer: what changed something is written to the audit."""

    def __init__(self, scope: Scope, send: Send, body: _Body) -> None:
        self._scope = scope
        self._send = send
        self._body = body

    async def send(self, message: Message) -> None:
        """Pass on a piece of the answer."""
        if message["type"] == "http.response.start":
            if self._body.open:
                # What is left of the body would be read and thrown away.
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            self._audit(message["status"])
        await self._send(message)

    def _audit(self, status: int) -> None:
        scope = self._scope
        caller: Caller | None = scope.get("state", {}).get(CALLER)
        if caller is None or scope["method"] in SAFE_METHODS:
            return
        about: Note = scope["state"].get(_NOTES, Note())
        log.info(
            AUDITED[status >= 400],
            who=repr(caller.name),
            role=caller.role.value,
            via=repr(caller.via) if caller.via else None,
            source=_source(scope),
            request=_request(scope),
            dataflow=repr(about.dataflow[:_LONGEST_NAME]) if about.dataflow else None,
            action=repr(about.action[:_LONGEST_NAME]) if about.action else None,
            status=status,
        )


def _source(scope: Scope) -> str:
    found: str = (scope.get("client") or ("",))[0]
    return found


def _request(scope: Scope) -> str:
    """Return method and path as they were sent, in which nothing can break a line."""
    path = scope.get("raw_path") or scope["path"].encode()
    return ascii(f"{scope['method']} {path.decode('latin-1')}"[:_LONGEST_PATH])


async def _refuse(denied: Denied, send: Send) -> None:
    content = msgspec.json.encode({"error": denied.words, "problems": []})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    if denied.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="headgate"'))
    await send({"type": "http.response.start", "status": denied.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
