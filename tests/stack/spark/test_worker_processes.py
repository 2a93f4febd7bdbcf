"""A worker and its JVM end with each other, and with the agent that started them."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from tests.shared_processes import command_of, is_there, named
from worker_bench import WAIT, wait_until

from headgate.spark import SessionWorker, StartSession, WorkerReady, WorkerReply

pytestmark = pytest.mark.stack


def family_of(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(map(is_there, processes))


def searches(processes: list[psutil.Process]) -> bool:
    """Return whether Spark has searched for data sources in a process of its own."""
    module = "pyspark.sql.worker.lookup_data_sources"
    return any(module in command_of(process) for process in processes)


def test_a_killed_worker_leaves_no_process(tmp_path: Path) -> None:
    replies: queue.Queue[WorkerReply | int] = queue.Queue()
    worker = SessionWorker(
        StartSession({"spark.master": "local[1]"}),
        tmp_path,
        on_reply=replies.put,
        on_exit=replies.put,
    )
    assert isinstance(replies.get(timeout=WAIT), WorkerReady)
    family = family_of(worker.pid)
    assert named(family, "java")
    assert not searches(family), "there is nothing to find"

    os.kill(worker.pid, signal.SIGKILL)

    assert replies.get(timeout=WAIT) == -signal.SIGKILL
    wait_until(lambda: all_gone(family))


def test_a_worker_ends_with_the_jvm_of_its_session(tmp_path: Path) -> None:
    (tmp_path / "pyspark_of_the_user.py").write_text("")
    replies: queue.Queue[WorkerReply | int] = queue.Queue()
    worker = SessionWorker(
        StartSession({"spark.master": "local[1]"}, (str(tmp_path),)),
        tmp_path,
        on_reply=replies.put,
        on_exit=replies.put,
    )
    assert isinstance(replies.get(timeout=WAIT), WorkerReady)
    family = family_of(worker.pid)
    assert searches(family), "a module may have a data source, and Spark looks into it"

    for process in named(family, "java"):
        process.kill()

    assert replies.get(timeout=WAIT) == 1
    wait_until(lambda: all_gone(family))


AGENT = """
import sys, time
from pathlib import Path
from headgate.spark import SessionWorker, StartSession

def ready(reply):
    print(worker.pid, type(reply).__name__, flush=True)

worker = SessionWorker(StartSession({"spark.master": "local[1]"}), Path(sys.argv[1]),
                       on_reply=ready, on_exit=lambda status: None)
time.sleep(600)
"""


def test_a_killed_agent_leaves_no_worker(tmp_path: Path) -> None:
    agent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(AGENT), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdout is not None
    try:
        pid, said = agent.stdout.readline().split()
        assert said == "WorkerReady"
        family = family_of(int(pid))
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()

    wait_until(lambda: all_gone(family))
