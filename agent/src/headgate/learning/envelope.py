"""Stored models: bytes that say what they are, of which version, and whether they are whole."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct


class UnusableModel(Exception):
    """A model that is damaged, newer than this program, or of something else."""


class _Sealed(Struct, frozen=True, array_like=True):
    kind: str
    version: int
    checksum: bytes
    """SHA-256 of kind, version and body."""
    body: bytes


def _checksum(kind: str, version: int, body: bytes) -> bytes:
    return hashlib.sha256(f"{kind}/{version}/".encode() + body).digest()


def seal(kind: str, version: int, body: bytes) -> bytes:
    """Return a body with its kind, its version and a checksum of all three."""
    return msgspec.msgpack.encode(_Sealed(kind, version, _checksum(kind, version, body), body))


def unseal(data: bytes, kind: str, newest: int) -> bytes:
    """Return the body of what was sealed as this kind.

    Args:
        data: what ``seal`` returned, once.
        kind: that it has to be of.
        newest: the version up to which its body can be read.

    Raises:
        UnusableModel: it is of another kind, is damaged, or was written by a newer program.
    """
    try:
        sealed = msgspec.msgpack.decode(data, type=_Sealed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"this is no model ({error}); train the dataflow again"
        raise UnusableModel(message) from error
    if sealed.kind != kind:
        message = f"this is a model of kind {sealed.kind!r}, not {kind!r}; train the dataflow again"
        raise UnusableModel(message)
    if sealed.version > newest:
        message = (
            f"the model is of version {sealed.version} and this program reads {newest} at most; "
            "upgrade it, or train the dataflow again"
        )
        raise UnusableModel(message)
    if _checksum(sealed.kind, sealed.version, sealed.body) != sealed.checksum:
        message = "the model is damaged: its checksum differs; train the dataflow again"
        raise UnusableModel(message)
    return sealed.body
