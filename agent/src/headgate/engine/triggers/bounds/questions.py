"""What is asked of users' metrics: the changed cells of a container, and what they make of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct

from headgate.engine.cells.pending import Pending
from headgate.engine.triggers.policy import Part


class ChangedValues(Struct, frozen=True, array_like=True):
    """x and x′ of the cells with x ≠ x′, in the same order; a missing one is 0 or None.

    Where the values are numbers, both hold them as little-endian doubles, one after the other.
    """

    current: bytes | list[bytes | None]
    previous: bytes | list[bytes | None]

    def __len__(self) -> int:
        return len(self.current) // (8 if isinstance(self.current, bytes) else 1)


class MetricQuestion(Struct, frozen=True, array_like=True):
    """The value of one bound's metric; ``parts`` has a container table by table."""

    bound: str
    version: tuple[float, ...]
    """Of the container; it comes back with the answer."""
    entry: str
    """``module:Class``."""
    parts: list[ChangedValues]
    elements: int
    """n: cells that are present now."""


class MetricQuestions(Struct, frozen=True, array_like=True):
    """All that an action asks at a time."""

    questions: list[MetricQuestion]


class MetricAnswer(Struct, frozen=True, array_like=True):
    """A metric's value, or why there is none: then its bound counts as reached."""

    bound: str
    version: tuple[float, ...]
    amount: float | None
    failure: str = ""


class MetricAnswers(Struct, frozen=True, array_like=True):
    """The answers to ``MetricQuestions``."""

    answers: list[MetricAnswer]


def encode_metrics(message: MetricQuestions | MetricAnswers) -> bytes:
    """Return questions or answers as bytes."""
    return msgspec.msgpack.encode(message)


def decode_metric_questions(message: bytes) -> MetricQuestions:
    """Return what was asked; raises ``msgspec.MsgspecError`` for anything else."""
    return msgspec.msgpack.decode(message, type=MetricQuestions)


def decode_metric_answers(message: bytes) -> MetricAnswers:
    """Return what was answered; raises ``msgspec.MsgspecError`` for anything else."""
    return msgspec.msgpack.decode(message, type=MetricAnswers)


def changed_values(pending: Pending) -> ChangedValues:
    """Return the cells of a part that have changed since the cut."""
    current, previous = pending.moved()
    if current.dtype == object:
        return ChangedValues(current.tolist(), previous.tolist())
    return ChangedValues(
        np.ascontiguousarray(current, "<f8").tobytes(),
        np.ascontiguousarray(previous, "<f8").tobytes(),
    )


def version_of(parts: Sequence[Part]) -> tuple[float, ...]:
    """Return numbers that are others when a container has changed, or been consumed."""
    numbers: list[float] = []
    for cells, pending in parts:
        difference = pending.difference.value
        comparable = 0.0 if math.isnan(difference) else difference
        numbers += (pending.received, pending.changed, comparable, cells.columns.size)
    return tuple(numbers)
