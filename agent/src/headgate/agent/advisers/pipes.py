"""Bytes to and from processes of the agent's own, until a deadline."""

from __future__ import annotations

import os
import select
import time
from typing import Final

_CHUNK: Final = 1 << 16


def write_whole(descriptor: int, data: bytes, deadline: float) -> None:
    """Write bytes to a pipe that does not block.

    Args:
        descriptor: of the pipe.
        data: the bytes.
        deadline: by the monotonic clock.

    Raises:
        TimeoutError: nobody has read them by then.
        BrokenPipeError: nobody will.
    """
    rest = memoryview(data)
    while rest:
        _await(select.POLLOUT, descriptor, deadline)
        rest = rest[os.write(descriptor, rest) :]


def read_whole(descriptor: int, size: int, deadline: float) -> bytes:
    """Return so many bytes of a pipe.

    Raises:
        TimeoutError: they have not come by the deadline.
        EOFError: they will not.
    """
    found = bytearray()
    while len(found) < size:
        _await(select.POLLIN, descriptor, deadline)
        some = os.read(descriptor, min(_CHUNK, size - len(found)))
        if not some:
            raise EOFError
        found += some
    return bytes(found)


def _await(event: int, descriptor: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(1000 * left):
        raise TimeoutError
