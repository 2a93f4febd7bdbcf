"""A run of a pool that is ended, and a session that dies: what becomes of the other dataflows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.shared_processes import named

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]

STEPS = """
import time
from pathlib import Path

def begin(run):
    with (Path(run.parameters["folder"]) / f"{run.dataflow}.starts").open("a") as starts:
        starts.write(run.id + "\\n")

def steady(run):
    begin(run)
    while not (Path(run.parameters["folder"]) / "release").exists():
        time.sleep(0.05)
    run.write(run.read("input"), "output")

def looping(run):
    begin(run)
    while True:
        time.sleep(0.05)

def stuck(run):
    begin(run)
    time.sleep(3600)  # one call: there is no next line at which it could be interrupted
"""


class Pool:
    """Dataflows of one pool, each with a step that begins when it is told to.

    The session is that of the tests before, whose runs are over, where they have left one. Each
    dataflow has one attempt: a run whose end counted as its failure would have no other.
    """

    def __init__(self, stand: Any, agent: Any, folder: Path, eventually: Eventually) -> None:
        self._stand = stand
        self.agent = agent
        self._folder = folder
        self._eventually = eventually
        self._outputs: dict[str, tuple[str, bytes]] = {}
        (stand.directory / "faulty.py").write_text(STEPS)

    def begin(self, name: str, step: str, more: str = "") -> str:
        """Submit a dataflow, launch its step and return its name when the step has begun."""
        flow = f"{name}-{self._folder.name}".replace("_", "-")
        tables = {kind: self._stand.stack.table(kind) for kind in ("input", "output")}
        self._outputs[flow] = tables["output"], b"%d.0" % len(self._outputs)
        text = f"""
name: {flow}
containers: {{input: "{tables["input"]} f:v", output: "{tables["output"]} f:v"}}
actions:
  feed: {{input: input}}
  act:
    step: faulty:{step}
    reads: input
    writes: output
    when: {{input: {{sequence: 1000}}}}
    retries: {{attempts: 1}}
    parameters: {{folder: {self._folder}}}
    {more}
spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 2}}
spark_pool: faulty
"""
        self._stand.submit(self.agent, text)
        self._stand.write(tables["input"], {b"1": self._outputs[flow][1]})
        self.agent.launch(flow, "act")
        self._eventually(lambda: self.starts(flow) == 1)
        return flow

    def starts(self, flow: str) -> int:
        """Return how often the step of a dataflow began."""
        path = self._folder / f"{flow}.starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def outcomes(self, flow: str) -> list[tuple[int, str]]:
        return [(run["attempt"], run["outcome"]) for run in self.agent.runs(flow, "act")]

    def session(self, flow: str) -> int:
        return int(self.agent.show(flow)["status"]["worker"]["pid"] or 0)

    def release(self) -> None:
        """Let steady steps go on."""
        (self._folder / "release").touch()

    def assert_unharmed(self, flow: str, starts: int) -> str:
        """Wait for the only attempt of a steady run; return what is told of it."""
        self._eventually(lambda: self.outcomes(flow) == [(1, "committed")])
        assert self.starts(flow) == starts
        table, value = self._outputs[flow]
        assert self._stand.rows(table) == {b"1": value}
        (run,) = self.agent.runs(flow, "act")
        return str(run["reason"])


@pytest.fixture(scope="module")
def agent(stand: Any) -> Any:
    return stand.start_agent("pools")


@pytest.fixture
def pool(stand: Any, agent: Any, tmp_path: Path, eventually: Eventually) -> Pool:
    return Pool(stand, agent, tmp_path, eventually)


def test_a_timeout_and_a_cancel_end_their_own_runs_alone(
    pool: Pool, eventually: Eventually
) -> None:
    steady = pool.begin("steady", "steady")
    session = pool.session(steady)
    late = pool.begin("late", "looping", "timeout: 2 s")
    eventually(lambda: pool.outcomes(late) == [(1, "timed-out")])
    unwanted = pool.begin("unwanted", "looping")
    pool.agent.ask("POST", f"/v1/flows/{unwanted}/cancel", {"action": "act"})
    eventually(lambda: pool.outcomes(unwanted) == [(1, "cancelled")])
    pool.release()
    assert pool.assert_unharmed(steady, starts=1) == ""
    assert pool.session(steady) == session


@pytest.mark.soak
@pytest.mark.parametrize("cause", ["timeout", "cancel"])
def test_a_step_that_does_not_let_go_ends_the_session_and_the_others_run_again(
    pool: Pool, eventually: Eventually, cause: str
) -> None:
    steady = [pool.begin(name, "steady") for name in ("one", "two")]
    session = pool.session(steady[0])
    assert {pool.session(flow) for flow in steady} == {session}
    stuck = pool.begin("stuck", "stuck", "timeout: 2 s" if cause == "timeout" else "")
    if cause == "cancel":
        pool.agent.ask("POST", f"/v1/flows/{stuck}/cancel", {"action": "act"})
    outcome = {"timeout": "timed-out", "cancel": "cancelled"}[cause]
    eventually(lambda: pool.outcomes(stuck) == [(1, outcome)])
    eventually(lambda: all(pool.starts(flow) == 2 for flow in steady))
    pool.release()
    for flow in steady:
        assert f"by a run of {stuck}" in pool.assert_unharmed(flow, starts=2)
        assert pool.session(flow) not in (0, session)


def test_a_killed_jvm_has_all_runs_of_the_pool_begun_again(
    pool: Pool, eventually: Eventually
) -> None:
    steady = [pool.begin(name, "steady") for name in ("one", "two")]
    session = pool.session(steady[0])
    below = psutil.Process(session).children(recursive=True)
    (jvm,) = named(below, "java")
    killed = time.monotonic()
    jvm.kill()
    eventually(lambda: pool.session(steady[0]) not in (0, session))
    pool.release()
    for flow in steady:
        assert "nobody knows which" in pool.assert_unharmed(flow, starts=2)
    print(f"both committed {time.monotonic() - killed:.1f} s after the kill")
