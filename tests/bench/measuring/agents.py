"""Observers and agents as processes of their own, for benches of agents."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headgate.cli.agent_client import connect
from headgate.local import Lifetime, start_process
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

LONG = 600.0  # seconds until what must happen counts as missing
LOOK = 0.05  # seconds between two looks


class Agent:
    """``headgate agent`` in a process of its own.

    Args:
        name: its name.
        text: its configuration.
        directory: where that and its log lie.
    """

    def __init__(self, name: str, text: str, directory: Path) -> None:
        configuration = directory / f"{name}.toml"
        configuration.write_text(text)
        self._log = directory / f"{name}.log"
        command = [sys.executable, "-m", "headgate.cli", "agent", "--config", str(configuration)]
        self._process: subprocess.Popen[bytes] = start_process(
            command, os.environ, self._log, Lifetime.WITH_CALLER
        )
        found = waited(
            lambda: re.search(r"^ready api=(\S+)$", self._log.read_text(), re.MULTILINE), name
        )
        self.client = connect(found[1], LONG)

    def spares(self) -> int:
        """Return how many spare sessions are warm."""
        text = self.client.get("/metrics").text
        found = re.search(r"^headgate_agent_spare_sessions (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def has(self, flow: str) -> bool:
        """Return whether it runs a dataflow, whose watches are in effect."""
        try:
            answer = self.client.get(f"/v1/flows/{flow}")
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.json()["status"]["phase"] == "running"

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def kill(self) -> None:
        """End it as a fault would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
        self.client.close()


def waited(what: Callable[[], Any], words: str) -> Any:
    """Return the first result that is true; ends the program where none comes."""
    deadline = time.monotonic() + LONG
    while True:
        result = what()
        if result:
            return result
        if time.monotonic() > deadline:
            sys.exit(f"not within {LONG:g} s: {words}")
        time.sleep(LOOK)


@contextmanager
def running_agents_observer(
    stack: dict[str, str], ports: tuple[int, int], folder: Path
) -> Iterator[None]:
    """Have an observer listen on the ports of Thrift1 and Thrift2 meanwhile."""
    process = ObserverProcess(
        ObserverConfig(
            name="bench",
            thrift1=Listener(f"127.0.0.1:{ports[0]}", stack["thrift1"]),
            thrift2=Listener(f"127.0.0.1:{ports[1]}", stack["thrift2"]),
            kafka=KafkaSettings(stack["kafka"], control_topic="headgate.control", partitions=4),
            journal=JournalSettings(str(folder / "journal")),
            lease_seconds=3.0,
        ),
        folder / "observer",
    )
    try:
        yield
    finally:
        process.stop()


def agent_text(
    name: str, identity: str, folder: Path, stack: dict[str, str], thrift2: int, more: str = ""
) -> str:
    """Return the configuration of an agent; agents of one identity share their dataflows.

    Args:
        name: the agent's.
        identity: of the state table and the group.
        folder: where its workers are.
        stack: addresses of the stack.
        thrift2: the observer's port.
        more: lines that stand before the first section.
    """
    return f"""
name = "{name}"
api = "127.0.0.1:0"
{more}
[hbase]
thrift2 = "127.0.0.1:{thrift2}"
state_table = "headgate-{identity}"
[kafka]
bootstrap = "{stack["kafka"]}"
group = "agents-{identity}"
control_topic = "headgate.control"
partitions = 4
[workers]
directory = "{folder / name}"
"""
