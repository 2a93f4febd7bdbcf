"""What an agent makes sure of before it works: an observer before it, a folder and a name alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from simulation import SEALS, MemoryRows

from headgate.agent import ConfigurationError, Workers
from headgate.agent.ownership.entrance import Folder, Presence, require_observer
from headgate.agent.state.sealed import Owner
from headgate.hbase import Dialect
from headgate.observer.doctor.recognition import ProbeResult
from headgate.observer.sessions.identification import Identification
from headgate.wire import Protocol, Transport, WireFormat

OBSERVER = Identification("observer", 1, compiled=False)


def answering(monkeypatch: pytest.MonkeyPatch, dialect: Dialect, by: Identification | None) -> None:
    async def recognise(*_: object, **__: object) -> ProbeResult:
        return ProbeResult(WireFormat(Transport.BUFFERED, Protocol.BINARY), dialect, by, 0.0)

    monkeypatch.setattr("headgate.agent.ownership.entrance.recognise", recognise)


def test_an_observers_thrift2_listener_is_what_an_agent_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, Dialect.THRIFT2, OBSERVER)
    require_observer("hbase", 9191, 0.0)


def test_hbase_itself_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Dialect.THRIFT2, None)
    with pytest.raises(ConfigurationError, match=r"hbase:9191 HBase itself .* observer"):
        require_observer("hbase", 9191, 0.0)


@pytest.mark.parametrize("by", [OBSERVER, None])
def test_a_thrift1_port_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, by: Identification | None
) -> None:
    answering(monkeypatch, Dialect.THRIFT1, by)
    with pytest.raises(ConfigurationError, match=r"hbase:9190 speaks Thrift1.* Thrift2 listener"):
        require_observer("hbase", 9190, 0.0)


def test_what_does_not_answer_is_left_to_whoever_needs_it() -> None:
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        require_observer(host, port, 0.0)


# -- folders


def test_a_folder_that_another_agent_uses_is_refused_until_that_ends(tmp_path: Path) -> None:
    workers = Workers(directory=str(tmp_path / "workers"))
    first = Folder(workers)
    with pytest.raises(ConfigurationError, match=f"in use .*process {os.getpid()}"):
        Folder(workers)
    first.close()
    Folder(workers).close()


def test_a_killed_agent_leaves_its_folder_free(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from headgate.agent import Workers\n"
        "from headgate.agent.ownership.entrance import Folder\n"
        "folder = Folder(Workers(directory=sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    Folder(Workers(directory=str(tmp_path))).close()


def test_agents_of_one_user_that_are_told_nothing_take_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = Folder(Workers()), Folder(Workers())
    assert first.path != second.path
    first.close()
    again = Folder(Workers())
    assert again.path == first.path
    for folder in (second, again):
        folder.close()


# -- names


@pytest.fixture
def listening() -> Iterator[str]:
    """The address of an API that answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


class Host:
    """A state table, and a clock that moves while agents wait."""

    def __init__(self) -> None:
        self.rows = MemoryRows()
        self.now = 100.0
        self.living: list[Presence] = []

    def agent(self, incarnation: str, address: str) -> Presence:
        owner = Owner("one", incarnation, address)
        return Presence(self.rows, SEALS, owner, 6.0, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for presence in self.living:
            presence.renew(self.now)


def test_a_name_that_another_agent_has_is_refused_in_words(listening: str) -> None:
    host = Host()
    host.living.append(host.agent("1", listening))
    host.living[0].begin(0.0)
    with pytest.raises(ConfigurationError, match=f"'one', at {listening}"):
        host.agent("2", "127.0.0.1:1").begin(0.0)


def test_a_name_whose_agent_ended_is_free_though_something_else_answers_there(
    listening: str,
) -> None:
    host = Host()
    host.agent("1", listening).begin(0.0)
    again = host.agent("2", "127.0.0.1:1")
    again.begin(0.0)
    host.living.append(again)
    host.sleep(2.0)
    assert b"127.0.0.1:1" in host.rows.rows[b"agent/one"][b"state:lease"]


def test_the_name_of_an_agent_that_was_killed_is_taken_without_waiting() -> None:
    host = Host()
    host.agent("1", "127.0.0.1:1").begin(0.0)
    again = host.agent("2", "127.0.0.1:2")
    again.begin(0.0)
    assert host.now == 100.0
    host.living.append(again)
    for _ in range(4):
        host.sleep(2.0)
    assert b"127.0.0.1:2" in host.rows.rows[b"agent/one"][b"state:lease"]


def test_the_name_of_an_agent_that_stopped_is_free_at_once(listening: str) -> None:
    host = Host()
    stopped = host.agent("1", listening)
    stopped.begin(0.0)
    stopped.end()
    host.agent("2", "127.0.0.1:1").begin(0.0)
    assert host.now == 100.0
    assert b"127.0.0.1:1" in host.rows.rows[b"agent/one"][b"state:lease"]


def test_a_stranger_cannot_take_a_name(listening: str) -> None:
    host = Host()
    forged = {"epoch": 1, "owner": {"name": "one", "incarnation": "9", "address": listening}}
    lease = msgspec.msgpack.encode(forged | {"until": 1e12, "seconds": 1e12})
    host.rows.put(b"agent/one", {b"state:lease": lease})
    host.agent("1", "127.0.0.1:1").begin(0.0)
