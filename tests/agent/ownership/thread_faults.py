"""Errors that nobody expects in a thread, and what is heard of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from headgate.agent.supervision import Supervision, ThreadKind

WAIT = 30.0  # seconds until something that must happen counts as missing


class Faults:
    """Lets one call fail, after some that did not, with an error that no code is written for."""

    def __init__(self, after: int = 0) -> None:
        self._left = after
        self.done = threading.Event()

    def __call__(self) -> None:
        if self.done.is_set():
            return
        if self._left:
            self._left -= 1
            return
        self.done.set()
        raise TypeError("injected")


class Heard:
    """Which kinds of threads failed."""

    def __init__(self) -> None:
        self.kinds: list[ThreadKind] = []
        self.supervision = Supervision(self.kinds.append, lambda failures: 0.001 * failures)


def until(what: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + WAIT
    tick = threading.Event()
    while not what():
        assert time.monotonic() < deadline, words
        tick.wait(0.001)


class Message:
    """A record of Kafka."""

    def __init__(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        self._place = (topic, partition, offset)
        self._value = value

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def error(self) -> None:
        return None


class Log:
    """A topic of one partition, and consumers of it that fail once."""

    def __init__(self, topic: str, values: Sequence[bytes | None], faults: Faults) -> None:
        self._topic = topic
        self._values = values
        self._faults = faults
        self.opened = 0

    def __call__(self, _: object) -> Any:
        self.opened += 1
        return SimpleNamespace(
            assign=self._assign,
            incremental_assign=self._assign,
            incremental_unassign=lambda _: None,
            poll=self._poll,
            consume=lambda most, _=0.0: self._consume(most),
            subscribe=self._subscribe,
            get_watermark_offsets=lambda _, **__: None,
            close=lambda: None,
        )

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._next = max(0, partitions[0].offset)

    def _subscribe(self, _: object, on_assign: Any, **__: Any) -> None:
        self._next = 0
        on_assign(None, [TopicPartition(self._topic, part) for part in range(16)])

    def _poll(self, _: float) -> Message | None:
        self._faults()
        if self._next == len(self._values):
            return None
        self._next += 1
        return Message(self._topic, 0, self._next - 1, self._values[self._next - 1])

    def _consume(self, most: int) -> list[Message]:
        found: list[Message] = []
        while len(found) < min(most, 2) and (message := self._poll(0)) is not None:
            found.append(message)
        return found


Stage = Callable[[Heard, pytest.MonkeyPatch, Path], None]


def never() -> Faults:
    faults = Faults()
    faults.done.set()
    return faults
