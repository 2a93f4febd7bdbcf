"""Decisions that Kafka does not have yet: saved with the state, so that a replay misses none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from headgate.agent.kafka.broker import Broker

_KEPT = 500
"""Decisions that a checkpoint has at most, the newest: while Kafka is away, few are made."""


class Outbox:
    """Decisions of one dataflow, from when they are made until Kafka has them.

    Args:
        broker: publishes them.
        dataflow: whose they are.
        post: has a call made on the dataflow's turn.
        left: what an agent before had not delivered, as far as its last checkpoint knew.
    """

    def __init__(
        self,
        broker: Broker,
        dataflow: str,
        post: Callable[[Callable[[float], None]], None],
        left: Iterable[bytes],
    ) -> None:
        self._broker = broker
        self._dataflow = dataflow
        self._post = post
        self._number = 0
        self._unsent: dict[int, bytes] = {}
        self._undelivered: dict[int, bytes] = {}
        for value in left:
            self.add(value)

    def add(self, value: bytes) -> None:
        """Take a decision; ``send`` publishes it, which a checkpoint may come before."""
        self._unsent[self._number] = value
        self._number += 1

    def send(self) -> None:
        """Publish what was added, in its order."""
        while self._unsent:
            number = next(iter(self._unsent))
            value = self._undelivered[number] = self._unsent.pop(number)
            self._broker.decision(self._dataflow, value, partial(self._done, number))

    def _done(self, number: int) -> None:
        self._post(lambda _: self._forget(number))

    def _forget(self, number: int) -> None:
        self._undelivered.pop(number, None)

    @property
    def left(self) -> tuple[bytes, ...]:
        """What Kafka is not known to have."""
        return (*self._undelivered.values(), *self._unsent.values())[-_KEPT:]
