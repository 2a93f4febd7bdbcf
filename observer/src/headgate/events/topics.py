"""Names of topics, and the partition of a row."""

from __future__ import annotations

import hashlib
import zlib

CONTROL_TOPIC = "headgate.control"
FLOWS_TOPIC = "headgate.flows"
DECISIONS_TOPIC = "headgate.decisions"
MACHINES_TOPIC = "headgate.machines"

_UPDATES_PREFIX = "headgate.updates."
_MAX_TOPIC = 249  # Kafka's own limit of a topic name's length, in characters
_DIGEST = 32  # hexadecimal characters kept of a SHA-256 when a name is too long: 128 bits


def updates_topic(table: str) -> str:
    """Return the topic of a table's updates.

    Letters, digits and ``-`` stand for themselves, every other byte of the name as ``_`` and two
    hexadecimal digits. Kafka treats ``.`` and ``_`` as equal in metric names, so ``.`` is escaped
    too and two tables never meet. A name too long for Kafka ends in a hash of the whole instead.
    """
    escaped = "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte == 0x2D else f"_{byte:02x}"
        for byte in table.encode()
    )
    if len(_UPDATES_PREFIX) + len(escaped) <= _MAX_TOPIC:
        return _UPDATES_PREFIX + escaped
    digest = hashlib.sha256(table.encode()).hexdigest()[:_DIGEST]
    kept = _MAX_TOPIC - len(_UPDATES_PREFIX) - _DIGEST - 2
    # "__" cannot come from the escaping, so a hashed name never equals a plain one.
    return f"{_UPDATES_PREFIX}{escaped[:kept]}__{digest}"


def table_of(topic: str) -> str | None:
    """Return the table whose updates are in a topic; None where its name does not say."""
    escaped = topic.removeprefix(_UPDATES_PREFIX)
    if escaped == topic or "__" in escaped:
        return None
    plain, *parts = escaped.split("_")
    try:
        name = plain.encode() + b"".join(
            bytes.fromhex(part[:2]) + part[2:].encode() for part in parts
        )
        table = name.decode()
    except ValueError:
        return None
    return table if updates_topic(table) == topic else None


def partition_of(row: bytes, partitions: int) -> int:
    """Return the partition of a row's updates: CRC-32 of the row modulo their number."""
    return zlib.crc32(row) % partitions
