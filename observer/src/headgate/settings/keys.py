"""Keys that agents share: what one has signed, the others believe."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.settings.places import ConfigurationError
from headgate.settings.secret_files import provide_secret, state_folder

_ID_BYTES: Final = 8
"""Of a key's name in signatures: enough to tell a few keys apart."""
_LEAST_CHARACTERS: Final = 32
"""Of a key: it can be guessed at leisure by whoever reads a signature."""
_AGENT_WRITE: Final = b"headgate agent writes"
"""Domain of its signatures: nothing else that is signed with the same key passes for one."""
_MAKE: Final = "openssl rand -hex 32"


class KeyRing:
    """Keys, of which the first signs and all are believed, so that one can follow another.

    Args:
        keys: at least one.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id(key): key for key in keys}
        self._signs = _id(keys[0])

    def sign(self, *parts: bytes) -> bytes:
        """Return the signature of some parts, in this order: HMAC-SHA256, after the key's name."""
        return self._signs + _mac(self._keys[self._signs], parts)

    def believes(self, signature: bytes, *parts: bytes) -> bool:
        """Return whether a holder of one of the keys has signed exactly these parts."""
        key = self._keys.get(signature[:_ID_BYTES])
        return key is not None and hmac.compare_digest(signature[_ID_BYTES:], _mac(key, parts))

    def is_first(self, signature: bytes) -> bool:
        """Return whether a signature names the key that signs now."""
        return signature[:_ID_BYTES] == self._signs


def read_keys(path: Path) -> KeyRing:
    """Return the keys in a file: one a line, the one that signs first.

    Raises:
        ConfigurationError: it cannot be read, or holds no key that could not be guessed.
    """
    try:
        return parse_keys(path.read_bytes(), path)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: the key cannot be read ({error.strerror or error}); give headgate's user the "
            "right to read it, or name another file with key_file"
        ) from error


def shared_keys(key_file: str) -> KeyRing:
    """Return the keys in a configured file; where none is, the one in the user's state folder.

    That one is made by whoever looks for it first.

    Raises:
        ConfigurationError: there is no key that can be used.
    """
    if key_file:
        return read_keys(Path(key_file).expanduser())
    path = key_path()
    instead = f"write a key to a file ({_MAKE}) and name it with key_file"
    return parse_keys(provide_secret(path, new_key, instead), path)


def key_path() -> Path:
    """Return where the key is that a user's own services share."""
    return state_folder() / "key"


def parse_keys(content: bytes, path: Path) -> KeyRing:
    """Return the keys in a file's content; ``path`` is its name in messages.

    Raises:
        ConfigurationError: there is no key in it that could not be guessed.
    """
    lines = [(number, line.strip()) for number, line in enumerate(content.splitlines(), 1)]
    keys = [(number, line) for number, line in lines if line and not line.startswith(b"#")]
    if not keys:
        raise ConfigurationError(f"{path}: there is no key in it; write one with: {_MAKE}")
    for number, key in keys:
        if len(key) < _LEAST_CHARACTERS:
            raise ConfigurationError(
                f"{path}:{number}: a key of {len(key)} characters can be guessed; write one of at "
                f"least {_LEAST_CHARACTERS} with: {_MAKE}"
            )
    return KeyRing([key for _, key in keys])


def agent_write(table: str, rows: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return what an agent signs to prove that it is one who writes to these rows of a table.

    Whoever sees the signature can write to these rows again, and to no others.
    """
    return (_AGENT_WRITE, table.encode(), *rows)


def new_key() -> bytes:
    """Return the content of a file with one key that nobody knows."""
    return secrets.token_hex(32).encode() + b"\n"


def _id(key: bytes) -> bytes:
    return hashlib.sha256(b"headgate key\0" + key).digest()[:_ID_BYTES]


def _mac(key: bytes, parts: Sequence[bytes]) -> bytes:
    # Each part after its length: no two lists of parts are the same bytes.
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(key, whole, "sha256")
