"""Processes are known for certain, and end when they should."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from headgate.local import Part, ProcessIdentity
from headgate.local.processes import processes
from headgate.local.processes.parts import PLANS
from headgate.local.processes.ports import HOST
from headgate.local.processes.processes import Children, Lifetime

SLEEPER = "import time; time.sleep(600)"
HEADLESS = (
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
    "ctypes.CDLL(None).pthread_exit(None)"
)
STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "open(sys.argv[1], 'w').close(); time.sleep(600)"
)


def identity_of(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    return ProcessIdentity(pid=child.pid, started=psutil.Process(child.pid).create_time())


def start_sleeper(tmp_path: Path, part: str, instance: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SLEEPER, *processes.marks(instance, part)]
    return processes.start(command, {}, tmp_path / f"{part}.log", Lifetime.DETACHED)


def test_a_process_lives_until_it_ends(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    identity = identity_of(child)
    assert identity.lives()
    child.kill()
    child.wait()
    assert not identity.lives()


def test_a_number_that_another_program_has_now_is_not_the_process(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    real = identity_of(child)
    stale = ProcessIdentity(pid=real.pid, started=real.started - 1000)
    try:
        assert not stale.lives()
        assert processes.end([stale], 0, lambda: None) == []
        assert real.lives()
    finally:
        child.kill()
        child.wait()


def test_a_zombie_does_not_live(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    identity = identity_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is not collected
    try:
        assert not identity.lives()
    finally:
        child.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the threads of a zombie")
def test_a_process_lives_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HEADLESS]
    child = processes.start(command, {}, tmp_path / "headless.log", Lifetime.DETACHED)
    identity, process = identity_of(child), psutil.Process(child.pid)
    try:
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert identity.lives()
        assert processes.end([identity], 0, lambda: None) == [identity]
    finally:
        child.kill()
        child.wait()


def test_a_port_is_listened_on_by_one_process_and_not_by_its_child(tmp_path: Path) -> None:
    me = ProcessIdentity(pid=os.getpid(), started=psutil.Process().create_time())
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    identity = identity_of(child)
    try:
        with socket.create_server((HOST, 0)) as server:
            port = server.getsockname()[1]
            assert me.listens(port)
            assert not identity.listens(port)
        assert not me.listens(port)
    finally:
        child.kill()
        child.wait()
    assert not identity.listens(port)


def test_a_part_is_not_ready_where_another_program_answers(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(PLANS[Part.HBASE], ready_line=None)
    me = ProcessIdentity(pid=os.getpid(), started=psutil.Process().create_time())
    child = start_sleeper(tmp_path, "hbase", tmp_path)
    try:
        with socket.create_server((HOST, 0)) as server:
            port = server.getsockname()[1]
            assert plan.is_ready(me, tmp_path / "hbase.log", port)
            assert not plan.is_ready(identity_of(child), tmp_path / "hbase.log", port)
    finally:
        child.kill()
        child.wait()


def test_parts_are_found_by_their_marks_and_those_of_other_instances_are_not(
    tmp_path: Path,
) -> None:
    mine, other = tmp_path / "a", tmp_path / "ab"
    first = start_sleeper(tmp_path, "kafka", mine)
    second = start_sleeper(tmp_path, "hbase", other)
    try:
        assert processes.find(mine) == {"kafka": [identity_of(first)]}
        assert processes.find(other) == {"hbase": [identity_of(second)]}
    finally:
        for child in (first, second):
            child.kill()
            child.wait()


def test_a_command_line_without_marks_is_no_part(tmp_path: Path) -> None:
    assert processes.part_of(["java", "-Xmx1g", "Main"], tmp_path) is None


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = [sys.executable, "-c", STUBBORN, str(ready)]
    child = processes.start(command, {}, tmp_path / "stubborn.log", Lifetime.DETACHED)
    children = Children()
    children.add(child)
    ready.read_bytes()  # comes to its end when the child has closed it
    identity = identity_of(child)
    assert processes.end([identity], 0.2, children.reap) == [identity]
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_ends_just_before_it_is_looked_at_is_collected(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    children = Children()
    children.add(child)
    looks = 0

    def reap() -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            children.reap()
        else:  # it ends when this is over, and before it is looked at
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    identity = identity_of(child)
    assert processes.end([identity], 0, reap) == [identity]
    assert child.returncode == -signal.SIGKILL


def test_a_process_that_ends_when_asked_is_not_killed(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    children = Children()
    children.add(child)
    assert processes.end([identity_of(child)], 10, children.reap) == []
    assert child.returncode == -signal.SIGTERM


def test_a_part_is_in_a_session_of_its_own(tmp_path: Path) -> None:
    child = start_sleeper(tmp_path, "kafka", tmp_path)
    try:
        with Path(f"/proc/{child.pid}/stat").open() as stat:
            session = int(stat.read().rpartition(")")[2].split()[3])
        assert session == child.pid
    finally:
        child.kill()
        child.wait()


def test_the_log_of_the_run_before_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    for said in ("first", "second"):
        processes.start(
            [sys.executable, "-c", f"print('{said}')"], {}, log, Lifetime.DETACHED
        ).wait()
    assert log.read_text() == "second\n"
    assert (tmp_path / "part.log.1").read_text() == "first\n"


def test_a_process_with_its_callers_lifetime_ends_when_the_caller_is_killed(
    tmp_path: Path,
) -> None:
    caller = f"""
import sys, time
from pathlib import Path
from headgate.local.processes import processes
from headgate.local.processes.processes import Lifetime
child = processes.start(
    [sys.executable, "-c", {SLEEPER!r}], {{}}, Path({str(tmp_path)!r}) / "log",
    Lifetime.WITH_CALLER,
)
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", caller], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        identity = ProcessIdentity(pid=pid, started=psutil.Process(pid).create_time())
        end = os.pidfd_open(pid)
        starter.kill()
    readable, _, _ = select.select([end], [], [], 10.0)
    os.close(end)
    assert readable == [end]
    assert not identity.lives()
