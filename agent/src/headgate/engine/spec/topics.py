"""Topics of Kafka that a stage reads or writes instead of containers: plain data about one."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from headgate.engine.spec.codecs import OnUndecodable

TOPIC_METADATA: Final = {
    "_partition": "int32",
    "_offset": "int64",
    "_timestamp": "timestamp[ms]",
    "_tombstone": "bool",
}
"""Columns that say of a message where it stands, with their types: headgate fills them in."""


class OnGap(StrEnum):
    """What a stage does whose topic has not all messages any more that it has not read."""

    FAIL = "fail"
    CONTINUE = "continue"
    """It reads on with what is there."""


class TopicSpec(Struct, frozen=True, tag="topic"):
    """A topic whose messages, JSON objects, are a flow of a stage."""

    topic: str
    columns: dict[str, str] = {}
    """Of messages that are read, with the names of Arrow's types; those that are written have the
    columns of their flow."""
    key: str = ""
    """The column that is the message's key; none where empty."""
    on_gap: OnGap = OnGap.FAIL
    on_undecodable: OnUndecodable = OnUndecodable.FAIL
    """``FAIL`` or ``SKIP``, of a message that has not the declared columns."""
