"""Choosing ports of 127.0.0.1, and holding them until their servers listen."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Mapping
from enum import Enum

from headgate.local.errors import NoFreePortError

HOST = "127.0.0.1"


class Port(Enum):
    """The ports of a stack; the value is the one that its software has by default."""

    ZOOKEEPER = 2181
    THRIFT1 = 9090
    THRIFT2 = 9091
    KAFKA = 9092
    KAFKA_CONTROLLER = 9093
    CONNECT = 15002

    @property
    def key(self) -> str:
        """Return its name in records and configuration, such as ``kafka_controller``."""
        return self.name.lower()


_FALLBACK_OFFSET = 10_000
_FALLBACK_STEP = 10  # the defaults differ in their last digit, so no two ports meet on the way
_FALLBACKS = 300  # ends below 32768, where Linux begins to give ports to outgoing connections


class PortReservation:
    """Holds chosen ports, bound but not listening, until it is closed.

    On Linux a server that sets SO_REUSEADDR, as Java's do, may listen on a port that another
    socket with SO_REUSEADDR only has bound. So a port that was found free cannot be given to
    another program in the seconds that a JVM takes to start, and the JVM still gets it. Another
    stack binds in the same way: what keeps it away is a name that goes with each port.

    A server that is started with what ``inherited`` gives holds its ports itself, for as long as
    it lives: also where its starter is killed before it listens.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[socket.socket, ...]] = {}

    def choose(self, port: Port, before: int | None) -> int:
        """Return a free number for ``port`` and hold it.

        Args:
            port: Which one.
            before: The number it had when it last ran; taken again where it is still free.

        Raises:
            NoFreePortError: If the default and all its replacements are taken.
        """
        if before is not None and self._hold(before, returning=True):
            return before
        for number in candidates(port):
            if self._hold(number, returning=False):
                return number
        raise NoFreePortError(
            f"no port is free for {port.key}: {port.value} and its {_FALLBACKS} replacements are "
            "taken; end some of what listens there (ss -ltnp shows it)"
        )

    def inherited(self, numbers: Iterable[int]) -> list[int]:
        """Return the descriptors to start the server of these ports with."""
        return [each.fileno() for number in numbers for each in self._held.get(number, ())]

    def close(self) -> None:
        """Let go of all ports."""
        while self._held:
            for each in self._held.popitem()[1]:
                each.close()

    def _hold(self, number: int, *, returning: bool) -> bool:
        if not returning and not _unbound(number):
            return False
        if sys.platform != "linux":
            # A bound port would keep its own server out.
            held = _bind(number, reuse=True)
            if held is not None:
                held.close()
            return held is not None
        name = _named(number)
        if name is None:
            return False
        held = _bind(number, reuse=True)
        if held is None:
            name.close()
            return False
        self._held[number] = (name, held)
        return True


def candidates(port: Port) -> list[int]:
    """Return the numbers to try for a port: the default first, then its replacements."""
    first = port.value + _FALLBACK_OFFSET
    return [port.value, *range(first, first + _FALLBACK_STEP * _FALLBACKS, _FALLBACK_STEP)]


def moved(chosen: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the ports that are not the default ones: key to (default, chosen)."""
    return {
        port.key: (port.value, chosen[port.key])
        for port in Port
        if port.key in chosen and chosen[port.key] != port.value
    }


def _unbound(number: int) -> bool:
    """Say whether no socket at all has this port; one that is only reserved counts too."""
    probe = _bind(number, reuse=False)
    if probe is None:
        return False
    probe.close()
    return True


def _named(number: int) -> socket.socket | None:
    """Return what holds the name of a port; None where another reservation holds it.

    An abstract address (unix(7)) belongs to the network namespace, as ports do, and is free again
    when its process has ended, however that ends.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0headgate-local-port-{number}")
    except OSError:
        name.close()
        return None
    return name


def _bind(number: int, *, reuse: bool) -> socket.socket | None:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if reuse:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, number))
    except OSError:
        bound.close()
        return None
    return bound
