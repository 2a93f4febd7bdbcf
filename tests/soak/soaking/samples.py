"""How much memory processes take and how large the state is, over a piece."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from confluent_kafka import KafkaException
from thriftpy2.thrift import TException

from headgate.local import LocalStackError
from soaking import topics
from soaking.dataflows import ALL
from soaking.stand import Stand

_EVERY = 10.0  # seconds between two looks at processes
_STATE_EVERY = 60.0  # seconds between two looks at what is stored

Series = dict[str, list[tuple[float, float]]]


class Sampler:
    """Looks at processes and at what is stored while it is entered.

    Attributes:
        memory: resident bytes at moments in seconds, by process and life.
        stored: sizes likewise: of the agents' table in rows and bytes, of topics in messages.
    """

    def __init__(self, stand: Stand) -> None:
        self.memory: Series = defaultdict(list)
        self.stored: Series = defaultdict(list)
        self._stand = stand
        self._began = time.monotonic()
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look from now on, in threads of its own."""
        looks = ((self._look_at_memory, _EVERY), (self._look_at_stored, _STATE_EVERY))
        threads = [threading.Thread(target=self._run, args=look) for look in looks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _run(self, look: object, every: float) -> None:
        while not self._stop.wait(every):
            look(time.monotonic() - self._began)  # type: ignore[operator]

    def _look_at_memory(self, at: float) -> None:
        for service in list(self._stand.services.values()):
            pid = service.pid
            if pid is None:
                continue
            life = f"{service.name}.{service.lives}"
            self._add(f"{life}", pid, at)
            for each in service.descendants():
                self._add(f"{life}/{each.pid}", each.pid, at)

    def _add(self, name: str, pid: int, at: float) -> None:
        try:
            self.memory[name].append((at, float(psutil.Process(pid).memory_info().rss)))
        except psutil.NoSuchProcess:
            return  # it ended under our eyes

    def _look_at_stored(self, at: float) -> None:
        try:
            rows, size = self._stand.state_size()
            self.stored["state rows"].append((at, float(rows)))
            self.stored["state bytes"].append((at, float(size)))
            for flow in ALL:
                messages = topics.size(self._stand.addresses.kafka, flow.input)
                self.stored[f"messages of {flow.input}"].append((at, float(messages)))
        except (OSError, TException, LocalStackError, KeyError, KafkaException):
            return  # HBase or Kafka is away: that is what is done to them
