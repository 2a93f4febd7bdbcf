"""An observer in a process of its own, for programs that bring one with them."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from headgate.observer.config import ObserverConfig
from headgate.observer.starting import StartError
from headgate.settings import parse_address

_STOP_SECONDS = 30.0
_OWNER_ALONE = 0o600
_LOG_TAIL = 2000  # characters of the log that go into an error


class ObserverProcess:
    """Starts an observer and waits until it accepts clients.

    On Linux it ends with the thread that started it, even if that is killed: start it from one that
    lives as long as it is needed.

    Attributes:
        log: the file that its log goes to.
    """

    def __init__(self, config: ObserverConfig, directory: Path, *, seconds: float = 60.0) -> None:
        """Start it; ``directory`` is for its configuration and its log.

        Raises:
            StartError: it ended, or was not ready within ``seconds``.
        """
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "observer.toml"
        path.touch(mode=_OWNER_ALONE)  # it may hold passwords
        path.write_text(as_toml(config), encoding="utf-8")
        self.log = directory / "observer.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headgate.observer", "--config", str(path), "--with-parent"],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self._addresses = self._await_ready(seconds)

    def _await_ready(self, seconds: float) -> dict[str, tuple[str, int]]:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = _read_line(self._process.stdout.fileno(), seconds)
        words = line.split()
        if not words or words[0] != "ready":
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
            tail = self.log.read_text(encoding="utf-8", errors="backslashreplace")[-_LOG_TAIL:]
            raise StartError(f"the observer did not get ready; its log {self.log} ends:\n{tail}")
        pairs = (word.split("=", 1) for word in words[1:])
        return {name: parse_address(address) for name, address in pairs}

    @property
    def thrift1(self) -> tuple[str, int]:
        """Host and port for clients of Thrift1."""
        return self._addresses["thrift1"]

    @property
    def thrift2(self) -> tuple[str, int]:
        """Host and port for clients of Thrift2."""
        return self._addresses["thrift2"]

    @property
    def admin(self) -> tuple[str, int]:
        """Host and port of ``/metrics`` and ``/healthz``."""
        return self._addresses["admin"]

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def stop(self, seconds: float = _STOP_SECONDS) -> int:
        """Ask it to end cleanly; return its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not; it is killed.
        """
        self._process.terminate()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._close_pipe()

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self._process.kill()
        self._process.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running():
            self.stop()


def _read_line(handle: int, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while b"\n" not in data:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return ""
            chunk = os.read(handle, 4096)
            if not chunk:
                return ""
            data += chunk
    return data.decode("utf-8", "backslashreplace")


def as_toml(config: ObserverConfig) -> str:
    """Return the configuration as the text of its file, without what is as by default.

    So a version that does not know a key reads the file of one that does, where nobody uses it.
    """
    lines: list[str] = []
    _write_table(_chosen(config), "", lines)
    return "\n".join(lines) + "\n"


def _chosen(settings: Struct) -> dict[str, Any]:
    """Return settings that differ from their defaults."""
    found = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        else:
            default = field.default
        if value != default:
            chosen = _chosen(value) if isinstance(value, Struct) else msgspec.to_builtins(value)
            found[field.encode_name] = chosen
    return found


def _write_table(table: dict[str, Any], name: str, lines: list[str]) -> None:
    inner = {}
    for key, value in table.items():
        if isinstance(value, dict) or _is_tables(value):
            inner[key] = value
        elif value is not None:
            # A JSON text, number or boolean is one of TOML too.
            lines.append(f"{json.dumps(key) if '.' in key else key} = {json.dumps(value)}")
    for key, value in inner.items():
        path = f"{name}.{key}" if name else key
        for each in () if isinstance(value, dict) else value:
            lines += ["", f"[[{path}]]"]
            _write_table(each, path, lines)
        if isinstance(value, dict):
            lines += ["", f"[{path}]"]
            _write_table(value, path, lines)


def _is_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict)
