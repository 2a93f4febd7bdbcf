"""Requests to the REST API of Airflow 3, and what their answers say.

Between Airflow and its clients stand proxies, portals and gateways, which answer in its place: with
pages, redirects and refusals of their own. Airflow's own answers are JSON of a known shape, and its
own refusals are JSON with a ``detail``. Anything else says nothing about a DAG run.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import httpx
import msgspec
from msgspec import Struct

T = TypeVar("T")

_CALL: Final = 30.0
"""Seconds that one answer may take."""

_SHOWN: Final = 500
"""Characters of an answer that an error quotes."""

_TRANSIENT: Final = frozenset({408, 425, 429})
"""Refusals that a repetition mends, by their definition."""

_MOVED: Final = frozenset({301, 308})
_UNREADABLE: Final = (ValueError, RecursionError)
"""Errors that msgspec raises for bytes of another shape than was asked for."""


class AirflowRefused(Exception):
    """Airflow answered that it does not do what it was asked for.

    Attributes:
        status: HTTP status of the answer; 0 where the refusal is headgate's conclusion.
        said: the answer's body.
    """

    def __init__(self, message: str, status: int = 0, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said


class NoAnswer(Exception):
    """Nothing that came back is Airflow's answer to the request, so it is worth repeating.

    Attributes:
        pause: seconds that the request should not be repeated for; 0 where nobody said.
    """

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


class _Refusal(Struct):
    detail: Any


class _Token(Struct):
    access_token: str


class AirflowApi:
    """Asks one Airflow, as one user.

    Args:
        url: Airflow's address.
        user: who asks; empty for nobody.
        password: the user's.
        transport: carries requests; the network where None.
    """

    def __init__(
        self, url: str, user: str, password: str, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._user = user
        self._password = password
        self._client = httpx.Client(
            base_url=url.rstrip("/"), timeout=_CALL, trust_env=False, transport=transport
        )

    @property
    def url(self) -> str:
        """Airflow's address."""
        return str(self._client.base_url)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def ask(self, method: str, path: str, shape: type[T], body: Any = None) -> T:
        """Return Airflow's answer, asked for with another token where this one has expired.

        Raises:
            AirflowRefused: Airflow itself refuses.
            NoAnswer: there is no answer, or none of Airflow's.
        """
        answer = self._send(method, path, json=body)
        try:
            return msgspec.json.decode(answer.content, type=shape)
        except _UNREADABLE as error:
            raise _not_airflow(answer, f"which is not Airflow's JSON ({error})") from error

    def text(self, path: str, parameters: dict[str, Any]) -> str:
        """Return a text of lines, such as a task's log.

        Raises:
            AirflowRefused: Airflow itself refuses.
            NoAnswer: there is no answer, or none of Airflow's.
        """
        headers = {"Accept": "application/x-ndjson"}
        answer = self._send("GET", path, params=parameters, headers=headers)
        if "html" in answer.headers.get("Content-Type", ""):
            raise _not_airflow(answer, "which is a page")
        return answer.text

    def _send(self, method: str, path: str, **how: Any) -> httpx.Response:
        answer = self._exchange(method, path, **how)
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._user:
            self._log_in()
            answer = self._exchange(method, path, **how)
        _check(answer)
        return answer

    def _exchange(self, method: str, path: str, **how: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **how)
        except httpx.HTTPError as error:
            raise NoAnswer(f"{method} {path}: {error or type(error).__name__}") from error

    def _log_in(self) -> None:
        who = {"username": self._user, "password": self._password}
        answer = self._exchange("POST", "/auth/token", json=who)
        try:
            _check(answer)
        except AirflowRefused as error:
            message = f"Airflow refuses user {self._user}: {answer.text[:_SHOWN]}"
            raise AirflowRefused(message, error.status) from error
        try:
            token = msgspec.json.decode(answer.content, type=_Token).access_token
        except _UNREADABLE as error:
            raise _not_airflow(answer, f"which holds no token ({error})") from error
        self._client.headers["Authorization"] = f"Bearer {token}"


def _check(answer: httpx.Response) -> None:
    """Raise unless an answer claims success.

    Raises:
        AirflowRefused: it is Airflow's own refusal, or says that Airflow has moved for good.
        NoAnswer: it says nothing about what was asked for.
    """
    status = answer.status_code
    if answer.is_success:
        return
    if status in _MOVED:
        message = (
            f"{_named(answer)}: it has moved to {answer.headers.get('Location', 'another place')}; "
            "set launchers.airflow.url, or `launcher: {airflow: {url: ...}}`, to where it is"
        )
        raise AirflowRefused(message, status)
    if answer.is_client_error and status not in _TRANSIENT:
        try:
            msgspec.json.decode(answer.content, type=_Refusal)
        except _UNREADABLE as error:
            raise _not_airflow(answer, "which is not a refusal of Airflow's") from error
        message = f"{_named(answer)} {answer.text[:_SHOWN]}"
        raise AirflowRefused(message, status, answer.text)
    raise _not_airflow(answer, "which is to be repeated")


def _named(answer: httpx.Response) -> str:
    return f"{answer.request.method} {answer.request.url.path}: {answer.status_code}"


def _not_airflow(answer: httpx.Response, why: str) -> NoAnswer:
    shown = answer.text[:_SHOWN].strip()
    pause = _retry_after(answer.headers.get("Retry-After", ""))
    return NoAnswer(f"{_named(answer)} {shown!r}, {why}", pause)


def _retry_after(value: str) -> float:
    """Return the seconds of a ``Retry-After`` (RFC 9110, 10.2.3), 0 where it says nothing."""
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


class Patience:
    """When a request that got no answer is repeated, and when it is given up.

    Args:
        look: seconds between two requests; each one without an answer doubles them.
        longest: the most that they grow to where the answer says nothing else.
        end: the time of ``time.monotonic`` at which the last request is sent.
    """

    def __init__(self, look: float, longest: float, end: float) -> None:
        self._look = look
        self._longest = longest
        self._end = end
        self._pause = look

    def next_time(self, failed: NoAnswer) -> float | None:
        """Return when to ask again, None where the time is over."""
        now = time.monotonic()
        if now >= self._end:
            return None
        pause = max(self._pause, failed.pause)
        self._pause = min(self._longest, self._pause * 2)
        return min(now + pause, self._end)
