"""How commands ask an agent: the address, and what shows who asks."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Final

import httpx
import typer
from msgspec import Struct

from headgate.agent import DEFAULT_API, find_token, user_token_file
from headgate.settings import ConfigurationError, is_loopback

ADDRESS_VARIABLE: Final = "HEADGATE_AGENT"
KEPT_SECONDS: Final = 2.0
"""Seconds for which an idle connection is kept: fewer than an agent keeps it, which closes it after
5. A request that meets the close is lost, and one that changes something is not repeated."""

AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help=f"host:port of any agent's API [variable {ADDRESS_VARIABLE}; default {DEFAULT_API}].",
    ),
]


class Shown(Struct, frozen=True):
    """Files by which an agent knows who asks, and is known itself; None: as variables say."""

    token_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


_shown: ContextVar[Shown] = ContextVar("shown", default=Shown())  # noqa: B039 -- frozen


_command: ContextVar[str] = ContextVar("command", default="flow")


def keep_shown(
    context: typer.Context,
    *,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token to show (HEADGATE_TOKEN, HEADGATE_TOKEN_FILE; "
            "default: that of the agents of this user)."
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(help="Authorities by which an agent with TLS is known (HEADGATE_CA)."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate to show (HEADGATE_CERTIFICATE).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (HEADGATE_KEY).")] = None,
) -> None:
    """Keep what the options before a command say, for the command."""
    _shown.set(Shown(token_file, ca, certificate, key))
    _command.set(context.info_name or _command.get())


def command_here() -> str:
    """Return which group of commands is under way, such as ``flow``."""
    return _command.get()


def shown_here() -> Shown:
    """Return what the options before the command under way say."""
    return _shown.get()


def base_url(address: str | None) -> str:
    """Return where an agent is asked: what was named, or the variable, or this machine."""
    found = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_API
    return found if "://" in found else f"http://{found}"


def connect(
    address: str | None,
    seconds: float,
    shown: Shown = Shown(),  # noqa: B008 -- frozen
    transport: httpx.BaseTransport | None = None,
    environment: Mapping[str, str] = os.environ,
) -> httpx.Client:
    """Return a client that asks an agent and shows who asks.

    Args:
        address: the agent's; None for the one that variables name.
        seconds: that an answer may take.
        shown: files that were named.
        transport: carries the requests; connections where None.
        environment: variables, which name what is shown where no file is named.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    base = base_url(address)
    headers = {"content-type": "application/json"}
    token = find_token(shown.token_file, environment, trusted=_may_have_own_token(base))
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return httpx.Client(
        base_url=base,
        trust_env=False,
        timeout=seconds,
        headers=headers,
        verify=_context(shown, environment) if base.startswith("https://") else True,
        limits=httpx.Limits(keepalive_expiry=KEPT_SECONDS),
        transport=transport,
    )


def cure(status: int) -> str:
    """Return what a command adds to the agent's refusal."""
    if status != 401:
        return ""
    return f" [the agents of this user have theirs in {user_token_file()}]"


def _may_have_own_token(base: str) -> bool:
    """Return whether the user's own token may go there: never in clear to another machine."""
    try:
        url = httpx.URL(base)
    except httpx.InvalidURL:
        return False
    return url.scheme == "https" or is_loopback(url.host)


def _context(shown: Shown, environment: Mapping[str, str]) -> ssl.SSLContext:
    ca = shown.ca or environment.get("HEADGATE_CA") or None
    certificate = shown.certificate or environment.get("HEADGATE_CERTIFICATE")
    key = shown.key or environment.get("HEADGATE_KEY") or None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        raise ConfigurationError(
            f"certificates cannot be used ({error}); name PEM files with --ca, --certificate and "
            "--key"
        ) from error
    return context
