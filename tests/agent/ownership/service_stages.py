"""Stages for threads of the service: resources, launchers, advisers, retention and the API."""

from __future__ import annotations

import queue
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from simulation import MemoryRows
from thread_faults import WAIT, Faults, Heard, Log, never, until

from headgate.agent.advisers import metrics, runnables
from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.advisers.runnables import RunnableAdviser
from headgate.agent.api.access import connections
from headgate.agent.children.code_process import CodeWorker
from headgate.agent.configuration import Resources
from headgate.agent.kafka import retention as retentions
from headgate.agent.kafka.retention import RetentionKeeper
from headgate.agent.launchers.job import Job, JobKey
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.local_jobs import Over
from headgate.agent.launchers.warm import sessions
from headgate.agent.launchers.warm import spares as spare_sessions
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.process import answer_requests
from headgate.agent.resources import sampling as samplings
from headgate.agent.resources.sampling import Sampling
from headgate.agent.supervision import ThreadKind
from headgate.engine import MetricAnswers, MetricQuestions, RunnableQuestion, encode_metrics
from headgate.events import VERSION, MachineLoad, encode_machine
from headgate.settings import Credentials
from headgate.spark import Ending, StartSession, StepEnded, WorkerReady


def sampled(
    heard: Heard,
    patch: pytest.MonkeyPatch,
    resources: Resources,
    values: Sequence[bytes],
    **at: Any,
) -> list[str]:
    patch.setattr(samplings, "MachineSampler", lambda name: SimpleNamespace(sample=at["own"]))
    patch.setattr(samplings, "SparkExecutors", lambda _: at["driver"])
    heard_samples: queue.Queue[Any] = queue.Queue()
    log = Log("machines", values, at["poll"])
    sampling = Sampling(resources, lambda: log({}), heard_samples.put, heard.supervision)
    sampling.start()
    found: list[str] = []
    while not found:
        found = [sample.machine for sample in heard_samples.get(timeout=WAIT)]
    sampling.stop()
    return found


LOAD = MachineLoad(VERSION, "m1", 1.0, 0.5)


