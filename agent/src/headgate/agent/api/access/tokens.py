"""Tokens: what callers show, and the files by which they are known.

An agent has tokens of its own in clear, since it shows one to other agents; those of its callers it
knows by their hashes only. Tokens have 256 random bits, so a plain hash gives nothing away.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import structlog
from msgspec import Meta, Struct

from headgate.agent.roles import Caller, Role
from headgate.settings import (
    ConfigurationError,
    Places,
    find_secret,
    parse,
    provide_secret,
    state_folder,
)

log = structlog.get_logger("headgate.agent.access")

OWN: Final = "agent"
"""How the log calls whoever shows a token of the agents' own."""

_PREFIX: Final = "headgate_"  # by which scanners of repositories and logs find a token
_SHORTEST: Final = 16  # characters of a token that somebody else made
_NOT_THERE: Final = (-1, -1, -1)


def new_token() -> str:
    """Return a token that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(32)


def user_token_file() -> Path:
    """Return where the agents of one user have their token, and where its commands look for it."""
    return state_folder() / "agent.token"


def hash_of(token: str) -> str:
    """Return the SHA-256 of a token, in hexadecimal digits."""
    return sha256(token.encode()).hexdigest()


class _Watched:
    """A file that is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _NOT_THERE

    def changed(self) -> bool:
        """Return whether it is another than when this was last asked."""
        try:
            found = self.path.stat()
            state = found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            state = _NOT_THERE
        changed, self._seen = state != self._seen, state
        return changed


class OwnTokens:
    """The tokens of the agents themselves: the first is shown to other agents, all are taken.

    Args:
        path: a file with a token in each line; the one in the user's state folder where None,
            which is made if it is not there.

    Raises:
        ConfigurationError: the file has none, or cannot be made.
    """

    def __init__(self, path: Path | None) -> None:
        self._made = path is None
        self._file = _Watched(path or user_token_file())
        self._file.changed()
        self._tokens = self._read()

    def first(self) -> str:
        """Return the token to be shown."""
        return self._current()[0]

    def caller(self, token: str) -> Caller | None:
        """Return who shows a token; None where it is none of these."""
        # compare_digest of texts takes ASCII only.
        shown = token.encode()
        known = [hmac.compare_digest(shown, each.encode()) for each in self._current()]
        return Caller(OWN, Role.DEFINE) if any(known) else None

    def _current(self) -> tuple[str, ...]:
        if self._file.changed():
            try:
                self._tokens = self._read()
                log.info("token read again", file=str(self._file.path))
            except ConfigurationError as error:
                log.warning("token not read again: the one before stays", reason=str(error))
        return self._tokens

    def _read(self) -> tuple[str, ...]:
        path = self._file.path
        if self._made:
            content = provide_secret(
                path,
                lambda: f"{new_token()}\n".encode(),
                "set access.token_file to a file with a token",
            )
        else:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise ConfigurationError(
                    f"access.token_file: {path} cannot be read ({error.strerror}); write a token "
                    "into it: openssl rand -hex 32"
                ) from error
        return tokens_in(content, path)


def tokens_in(content: bytes, path: Path) -> tuple[str, ...]:
    """Return the tokens of a file that has one in each line.

    Raises:
        ConfigurationError: there is none, or one that can be guessed or cannot be sent.
    """
    try:
        tokens = tuple(content.decode("ascii").split())
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path}: a token has letters, digits and punctuation of ASCII only; make one with "
            "openssl rand -hex 32"
        ) from error
    if not tokens or any(len(token) < _SHORTEST for token in tokens):
        raise ConfigurationError(
            f"{path}: there is no token of at least {_SHORTEST} characters in each line; make one "
            "with openssl rand -hex 32"
        )
    return tokens


def find_token(path: Path | None, environment: Mapping[str, str], *, trusted: bool) -> str | None:
    """Return the token that a command shows; None where there is none.

    Args:
        path: a file that was named.
        environment: ``HEADGATE_TOKEN`` is the token, ``HEADGATE_TOKEN_FILE`` names a file.
        trusted: whether the token in the user's state folder may go to where it is sent.

    Raises:
        ConfigurationError: the file cannot be read, or has no token.
    """
    if path is None and environment.get("HEADGATE_TOKEN"):
        return environment["HEADGATE_TOKEN"].strip()
    if path is None and environment.get("HEADGATE_TOKEN_FILE"):
        path = Path(environment["HEADGATE_TOKEN_FILE"])
    if path is not None:
        try:
            return tokens_in(path.read_bytes(), path)[0]
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be read ({error.strerror}); name a file with a token"
            ) from error
    found = find_secret(user_token_file()) if trusted else None
    return tokens_in(found, user_token_file())[0] if found is not None else None


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One caller in the file of tokens."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,100}$")]
    role: Role
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """Of the token: ``printf %s TOKEN | sha256sum``."""


class _Entries(Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[TokenEntry, ...] = ()


class TokenFile:
    """The tokens of callers, by their hashes, read again when the file has changed.

    Raises:
        ConfigurationError: the file cannot be read or used.
    """

    def __init__(self, path: Path) -> None:
        self._file = _Watched(path)
        self._file.changed()
        self._entries = read_entries(path)

    def caller(self, token: str) -> Caller | None:
        """Return who shows a token; None where it is none of these."""
        if self._file.changed():
            try:
                self._entries = read_entries(self._file.path)
                log.info("tokens read again", file=str(self._file.path))
            except ConfigurationError as error:
                log.warning("tokens not read again: those before stay", reason=str(error))
        shown = hash_of(token)
        for entry in self._entries:
            if hmac.compare_digest(shown, entry.sha256):
                return Caller(entry.name, entry.role)
        return None


def read_entries(path: Path) -> tuple[TokenEntry, ...]:
    """Return the entries of a file of tokens.

    Raises:
        ConfigurationError: it cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"access.tokens: {path} cannot be read ({error}); make it with `headgate token`"
        ) from error
    return parse(_Entries, text, str(path), {}, prefix="-", check=_check).tokens


def _check(entries: _Entries, places: Places) -> None:
    seen: set[str] = set()
    for number, entry in enumerate(entries.tokens):
        here = ("tokens", str(number))
        if entry.sha256 in seen:
            raise places.problem(
                here, f"the token of {entry.name!r} is another caller's too; make one for each"
            )
        seen.add(entry.sha256)
