"""Frames over pipes: the length of a message, then the message.

A child reads and writes them as they come, its parent until a deadline. Programs that are run as
files import this module, so it loads nothing of the agent.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import BinaryIO, Final

_LENGTH: Final = struct.Struct(">Q")
_CHUNK: Final = 1 << 16


def write_frame(stream: BinaryIO, message: bytes) -> None:
    """Write a message to a stream."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes:
    """Return the next message of a stream.

    Raises:
        EOFError: the stream ends before the message does.
    """
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return _read(stream, length)


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def send_frame(descriptor: int, message: bytes, deadline: float) -> None:
    """Write a message to a pipe.

    Args:
        descriptor: the pipe, which does not block.
        message: the message.
        deadline: the time on the monotonic clock at which it must have been read.

    Raises:
        TimeoutError: it was not.
        BrokenPipeError: nobody reads the pipe.
    """
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        _await(select.POLLOUT, descriptor, deadline)
        rest = rest[os.write(descriptor, rest) :]


def receive_frame(descriptor: int, deadline: float) -> bytes:
    """Return the next message of a pipe.

    Args:
        descriptor: the pipe.
        deadline: the time on the monotonic clock at which it must have come.

    Raises:
        TimeoutError: it did not.
        EOFError: the pipe ends before the message does.
    """
    (length,) = _LENGTH.unpack(_receive(descriptor, _LENGTH.size, deadline))
    return _receive(descriptor, length, deadline)


def _receive(descriptor: int, size: int, deadline: float) -> bytes:
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
