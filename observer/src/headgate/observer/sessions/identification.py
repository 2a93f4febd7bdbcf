"""How an observer says that it is one: a method that HBase does not have, which it answers."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

IDENTIFY: Final = "headgate.identify"
"""Name of the method; it has no arguments. HBase itself answers that it does not know it."""


class Identification(Struct, frozen=True):
    """Who answers, and whether its hot path is compiled."""

    observer: str
    epoch: int
    compiled: bool


def encode_identification(identification: Identification) -> bytes:
    """Return the text of the reply."""
    return msgspec.json.encode(identification)


def decode_identification(text: bytes) -> Identification | None:
    """Return who answered; None if the text says nothing of the kind."""
    try:
        return msgspec.json.decode(text, type=Identification)
    except msgspec.MsgspecError:
        return None
