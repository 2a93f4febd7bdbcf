"""A request to a row, what must be judged of its reply, and what the row then holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headgate.hbase import Dialect, Verdict

SEED = {b"f:a": b"old", b"f:b": b"old2", b"f:": b"empty", b"f:n": bytes(7) + b"\x07", b"g:a": b"g"}
"""What every row holds before its case."""

TOO_LARGE = b"x" * 11_000_000  # HBase's client refuses cells above 10 MiB


class Case(Struct, frozen=True):
    """A request to one row, what must be judged of it, and how the row then differs from SEED."""

    name: str
    dialect: Dialect
    method: str
    arguments: Callable[[bytes, bytes], dict[str, Any]]
    verdict: Verdict
    after: Mapping[bytes, bytes | None]


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


A, N, U = Verdict.APPLIED, Verdict.NOTHING, Verdict.UNKNOWN

ALL_GONE: dict[bytes, bytes | None] = dict.fromkeys(SEED)
A_GONE: dict[bytes, bytes | None] = {b"f:a": None}
F_GONE: dict[bytes, bytes | None] = {name: None for name in SEED if name.startswith(b"f:")}
