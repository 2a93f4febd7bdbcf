"""Questions about processes that may end while they are asked."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def is_there(process: psutil.Process) -> bool:
    """Return whether it runs; what has ended and was not waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_of(process: psutil.Process) -> list[str]:
    """Return its command's words; none where it has ended, or is another user's."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def named(processes: Iterable[psutil.Process], name: str) -> list[psutil.Process]:
    """Return those of a program's name that have not ended."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.name() == name:
                found.append(process)
    return found


def running_below(program: str) -> list[psutil.Process]:
    """Return all below this process that have a program's name in their commands."""
    below = psutil.Process().children(recursive=True)
    return [each for each in below if any(program in word for word in command_of(each))]
