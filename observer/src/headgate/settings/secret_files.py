"""Secrets in files of one user: made once by whoever comes first, and found by all others."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from headgate.settings.places import ConfigurationError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LONGEST: Final = 65536  # bytes; a secret has some dozens


class SecretFileError(ConfigurationError):
    """A secret that cannot be made, or must not be trusted; the message names file and cure."""


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder for what services keep: ``$XDG_STATE_HOME/headgate``."""
    state = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "headgate"


def find_secret(path: Path) -> bytes | None:
    """Return the content of a file that nobody else may read; None where there is none.

    Raises:
        SecretFileError: others may read or change it, or it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SecretFileError(
            f"{path}: cannot be read ({error.strerror}); make it readable for user {os.getuid()}"
        ) from error
    try:
        _require_private(path, os.fstat(descriptor))
        content = os.read(descriptor, _LONGEST + 1)
    finally:
        os.close(descriptor)
    if not content.strip() or len(content) > _LONGEST:
        raise SecretFileError(f"{path}: there is no secret in it; remove it, and it is made anew")
    return content


def provide_secret(path: Path, new: Callable[[], bytes], instead: str) -> bytes:
    """Return the content of a user's secret file, which is made if it is not there.

    Of several processes that make it at once one succeeds, and all return its content. The file
    is never seen half written, and it is on the disk before it is used.

    Args:
        path: the file; its folder is made too.
        new: returns the content of a new one.
        instead: what to do where none can be made, as a sentence's end.

    Raises:
        SecretFileError: it cannot be made, or others may read or change what is there.
    """
    found = find_secret(path)
    if found is not None:
        return found
    content = new()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        first = _make(path, content)
    except OSError as error:
        raise SecretFileError(f"{path}: cannot be made ({error.strerror}); {instead}") from error
    if first:
        return content
    found = find_secret(path)
    if found is None:
        raise SecretFileError(f"{path}: it was made and removed; start once more")
    return found


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretFileError(f"{path}: it is no file; remove it, and it is made anew")
    if found.st_uid not in {os.getuid(), 0}:
        raise SecretFileError(
            f"{path}: it belongs to user {found.st_uid}, who may know or change it; remove it, and "
            "it is made anew"
        )
    if found.st_mode & _OTHERS:
        raise SecretFileError(
            f"{path}: others may read or change it (mode {stat.S_IMODE(found.st_mode):04o}); "
            "remove it, and it is made anew; or, if nobody has read it: chmod 600"
        )


def _make(path: Path, content: bytes) -> bool:
    """Make the file; return whether this process was first."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write(draft, content)
        # Not a rename, which would replace the file of another process that was first.
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return True


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