def resources(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Samples reach dataflows."""
    faults = Faults()

    def own() -> MachineLoad:
        faults()
        return LOAD

    assert sampled(
        heard, patch, Resources(every_seconds=0.01), [], own=own, driver=None, poll=never()
    )


def sensors(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """What sensors publish later is heard."""
    settings = Resources(every_seconds=0.01, own=False)
    values = [encode_machine(LOAD)] * 5
    assert sampled(heard, patch, settings, values, own=None, driver=None, poll=Faults()) == ["m1"]


def executors(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Drivers are asked again."""
    faults = Faults()

    def samples(now: float) -> list[Any]:
        if not faults.done.is_set():
            faults.done.set()
            raise AttributeError("injected")
        return [samplings.resource_sample(LOAD, now)]

    driver = SimpleNamespace(address="a", samples=samples, close=lambda: None)
    settings = Resources(every_seconds=0.01, own=False, spark=("http://a",))
    assert sampled(heard, patch, settings, [], own=None, driver=driver, poll=never()) == ["m1"]


def a_session(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """Its worker is started once more."""
    started = threading.Event()
    faults = Faults()

    def worker(*_: Any, on_exit: Callable[[int], None], **__: Any) -> Any:
        faults()
        started.set()
        end = lambda *_: on_exit(0)  # noqa: E731
        return SimpleNamespace(kill=end, stop=end, log="log")

    patch.setattr(sessions, "SessionWorker", worker)
    session = WarmSession(
        StartSession({}), directory, sys.executable, WAIT, lambda _: None, heard.supervision
    )
    assert started.wait(WAIT)
    session.close()


def spares(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """A session is started once more, and taken."""
    faults = Faults()
    adopted: list[Any] = []

    def worker(*_: Any, on_reply: Callable[[Any], None], **__: Any) -> Any:
        faults()
        threading.Thread(target=on_reply, args=(WorkerReady(1, "4", 0.1),)).start()
        adopt = lambda spare, **_: adopted.append(spare)  # noqa: E731
        return SimpleNamespace(pid=1, adopt=adopt, stop=lambda _: None)

    patch.setattr(spare_sessions, "SessionWorker", worker)
    kept = SpareSessions(1, StartSession({}), directory, sys.executable, WAIT, heard.supervision)
    kept.start()
    until(lambda: kept.warm == 1, "no session was warm")
    calls = {"on_reply": lambda _: None, "on_exit": lambda _: None}
    assert kept.take(StartSession({}), directory, **calls) is not None
    assert adopted
    kept.close()


def retention(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Topics are looked at again."""
    patch.setattr(retentions, "_LOOK", 0.001)
    faults = Faults()
    looked = threading.Event()

    def found(_: Any) -> dict[str, Any]:
        faults()
        looked.set()
        return {}

    topics: Any = SimpleNamespace(retentions=found)
    keeper = RetentionKeeper(MemoryRows(), topics, 100.0, heard.supervision)
    keeper.start()
    assert looked.wait(WAIT)
    keeper.close()


def jobs(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """A job that cannot be looked at once is looked at again; how it ended is reported."""
    faults = Faults()
    key = JobKey("run", 1)

    def poll(_: JobKey) -> Over:
        faults()
        return Over(StepEnded("run", 1, Ending.COMMITTED, 1.0), claimed=False)

    reports: queue.Queue[Any] = queue.Queue()
    fake = SimpleNamespace(launch=lambda job: None, poll=poll, leaving=lambda: False)
    launcher = JobsLauncher(fake, reports.put, heard.supervision, "flow")
    launcher.start(cast("Job", SimpleNamespace(key=key)))
    assert reports.get(timeout=WAIT).ending is Ending.COMMITTED
    launcher.close()


def users_metrics(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """What was asked when the thread failed is answered all the same, and what comes later."""
    faults = Faults()

    def decoded(question: bytes) -> MetricQuestions:
        faults()
        return MetricQuestions([])

    patch.setattr(metrics, "decode_metric_questions", decoded)
    answers: queue.Queue[Any] = queue.Queue()
    adviser = MetricAdviser("flow", sys.executable, directory, 1, 1, 0, heard.supervision)
    for _ in range(2):
        adviser.answer(b"", lambda answer, reason: answers.put((answer, reason)))
    for _ in range(2):
        assert answers.get(timeout=WAIT) == (encode_metrics(MetricAnswers([])), "")
    adviser.close()


def users_runnables(heard: Heard, patch: pytest.MonkeyPatch, directory: Path) -> None:
    """What was asked when the thread failed is answered all the same, and what comes later."""
    faults = Faults()

    def decoded(question: bytes) -> RunnableQuestion:
        faults()
        return RunnableQuestion(1, "turns:newest", {}, "null")

    fake = SimpleNamespace(
        runs=False,
        ask=lambda question: question,
        use=lambda roots: None,
        end=lambda: None,
        close=lambda: None,
    )
    patch.setattr(runnables, "decode_runnable_question", decoded)
    patch.setattr(runnables, "CodeProcess", lambda program, worker: fake)
    answers: queue.Queue[Any] = queue.Queue()
    worker = CodeWorker(sys.executable, str(directory / "log"), 1.0, 1.0)
    adviser = RunnableAdviser("flow", worker, 0, heard.supervision)
    for asked in (b"one", b"two"):
        adviser.answer(asked, lambda answer, reason: answers.put((answer, reason)))
    for asked in (b"one", b"two"):
        assert answers.get(timeout=WAIT) == (asked, "")
    adviser.close()


def the_api(heard: Heard, _: pytest.MonkeyPatch, __: Path) -> None:
    """The process is asked to end: what cannot be asked must not look alive."""
    ending = threading.Event()
    faults = Faults()
    with socket.socket() as listener:
        server = cast("uvicorn.Server", SimpleNamespace(run=lambda _: faults()))
        work = lambda: answer_requests(server, listener, ending.set)  # noqa: E731
        thread = heard.supervision.thread(ThreadKind.API, "api", work, ending)
        thread.start()
        thread.join(WAIT)
    assert ending.is_set()


def certificates(heard: Heard, patch: pytest.MonkeyPatch, _: Path) -> None:
    """Those that are renewed after a fault are loaded all the same."""
    patch.setattr(connections, "_LOOK", 0.0)
    faults = Faults()
    ending = threading.Event()

    def changed() -> bool:
        faults()
        return True

    renewed = cast("Credentials", SimpleNamespace(changed=changed, reload=ending.set))
    thread = heard.supervision.thread(
        ThreadKind.CERTIFICATES,
        "certificates",
        lambda: connections.follow_files([renewed], ending),
        ending,
    )
    thread.start()
    thread.join(WAIT)
    assert ending.is_set()
