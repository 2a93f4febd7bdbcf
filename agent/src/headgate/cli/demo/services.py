"""Private services for demonstrations: HBase, Kafka, proxy and agent, gone when they are over."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from headgate.local import (
    Addresses,
    Lifetime,
    LocalStack,
    Progress,
    default_cache,
    default_home,
    start_process,
)

STAND_VARIABLE = "HEADGATE_DEMO_STAND"
"""In the environment of all that was started for a demonstration: its folder."""

_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
"""They live for minutes: the JVM's quick compiler alone costs half the processor time."""

_READY_SECONDS = 120.0  # observer and agent wait themselves for what they need, and say so
_AGENT_PATIENCE = 15.0  # seconds: ends its workers first
_OBSERVER_PATIENCE = 10.0  # seconds: publishes what it has forwarded
_KILL_SECONDS = 20.0  # a JVM that writes to a slow disk ends when its system call returns
_POLL_SECONDS = 0.05
_LOG_TAIL = 15  # lines of a log that an error shows
_INSTANCE = "demo"
_KEPT = "kept"
_OWNER = "owner"
_GATE = "gate"


class DemoServicesError(Exception):
    """A service did not start; the message has the end of its log."""


class DemoServices:
    """Everything a dataflow needs, in a folder and on ports of its own.

    As a context manager it runs inside the body. Whatever ends the body, all processes are ended
    and the folder is deleted. If this very process is killed, the kernel ends the services with it,
    and the next demonstration removes what is left.

    Args:
        home: where stands have their folders; the user's folder for stacks by default.
        keep: leave the folder with data, logs and charts behind.
        on_progress: called with each step of what goes on.

    Attributes:
        folder: of these; deleted at the end unless kept.
        thrift1: the proxy for HBase's first Thrift API: host and port.
        api: the agent's address, ``http://host:port``.
        kafka: Kafka's address.
    """

    def __init__(
        self, home: Path | None, *, keep: bool, on_progress: Callable[[Progress], None]
    ) -> None:
        self._all_services = (home or default_home()).expanduser().absolute() / "demos"
        self._keep = keep
        self._on_progress = on_progress
        self.folder = self._all_services / f"{os.getpid()}-{secrets.token_hex(3)}"
        self.thrift1 = ("", 0)
        self.api = ""
        self.kafka = ""
        self._stack = LocalStack(
            self.folder, _INSTANCE, cache=default_cache(home), lifetime=Lifetime.WITH_CALLER
        )
        self._services: list[tuple[subprocess.Popen[bytes], float]] = []
        self._environment = ExitStack()
        self._owner = -1

    def __enter__(self) -> Self:
        """Start everything; what an earlier, killed demonstration left is removed first.

        Raises:
            LocalStackError: HBase or Kafka did not start.
            DemoServicesError: the proxy or the agent did not start.
        """
        self._all_services.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One at a time, or another start would take a folder that has no owner yet for left over.
        gate = _lock(self._all_services / _GATE, fcntl.LOCK_EX)
        try:
            _remove_left(self._all_services, self._on_progress)
            self.folder.mkdir(mode=0o700)
            self._owner = _lock(self.folder / _OWNER)
        finally:
            os.close(gate)
        try:
            self._environment.enter_context(_variable(STAND_VARIABLE, str(self.folder)))
            self._environment.enter_context(_appended(*_JAVA_OPTIONS))
            addresses = self._stack.up(self._on_progress)
            self.kafka = str(addresses.kafka)
            thrift2 = self._start_observer(addresses)
            self._start_agent(addresses, thrift2)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.close()

    def close(self) -> None:
        """Stop everything, the agent first; a Ctrl-C meanwhile changes nothing."""
        with _interrupts_held():
            self._say("stop", "ending agent, proxy, HBase and Kafka")
            while self._services:
                process, patience = self._services.pop()
                _end(process, patience)
            if self._keep or self._stack.is_recording():
                self._stack.down()  # in order, so that its data is whole, and what it records too
            _end_marked(self.folder)
            self._environment.close()
            if self._keep:
                (self.folder / _KEPT).touch()
            else:
                shutil.rmtree(self.folder)
            os.close(self._owner)

    def _start_observer(self, addresses: Addresses) -> str:
        self._say("proxy", "starting")
        configuration = self._written(
            "observer.toml",
            f"""
            name = "demo"
            [thrift1]
            listen = "127.0.0.1:0"
            upstream = "{addresses.thrift1}"
            [thrift2]
            listen = "127.0.0.1:0"
            upstream = "{addresses.thrift2}"
            [kafka]
            bootstrap = "{addresses.kafka}"
            partitions = 2
            [journal]
            directory = "{self.folder / "journal"}"
            """,
        )
        ready = self._start("observer", configuration, _OBSERVER_PATIENCE)
        host, _, port = ready["thrift1"].rpartition(":")
        self.thrift1 = (host, int(port))
        return ready["thrift2"]

    def _start_agent(self, addresses: Addresses, thrift2: str) -> None:
        self._say("agent", "starting")
        workers = self.folder / "workers"
        workers.mkdir()
        configuration = self._written(
            "agent.toml",
            f"""
            name = "demo"
            api = "127.0.0.1:0"
            [hbase]
            thrift2 = "{thrift2}"
            [kafka]
            bootstrap = "{addresses.kafka}"
            partitions = 2
            [workers]
            directory = "{workers}"
            """,
        )
        self.api = f"http://{self._start('agent', configuration, _AGENT_PATIENCE)['api']}"

    def _written(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text("\n".join(line.strip() for line in text.splitlines()), encoding="utf-8")
        return path

    def _start(self, service: str, configuration: Path, patience: float) -> dict[str, str]:
        """Start a service and return the addresses in the line that says that it is ready."""
        log = self.folder / f"{service}.log"
        command = [sys.executable, "-m", "headgate.cli", service, "--config", str(configuration)]
        process = start_process(command, os.environ, log, Lifetime.WITH_CALLER)
        self._services.append((process, patience))
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            ended = process.poll() is not None
            ready = re.search(rb"^ready (.+)$", log.read_bytes(), re.MULTILINE)
            if ready is not None:
                pairs = re.findall(r"(\w+)=(\S+)", ready[1].decode())
                return dict(pairs)
            if ended or time.monotonic() > deadline:
                what = "ended" if ended else f"was not ready after {_READY_SECONDS:g} s"
                tail = "\n".join(
                    log.read_text(encoding="utf-8", errors="backslashreplace").splitlines()[
                        -_LOG_TAIL:
                    ]
                )
                raise DemoServicesError(f"the {service} {what}; the end of its log:\n{tail}")
            time.sleep(_POLL_SECONDS)

    def _say(self, subject: str, text: str) -> None:
        self._on_progress(Progress(subject=subject, text=text))


def _remove_left(stands: Path, on_progress: Callable[[Progress], None]) -> None:
    """End and delete the stands whose owners are gone, except the kept ones."""
    for folder in sorted(stands.iterdir()):
        if not folder.is_dir() or (folder / _KEPT).exists():
            continue
        try:
            owner = _lock(folder / _OWNER)
        except BlockingIOError:
            continue  # its demo still runs
        try:
            text = f"removing what a killed demo left: {folder}"
            on_progress(Progress(subject="clean", text=text))
            _end_marked(folder)
            shutil.rmtree(folder)
        finally:
            os.close(owner)


def _lock(path: Path, operation: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int:
    """Return a descriptor that holds the file's lock until it is closed or its process ends.

    Raises:
        BlockingIOError: another process holds it, and the operation does not wait.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_marked(folder: Path) -> None:
    """Kill whatever else runs with their mark: workers whose agent was killed, for one."""
    left = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(STAND_VARIABLE) == str(folder):
                left.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue  # it has ended, or is another user's and so none of ours
    for process in left:
        with suppress(psutil.NoSuchProcess):  # it ended by itself: that is what was wanted
            process.kill()
    psutil.wait_procs(left, timeout=_KILL_SECONDS)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Have a variable in this process's environment, and so in those of all that it starts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _appended(name: str, value: str) -> AbstractContextManager[None]:
    return _variable(name, f"{os.environ.get(name, '')} {value}".strip())


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep signals from cutting short what must not stay half done: seconds at most."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
