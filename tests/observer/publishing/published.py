"""Writes to publish, failures of their deliveries, and what a partition's log has of them."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.events import Outcome, UpdateBatch, UpdateKind, partition_of
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind
from headgate.observer.publishing.ended import EndedWrite

PARTITIONS = 3
TIMEOUT = DeliveryFailure(FailureKind.OTHER, "timed out")
TOO_LARGE = DeliveryFailure(FailureKind.TOO_LARGE, "too large")


def write(
    intent: int,
    rows: Sequence[bytes],
    *,
    value: bytes = b"v",
    kind: UpdateKind = UpdateKind.PUT,
    outcome: Outcome = Outcome.APPLIED,
    ambiguous: frozenset[bytes] = frozenset(),
) -> EndedWrite:
    count = len(rows)
    return EndedWrite(
        intent,
        "mutateRows",
        outcome,
        1.0,
        None,
        bytes([kind]) * count,
        list(rows),
        [b"f:q"] * count,
        [-1] * count,
        [value] * count,
        ambiguous,
    )


def batches(log: Sequence[object]) -> list[UpdateBatch]:
    return [message for message in log if isinstance(message, UpdateBatch)]


def intents(log: Sequence[object]) -> list[int]:
    return [part.intent for batch in batches(log) for part in batch.requests]


def row_in(partition: int, number: int = 0) -> bytes:
    """Return a row of the partition; another one for each number."""
    found = (
        row
        for row in (b"row%d" % i for i in range(100_000))
        if partition_of(row, PARTITIONS) == partition
    )
    for _ in range(number):
        next(found)
    return next(found)
