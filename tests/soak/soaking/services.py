"""Agents and observers as processes that may be killed, stopped, and started again as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from headgate.local import Lifetime, start_process

_END_SECONDS = 40.0
# Only the process itself has its clock moved: what it starts is without the library.
_PROGRAM = """
import os, runpy, sys
for name in ("LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"):
    os.environ.pop(name, None)
module = sys.argv.pop(1)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


class Service:
    """One process, over all its lives.

    Args:
        name: its name.
        module: the Python module that is run.
        arguments: for it.
        environment: variables beside this program's own.
        folder: for its logs, one of each life.
        probe: host and port where it answers ``/metrics``.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        probe: str,
    ) -> None:
        self.name = name
        self.probe = probe
        self.lives = 0
        self._command = [sys.executable, "-c", _PROGRAM, module, *arguments]
        self._environment = environment
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its number, None while it does not run."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """Where the output of its newest life is."""
        return self._folder / f"{self.name}.{self.lives}.log"

    def logs(self) -> list[Path]:
        """Return the logs of all its lives, oldest first."""
        return [self._folder / f"{self.name}.{life}.log" for life in range(1, self.lives + 1)]

    def start(self) -> None:
        """Start it, where it does not run; it ends with the thread that does so."""
        if self.running:
            return
        self.lives += 1
        variables = {**os.environ, **self._environment}
        self._process = start_process(self._command, variables, self.log, Lifetime.WITH_CALLER)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it has ended."""
        if self.running and self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a fault would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> int | None:
        """End it in order; return its status, None where it did not run or had to be killed."""
        if not self.running or self._process is None:
            return None
        self.signal(signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def well(self) -> bool:
        """Return whether it answers and calls itself well."""
        with suppress(httpx.HTTPError, ValueError):
            answer = httpx.get(f"http://{self.probe}/healthz", timeout=5.0)
            return answer.status_code == httpx.codes.OK
        return False

    def descendants(self) -> list[psutil.Process]:
        """Return what it has started and what that has started, as long as it runs."""
        with suppress(psutil.NoSuchProcess):
            if self.pid is not None:
                return psutil.Process(self.pid).children(recursive=True)
        return []


def wait_until(what: object, seconds: float, look: float = 0.5) -> bool:
    """Wait until a function returns what is true; tell whether it did in time."""
    deadline = time.monotonic() + seconds
    while True:
        if what():  # type: ignore[operator]
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(look)
