"""A thread of each kind fails under load, on the real stack: work goes on and nothing is lost.

How soon it goes on is printed by the long test: ``pytest -m soak -s`` with this file, on a machine
that does nothing else.
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headgate.agent.supervision import ThreadKind
from headgate.client import Thrift2Connection

pytestmark = pytest.mark.stack

BOUND = 1_000_000  # updates: no run but those that are asked for
ROUNDS = 5
PAUSE = 0.1  # seconds between two writes: each row is scanned, saved and sent to the metric again
METRIC = """
class Changed:
    def process_element(self, current, previous):
        return 1

    def aggregate(self, a, b):
        return a + b

    def compute(self, total, m, n):
        return total
"""
PROGRAM = Path(__file__).with_name("faulty_agent.py")
MORE = """
[resources]
every_seconds = 0.5
spark = ["http://127.0.0.1:1"]
"""
# The threads that an agent has not which keeps neither certificates nor spare sessions, and whose
# dataflow has no session, does not learn and has no runnables; these fail in memory
# (tests/agent/ownership).
_ABSENT = (
    ThreadKind.SESSION,
    ThreadKind.CERTIFICATES,
    ThreadKind.SPARES,
    ThreadKind.TRAINING,
    ThreadKind.MODELS,
    ThreadKind.RUNNABLES,
)
KINDS = tuple(kind for kind in ThreadKind if kind not in _ABSENT)
LATER = (ThreadKind.JOBS, ThreadKind.API)
# What an update goes through; each of these fails alone, and the others at once with each other.
PATH = (
    ThreadKind.FEED,
    ThreadKind.FLOW,
    ThreadKind.SCAN,
    ThreadKind.READ,
    ThreadKind.METRICS,
)
ORDER = tuple(kind for kind in KINDS if kind not in LATER)


class Writer:
    """Puts a row of its own each time, and counts what was acknowledged."""

    def __init__(self, address: tuple[str, int], table: str) -> None:
        self.written = 0
        self._address = address
        self._table = table
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(Thrift2Connection(*self._address, timeout=120.0)) as connection:
            while not self._stop.is_set():
                row = b"%08d" % self.written
                connection.put(self._table, [(row, {b"f:v": b"1"})])
                self.written += 1
                self._stop.wait(PAUSE)


class Watched:
    """A dataflow in observer mode that counts what a writer puts, and an agent with faults."""

    def __init__(self, stand: Any, scene: Any, agent: Any) -> None:
        self.agent = agent
        self._scene = scene
        (scene.folder / "own_metrics.py").write_text(METRIC)
        own = f"{{python: {{class: 'own_metrics:Changed', limit: {BOUND}}}}}"
        scene.bound = f"{{sequence: {BOUND}, value: {own}}}"
        scene.run_command("output")
        mode = "mode: observer\nscans: {every: 0.5 s, whole: 1 h}\ncontainers:"
        text = scene.text.replace("containers:", mode)
        stand.submit(agent, text.replace("    when:", "    evaluate: write\n    when:"))

    def counted(self) -> int:
        """Return the updates that the action's bound has counted; -1 while it begins again."""
        explained = self.agent.client.get(f"/v1/flows/{self._scene.name}/explain")
        if explained.status_code != 200:
            return -1
        actions = explained.json()["actions"]
        (action,) = (a for a in actions if a["action"] == self._scene.action)
        return int(action["updates"][0]["counted"])


def failures(agent: Any) -> dict[str, float]:
    text = agent.client.get("/metrics").text
    found = re.findall(
        r'^headgate_agent_thread_failures_total{kind="(\w+)"} (\S+)', text, re.MULTILINE
    )
    return {kind: float(count) for kind, count in found}


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "faults"
    folder.mkdir()
    monkeypatch.setenv("FAULTS", str(folder))
    return folder


def test_a_thread_of_each_kind_fails_under_load_and_nothing_is_lost(
    make_stand: Callable[..., Any],
    scene_of: Callable[..., Any],
    tmp_path: Path,
    faults: Path,
    eventually: Callable[..., Any],
) -> None:
    stand = make_stand(tmp_path)
    agent = stand.start_agent(more=MORE, program=(str(PROGRAM),))
    scene = scene_of(stand, tmp_path, "outlasting")
    watched = Watched(stand, scene, agent)
    with Writer(stand.thrift2, scene.tables["input"]) as writer:
        beside = tuple(kind for kind in KINDS if kind not in (*PATH, *LATER))
        for kinds in (*((kind,) for kind in PATH), beside):
            for kind in kinds:
                (faults / kind.value).touch()
            eventually(lambda: not any((faults / k.value).exists() for k in kinds))  # noqa: B023
            before = writer.written
            # What was written since then is counted: the feed, the dataflow and the scan go on.
            eventually(lambda: watched.counted() > before)  # noqa: B023
    eventually(lambda: watched.counted() >= writer.written)
    eventually(lambda: not list(faults.iterdir()))

    def asked() -> bool:
        answer = agent.client.post(f"/v1/flows/{scene.name}/run", json={"action": scene.action})
        return answer.status_code == 200

    (faults / ThreadKind.JOBS.value).touch()
    eventually(asked)
    eventually(lambda: "committed" in [outcome for _, outcome in scene.outcomes(agent)])
    assert not list(faults.iterdir())
    assert failures(agent) == {k.value: 1.0 for k in KINDS if k is not ThreadKind.API}
    assert agent.client.get("/healthz").json()["status"] == "ok"
    (faults / ThreadKind.API.value).touch()
    eventually(lambda: not agent.running)
    another = stand.start_agent("two")
    another.await_dataflows()
    assert len(scene.result()) == 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_how_soon_what_is_written_counts_again_after_a_thread_failed(
    make_stand: Callable[..., Any],
    scene_of: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
    faults: Path,
    eventually: Callable[..., Any],
) -> None:
    times: dict[ThreadKind, list[float]] = {kind: [] for kind in ORDER}
    for number in range(ROUNDS):
        # A new agent each time: what fails again soon waits for longer before it begins again.
        folder = tmp_path_factory.mktemp("round")
        stand = make_stand(folder)
        agent = stand.start_agent(f"agent-{number}", more=MORE, program=(str(PROGRAM),))
        scene = scene_of(stand, folder, "outlasting")
        watched = Watched(stand, scene, agent)
        with Writer(stand.thrift2, scene.tables["input"]) as writer:
            eventually(lambda: watched.counted() > 0)  # noqa: B023
            for kind in ORDER:
                (faults / kind.value).touch()
                eventually(lambda: not (faults / kind.value).exists())  # noqa: B023
                failed, before = time.monotonic(), writer.written
                eventually(lambda: watched.counted() > before)  # noqa: B023
                times[kind].append(time.monotonic() - failed)
        eventually(lambda: watched.counted() >= writer.written)  # noqa: B023
        stand.close()
    for kind, seconds in times.items():
        print(f"{kind.value:12} median {statistics.median(seconds):5.2f} s", end=" ")
        print(f"of {len(seconds)}, longest {max(seconds):5.2f} s")
