"""What processes have had of the processor."""

from __future__ import annotations

import psutil
from msgspec import Struct


class Spent(Struct, frozen=True):
    """Processor time, in seconds: since a process began, or of some requests."""

    user: float = 0.0
    """Of the target's first thread."""
    kernel: float = 0.0
    """Likewise."""
    threads: float = 0.0
    """Of its others, in either mode."""
    broker: float = 0.0
    """Of Kafka's broker."""

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """Return the sum with so many times another."""
        return Spent(
            self.user + times * other.user,
            self.kernel + times * other.kernel,
            self.threads + times * other.threads,
            self.broker + times * other.broker,
        )


def spent_by(target: int | None, broker: int | None) -> Spent:
    """Return the processor time of processes since they began; None: it is not known."""
    user = kernel = threads = 0.0
    if target is not None:
        for thread in psutil.Process(target).threads():
            if thread.id == target:
                user, kernel = thread.user_time, thread.system_time
            else:
                threads += thread.user_time + thread.system_time
    of_broker = psutil.Process(broker).cpu_times() if broker is not None else None
    return Spent(
        user, kernel, threads, of_broker.user + of_broker.system if of_broker is not None else 0.0
    )


def listening(address: tuple[str, int]) -> int | None:
    """Return the process that listens on a port of this machine; None where it is not found."""
    for connection in psutil.net_connections("tcp"):
        here = connection.laddr
        if connection.status == psutil.CONN_LISTEN and here and here.port == address[1]:
            return connection.pid
    return None
