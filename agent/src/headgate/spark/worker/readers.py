"""Consumers of updates, lent to steps for the time of a read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from headgate.spark.kafka.updates import UpdateReader
from headgate.spark.messages import StepRequest


class ReaderPool:
    """Kafka consumers that are lent out and kept for the next."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], list[UpdateReader]] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self, request: StepRequest) -> Iterator[UpdateReader]:
        """Lend a consumer of the request's brokers for the time of a read."""
        key = request.kafka, repr(sorted(request.kafka_properties.items()))
        with self._lock:
            idle = self._idle.setdefault(key, [])
            reader = idle.pop() if idle else None
        reader = reader or UpdateReader(request.kafka, request.kafka_properties)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        with self._lock:
            idle.append(reader)
