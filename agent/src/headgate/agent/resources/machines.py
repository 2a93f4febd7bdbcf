"""How busy this machine is, measured by psutil between two samples."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import psutil

from headgate.events import VERSION, MachineLoad

_PERCENT = 100.0
_MILLISECONDS = 1000.0
_NO_DISKS = ("loop", "ram", "zram")
"""Names that begin so are no disks of their own."""


class MachineSampler:
    """Samples of this machine, each over the time since the one before.

    Args:
        machine: how samples call it.
        weight: its part among the machines on which steps run.
    """

    def __init__(self, machine: str, weight: float = 1.0) -> None:
        self.machine = machine
        self._weight = weight
        self._cores = psutil.cpu_count() or 1
        psutil.cpu_percent()  # the first call has nothing to compare with
        self._at = time.monotonic()
        self._busy = _disk_milliseconds()
        self._bytes = _network_bytes()

    def sample(self) -> MachineLoad:
        """Return how busy the machine was since the last call."""
        now = time.monotonic()
        seconds = max(now - self._at, 1e-3)
        busy, sent = _disk_milliseconds(), _network_bytes()
        disks = [
            (milliseconds - self._busy[disk]) / (seconds * _MILLISECONDS) * _PERCENT
            for disk, milliseconds in busy.items()
            if disk in self._busy
        ]
        # A counter that began anew, after an interface went and came back, says nothing.
        network = None if sent is None or self._bytes is None else (sent - self._bytes) / seconds
        found = MachineLoad(
            VERSION,
            self.machine,
            time.time(),
            cpu=psutil.cpu_percent(),
            memory=psutil.virtual_memory().percent,
            disk=min(_PERCENT, max(0.0, *disks)) if disks else None,
            network=network if network is not None and network >= 0 else None,
            load=os.getloadavg()[0] / self._cores,
            weight=self._weight,
        )
        self._at, self._busy, self._bytes = now, busy, sent
        return found


def _disk_milliseconds() -> Mapping[str, float]:
    """Return the time that each disk has been busy; none where the system does not say."""
    counters = psutil.disk_io_counters(perdisk=True) or {}
    return {
        disk: float(counter.busy_time)
        for disk, counter in counters.items()
        if hasattr(counter, "busy_time") and not disk.startswith(_NO_DISKS)
    }


def _network_bytes() -> float | None:
    """Return the bytes received and sent by all interfaces but the loopback."""
    counters = psutil.net_io_counters(pernic=True)
    if not counters:
        return None
    return float(sum(c.bytes_recv + c.bytes_sent for name, c in counters.items() if name != "lo"))
