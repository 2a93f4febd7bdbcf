"""Ports for what has to be found at the same address again after it was killed."""

from __future__ import annotations

import os
import re
import socket
from itertools import cycle

_FIRST = 21_000
_EACH = 1_000
"""Ports of one process of tests; all lie below those that the kernel gives to clients."""

_worker = re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", ""))
_begin = _FIRST + _EACH * (int(_worker[0]) % 10 if _worker else 0)
# Programs that run at once without workers do not all try the same ports first.
_turn = os.getpid() % _EACH
_ports = cycle([*range(_begin + _turn, _begin + _EACH), *range(_begin, _begin + _turn)])


def free_port() -> int:
    """Return a port on which nobody listens, another at each call."""
    for port in (next(_ports) for _ in range(_EACH)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {_begin} to {_begin + _EACH} is free")
