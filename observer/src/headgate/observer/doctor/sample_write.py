"""A cell that is written through an observer, read back and deleted: does its way work?"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from headgate.hbase import Dialect
from headgate.observer.doctor.recognition import Conversation, converse
from headgate.wire import Protocol, StructWriter, WireFormat

_SECONDS: Final = 15.0


class Reached(Struct, frozen=True):
    """A Thrift address that answers."""

    host: str
    port: int
    format: WireFormat
    dialect: Dialect
    tls: ssl.SSLContext | None
    observer: str


class SampleWrite(Struct, frozen=True):
    """A sample write that was read back: when it was sent, and how long it took."""

    at: float
    """When it was sent, in Unix seconds."""
    seconds: float
    """How long the put took."""
    skew: float | None
    """How far HBase's clock is ahead, in seconds, beyond what the way there may have taken."""


async def write_and_read(
    reached: Reached, table: str, family: str, row: bytes, clock: Callable[[], float]
) -> SampleWrite:
    """Put a cell into the row, get the row and delete it; ``clock`` is Unix time in seconds.

    Raises:
        ValueError: a request was refused; the message says which and why.
        Unanswered: the connection ended before a reply.
        OSError: the address cannot be reached any more.
        TimeoutError: it took too long.
    """
    async with asyncio.timeout(_SECONDS):
        # Observers take binary from everybody.
        format_ = WireFormat(reached.format.transport, Protocol.BINARY)
        conversation = await converse(reached.host, reached.port, format_, tls=reached.tls)
        try:
            before = clock()
            began = time.perf_counter()
            put, get, delete = _requests(reached.dialect, table, family, row)
            await _demand(conversation, *put)
            took = time.perf_counter() - began
            after = clock()
            stamp = newest(await _demand(conversation, *get))
            await _demand(conversation, *delete)
        finally:
            conversation.close()
    skew = None
    if stamp is not None:
        skew = max(0.0, stamp - after) or min(0.0, stamp - before)
    return SampleWrite(before, took, skew)


def _requests(
    dialect: Dialect, table: str, family: str, row: bytes
) -> tuple[tuple[str, bytes], tuple[str, bytes], tuple[str, bytes]]:
    """Return name and arguments of a put, a get and a delete."""
    name, value = table.encode(), b"written by headgate doctor"
    if dialect is Dialect.THRIFT1:
        column = family.encode() + b":doctor"
        mutation = StructWriter().bool(1, False).binary(2, column).binary(3, value).end()
        first = StructWriter().binary(1, name).binary(2, row)
        put = first.structs(3, [mutation]).mapping(4, {}).end()
        get = StructWriter().binary(1, name).binary(2, row).binary(3, column).mapping(4, {}).end()
        delete = StructWriter().binary(1, name).binary(2, row).mapping(3, {}).end()
        return ("mutateRow", put), ("get", get), ("deleteAllRow", delete)
    cell = StructWriter().binary(1, family.encode()).binary(2, b"doctor").binary(3, value).end()
    what = StructWriter().binary(1, row).structs(2, [cell]).end()
    only_row = StructWriter().binary(1, row).end()
    return (
        ("put", StructWriter().binary(1, name).struct(2, what).end()),
        ("get", StructWriter().binary(1, name).struct(2, only_row).end()),
        ("deleteSingle", StructWriter().binary(1, name).struct(2, only_row).end()),
    )


async def _demand(conversation: Conversation, name: str, arguments: bytes) -> dict[int, Any]:
    """Return the fields of a reply that is no error."""
    fields = (await conversation.ask(name, arguments)).fields
    error = next((value for number, value in fields.items() if number and value), None)
    if error is not None:
        text = error.get(1, b"") if isinstance(error, dict) else error
        said = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else "an error"
        raise ValueError(f"{name} was refused: {said.splitlines()[0] if said else 'no reason'}")
    return fields


def newest(fields: Mapping[int, Any]) -> float | None:
    """Return the newest timestamp in the fields of the reply to a get, in Unix seconds."""
    found = fields.get(0)
    cells = found.get(2, []) if isinstance(found, dict) else found or []
    field = 4 if isinstance(found, dict) else 2
    stamps = [cell[field] / 1000 for cell in cells if isinstance(cell, dict) and field in cell]
    return max(stamps, default=None)
