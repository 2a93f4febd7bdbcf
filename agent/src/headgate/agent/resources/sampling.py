"""Samples of the machines on which steps run, from this host, sensors and Spark, to dataflows."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

import httpx
import structlog
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from headgate.agent.configuration import Resources
from headgate.agent.resources.executors import SparkExecutors
from headgate.agent.resources.machines import MachineSampler
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.engine import Resource, ResourceSample
from headgate.events import MachineLoad, MalformedEvent, decode_machine

log = structlog.get_logger("headgate.agent.sampling")

_POLL = 0.1  # seconds a thread may take to notice that it shall stop
_BATCH = 500  # samples taken together

OnSamples = Callable[[tuple[ResourceSample, ...]], None]


def resource_sample(load: MachineLoad, now: float) -> ResourceSample:
    """Return a sample for engines: as of its receipt, for clocks of machines differ."""
    measured = {
        Resource.CPU: load.cpu,
        Resource.MEMORY: load.memory,
        Resource.DISK: load.disk,
        Resource.NETWORK: load.network,
        Resource.LOAD: load.load,
    }
    used = {resource: amount for resource, amount in measured.items() if amount is not None}
    return ResourceSample(load.machine, now, used, load.weight)


class Sampling:
    """Collects samples on threads of its own. A source that is silent is just not heard.

    Args:
        resources: which sources, and how often.
        consumer: makes a consumer of Kafka.
        on_samples: takes what was collected; called every ``every_seconds``.
        supervision: owns the threads.
    """

    def __init__(
        self,
        resources: Resources,
        consumer: Callable[[], Consumer],
        on_samples: OnSamples,
        supervision: Supervision,
    ) -> None:
        self._resources = resources
        self._consumer = consumer
        self._on_samples = on_samples
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._heard: dict[str, ResourceSample] = {}
        self._silent: set[str] = set()
        works = {ThreadKind.RESOURCES: self._collect, ThreadKind.SENSORS: self._listen}
        if resources.spark:
            works[ThreadKind.EXECUTORS] = self._ask_spark
        self._threads = [
            supervision.thread(kind, kind.value, work, self._stopping)
            for kind, work in works.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _take(self, samples: Iterable[ResourceSample]) -> None:
        with self._lock:
            self._heard.update({sample.machine: sample for sample in samples})

    def _collect(self) -> None:
        own = MachineSampler(socket.gethostname()) if self._resources.own else None
        while not self._stopping.wait(self._resources.every_seconds):
            if own is not None:
                self._take((resource_sample(own.sample(), time.time()),))
            with self._lock:
                heard, self._heard = self._heard, {}
            if heard:
                self._on_samples(tuple(heard.values()))

    def _listen(self) -> None:
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self._resources.topic, 0, OFFSET_END)])
            while not self._stopping.is_set():
                messages = consumer.consume(_BATCH, _POLL)
                now = time.time()
                loads = [load for m in messages if (load := _decoded(m)) is not None]
                self._take(
                    resource_sample(load, now) for load in loads if self._concerns(load.machine)
                )
        finally:
            consumer.close()

    def _concerns(self, machine: str) -> bool:
        # Names of hosts have no case.
        name = machine.lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self._resources.machines)

    def _ask_spark(self) -> None:
        drivers = [SparkExecutors(address) for address in self._resources.spark]
        try:
            while not self._stopping.wait(self._resources.every_seconds):
                for driver in drivers:
                    self._ask_driver(driver)
        finally:
            for driver in drivers:
                driver.close()

    def _ask_driver(self, driver: SparkExecutors) -> None:
        try:
            self._take(driver.samples(time.time()))
            self._silent.discard(driver.address)
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            # Drivers come and go with their applications: said once, then waited for.
            if driver.address not in self._silent:
                log.warning("no metrics", address=driver.address, problem=str(error))
            self._silent.add(driver.address)


def _decoded(message: Message) -> MachineLoad | None:
    if message.error() is not None:
        log.debug("machines topic", problem=str(message.error()))
        return None
    try:
        return decode_machine(message.value() or b"")
    except MalformedEvent as error:
        log.warning("machines topic", offset=message.offset(), problem=str(error))
        return None
