"""Locks between processes that no crash can wedge."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.local.errors import InstanceBusyError

_RETRY_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, patience: float, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a file while the body runs.

    The kernel drops it when its process ends, however it ends, so the file's being there means
    nothing; it only names its last holder for the message.

    Args:
        path: The lock's file, made when missing.
        patience: Seconds to wait for another holder.
        waiting: Called once, with a sentence, if there is another holder.

    Raises:
        InstanceBusyError: If the other holder keeps it for longer than ``patience``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, path, patience, waiting)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, patience: float, waiting: Callable[[str], None]) -> None:
    deadline = time.monotonic() + patience
    notified = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "backslashreplace") or "unknown"
            if time.monotonic() >= deadline:
                raise InstanceBusyError(
                    f"process {holder} has held {path} for {patience:g} s; wait until it has "
                    "finished, or end it, and try again"
                ) from error
            if not notified:
                waiting(f"waiting for process {holder}, which works on {path.parent}")
                notified = True
            time.sleep(_RETRY_SECONDS)
        else:
            return
