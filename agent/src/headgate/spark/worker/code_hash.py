"""The hash by which people know which code a run had, whatever launched it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def code_hash(digests: Mapping[str, bytes]) -> str:
    """Return SHA-256 (hexadecimal) of modules; empty where there is none.

    Args:
        digests: SHA-256 of each module's source, by the module's name.
    """
    if not digests:
        return ""
    whole = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        whole.update(name.encode() + b"\0" + digest)
    return whole.hexdigest()


def digest_of(source: bytes) -> bytes:
    """Return SHA-256 of a module's source."""
    return hashlib.sha256(source).digest()
