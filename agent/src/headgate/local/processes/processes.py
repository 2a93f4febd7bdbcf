"""The stack's processes: started apart from the terminal, found again, ended for certain.

A part is recognised by marks in its own command line, read from the system each time. No file of
process numbers can therefore be stale: neither a reboot nor a number that was given to another
program since, nor a starter killed before it wrote anything down, misleads a later command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec
import psutil

from headgate.local.errors import PartFailedError

_INSTANCE_MARK = "-Dheadgate.instance="
_PART_MARK = "-Dheadgate.part="
_LINUX_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_POLL_SECONDS = 0.05
# Start times are counted from the boot time, which moves when the clock is corrected; no number
# comes round again this fast.
_CLOCK_STEP_SECONDS = 2.0


class Lifetime(Enum):
    """How long a stack's processes live."""

    DETACHED = "until they are ended"
    WITH_CALLER = "no longer than the process that started them (Linux; elsewhere as DETACHED)"


class ProcessIdentity(msgspec.Struct, frozen=True):
    """One process for certain: a number is used again, a number and a start time are not.

    Attributes:
        pid: Its number.
        started: When it started, in Unix seconds as psutil gives them.
    """

    pid: int
    started: float

    def lives(self) -> bool:
        """Say whether any thread of this very process still runs.

        The first thread of a killed JVM can be a zombie before the others have ended, and until
        they have, its ports answer.
        """
        process = self.process()
        if process is None:
            return False
        try:
            return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
        except psutil.NoSuchProcess:
            return False

    def listens(self, port: int) -> bool:
        """Say whether it is this process that listens on a port of this host."""
        process = self.process()
        if process is None:
            return False
        try:
            connections = process.net_connections("tcp")
        except psutil.NoSuchProcess:
            return False
        return any(
            each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections
        )

    def process(self) -> psutil.Process | None:
        """Return it for psutil, or None when it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < _CLOCK_STEP_SECONDS
        except psutil.NoSuchProcess:
            return None
        return process if same else None


class Children:
    """Processes that this one started, to be collected when they have ended."""

    def __init__(self) -> None:
        self._left: list[subprocess.Popen[bytes]] = []

    def add(self, child: subprocess.Popen[bytes]) -> None:
        """Collect this one too, once it has ended."""
        self._left.append(child)

    def reap(self) -> None:
        """Collect those that have ended by now, so that no zombies are left."""
        self._left = [child for child in self._left if child.poll() is None]


def marks(instance: Path, part: str) -> list[str]:
    """Return the arguments for Java by which a part is found again."""
    return [f"{_INSTANCE_MARK}{instance}", f"{_PART_MARK}{part}"]


def part_of(command: Sequence[str], instance: Path) -> str | None:
    """Return the part that a command line runs for an instance, or None for any other program."""
    if f"{_INSTANCE_MARK}{instance}" not in command:
        return None
    for argument in command:
        if argument.startswith(_PART_MARK):
            return argument.removeprefix(_PART_MARK)
    return None


def find(instance: Path) -> dict[str, list[ProcessIdentity]]:
    """Return the live processes of an instance by part, the oldest first."""
    found: dict[str, list[ProcessIdentity]] = {}
    for process in psutil.process_iter():
        try:
            part = part_of(process.cmdline(), instance)
            if part is not None and process.status() != psutil.STATUS_ZOMBIE:
                identity = ProcessIdentity(pid=process.pid, started=process.create_time())
                found.setdefault(part, []).append(identity)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended under our eyes, or is another user's and so none of ours
    for identities in found.values():
        identities.sort(key=lambda identity: identity.started)
    return found


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    lifetime: Lifetime,
    *,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, its output going to ``log``.

    A session of its own keeps the terminal's Ctrl-C away from it: the command that started it
    ends it in order. The log of the run before is kept beside, with ``.1`` after its name.
    Of this process's open files it has those whose descriptors are ``inherited``, and no other.
    """
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    before_exec = _die_with(os.getpid()) if lifetime is Lifetime.WITH_CALLER else None
    with log.open("wb") as output:
        return subprocess.Popen(
            list(command),
            env=dict(environment),
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before_exec,
            pass_fds=inherited,
        )


def end(
    identities: Iterable[ProcessIdentity], patience: float, reap: Callable[[], None]
) -> list[ProcessIdentity]:
    """End processes: ask each, wait, then kill what is left.

    Args:
        identities: Which ones; those that have ended already do no harm.
        patience: Seconds between asking and killing; 0 kills at once.
        reap: Called while waiting, so that ended children are collected.

    Returns:
        Those that had to be killed.

    Raises:
        PartFailedError: If even a killed one does not end.
    """
    left = [identity for identity in identities if identity.lives()]
    if patience > 0:
        _signal(left, signal.SIGTERM)
        left = _wait(left, patience, reap)
    _signal(left, signal.SIGKILL)
    stuck = _wait(left, _KILL_SECONDS, reap)
    if stuck:
        numbers = ", ".join(str(identity.pid) for identity in stuck)
        raise PartFailedError(
            f"processes {numbers} did not end {_KILL_SECONDS:g} s after SIGKILL: the system holds "
            "them, on a disk or network that does not answer; see its log (dmesg)"
        )
    return left


_KILL_SECONDS = 20.0  # a JVM that writes to a slow disk ends when its system call returns


def _signal(identities: Iterable[ProcessIdentity], number: signal.Signals) -> None:
    for identity in identities:
        process = identity.process()
        if process is None:
            continue
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue  # it ended by itself: that is what was wanted


def _wait(
    identities: Sequence[ProcessIdentity], seconds: float, reap: Callable[[], None]
) -> list[ProcessIdentity]:
    deadline = time.monotonic() + seconds
    left = list(identities)
    while True:
        reap()
        left = [identity for identity in left if identity.lives()]
        if not left or time.monotonic() >= deadline:
            reap()  # one may have ended since
            return left
        time.sleep(_POLL_SECONDS)


def _die_with(parent: int) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask_kernel() -> None:
        prctl(_LINUX_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the kernel knew our wish
            os._exit(1)

    return ask_kernel
