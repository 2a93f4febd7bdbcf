"""A thread of each kind is ended by an error that nobody expects, at work: what it did goes on."""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from dataflow_stages import (
    a_dataflow,
    a_feed,
    a_scan,
    adopting,
    leases,
    membership,
    reading,
    the_control_topic,
)
from service_stages import (
    a_session,
    certificates,
    executors,
    jobs,
    resources,
    retention,
    sensors,
    spares,
    the_api,
    users_metrics,
    users_runnables,
)
from thread_faults import WAIT, Heard, Stage
from training_stages import models, trainings

from headgate.agent import supervision
from headgate.agent.supervision import Supervision, ThreadKind

SOURCES = Path(supervision.__file__).parent
STAGES: Mapping[ThreadKind, Stage] = {
    ThreadKind.CONTROL: the_control_topic,
    ThreadKind.FEED: a_feed,
    ThreadKind.FLOW: a_dataflow,
    ThreadKind.SCAN: a_scan,
    ThreadKind.READ: reading,
    ThreadKind.GROUP: membership,
    ThreadKind.ADOPT: adopting,
    ThreadKind.LEASES: leases,
    ThreadKind.RESOURCES: resources,
    ThreadKind.SENSORS: sensors,
    ThreadKind.EXECUTORS: executors,
    ThreadKind.SESSION: a_session,
    ThreadKind.SPARES: spares,
    ThreadKind.JOBS: jobs,
    ThreadKind.METRICS: users_metrics,
    ThreadKind.RUNNABLES: users_runnables,
    ThreadKind.TRAINING: trainings,
    ThreadKind.MODELS: models,
    ThreadKind.RETENTION: retention,
    ThreadKind.CERTIFICATES: certificates,
    ThreadKind.API: the_api,
}


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.mark.parametrize("kind", ThreadKind)
def test_a_thread_that_an_error_ends_is_heard_of_and_its_work_goes_on(
    kind: ThreadKind, heard: Heard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    STAGES[kind](heard, monkeypatch, tmp_path)
    assert heard.kinds == [kind]
    assert heard.supervision.trouble is None


def test_all_threads_of_the_agent_are_made_where_they_are_supervised() -> None:
    """One that is made elsewhere has no owner: give it a kind, and a line in the list above."""
    made = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in {"Thread", "Timer", "ThreadPoolExecutor"}
    }
    assert made == {"supervision.py"}


def test_what_fails_again_and_again_waits_longer_each_time_and_says_so() -> None:
    pauses: list[int] = []
    seen: list[str | None] = []
    left = iter(range(3))

    def pause(failures: int) -> float:
        pauses.append(failures)
        seen.append(keeper.trouble)
        return 0.0

    def work() -> None:
        for _ in left:
            raise RuntimeError("again")

    keeper = Supervision(lambda _: None, pause)
    thread = keeper.thread(ThreadKind.READ, "one", work, threading.Event())
    thread.start()
    thread.join(WAIT)
    assert pauses == [1, 2, 3]
    assert seen == ["thread one: RuntimeError: again"] * 3
    assert keeper.trouble is None


def test_whatever_it_is_but_the_wish_to_end_begins_the_work_anew() -> None:
    errors = [KeyboardInterrupt(), RecursionError(), GeneratorExit(), SystemExit(), TypeError()]
    heard: list[ThreadKind] = []

    def work() -> None:
        raise errors.pop(0)

    keeper = Supervision(heard.append, lambda _: 0.0)
    thread = keeper.thread(ThreadKind.SCAN, "one", work, threading.Event())
    thread.start()
    thread.join(WAIT)
    assert len(heard) == 3
    assert len(errors) == 1
