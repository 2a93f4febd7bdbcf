"""Agent, worker or both killed at seeded times: one attempt of each run commits, none is stale."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.stack

VICTIMS = ("worker", "agent", "both")
LONGEST = 1.2  # seconds after a wave's mark: past the launch, both runs and their commits
AWAKE = 4.0  # seconds, more than a lease: an agent that thought it had one would begin something

STEPS = """
def first(run):
    mark(run, "middle")

def second(run):
    mark(run, "end")

def mark(run, target):
    import pandas
    for row in ("1", "2", "3", "4"):
        frame = pandas.DataFrame({"row": [row], "v": [float(run.attempt)], "run": [run.id]})
        run.write(frame, target)
"""


def flow_text(stand: Any, tables: dict[str, str]) -> str:
    return f"""
name: restart-{stand.identity}
containers:
  input: {tables["input"]} f:v
  middle: {{table: {tables["middle"]}, column: ["f:v", "f:run"], codec: opaque}}
  end: {{table: {tables["end"]}, column: ["f:v", "f:run"], codec: opaque}}
actions:
  feed: {{input: input}}
  first:
    step: marks:first
    reads: input
    writes: middle
    when:
      input: {{sequence: 1}}
    retries: {{attempts: 20, backoff: 0.2 s}}
  second:
    step: marks:second
    after: first
    reads: middle
    writes: end
    retries: {{attempts: 20, backoff: 0.2 s}}
spark:
  spark.sql.shuffle.partitions: 1
"""


def kill_worker(agent: Any) -> None:
    for process in agent.descendants():
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue  # it ended with its parent


def survive(stand: Any, seed: int, kills: int) -> None:
    choices = random.Random(seed)
    tables = {name: stand.stack.table(name) for name in ("input", "middle", "end")}
    (stand.directory / "marks.py").write_text(STEPS)
    agent = stand.start_agent(f"agent-{seed}")
    flow = f"restart-{stand.identity}"
    stand.submit(agent, flow_text(stand, tables))
    stand.write(tables["input"], {b"1": b"0"})
    agent.wave(flow)
    waves = 1
    for kill in range(kills):
        stand.write(tables["input"], {b"1": str(kill).encode()})
        waves = agent.ask("POST", f"/v1/flows/{flow}/waves", {})["wave"]
        time.sleep(choices.uniform(0, LONGEST))
        victim = VICTIMS[kill % len(VICTIMS)]
        if victim in ("worker", "both"):
            kill_worker(agent)
        if victim in ("agent", "both"):
            agent.kill()
            agent = stand.start_agent(f"agent-{seed}-{kill}")
            agent.await_dataflows()
        agent.settle(flow, waves)
    check(stand, agent, flow, tables, waves)


def check(stand: Any, agent: Any, flow: str, tables: dict[str, str], waves: int) -> None:
    runs = agent.show(flow)["runs"]
    for action in ("first", "second"):
        committed = [
            r["run"] for r in runs if r["action"] == action and r["outcome"] == "committed"
        ]
        assert len(committed) == len(set(committed)) == waves, f"{action}: {committed}"
        assert {r["run"] for r in runs if r["action"] == action} == set(committed)
    for name, action in (("middle", "first"), ("end", "second")):
        last = next(r for r in runs if r["action"] == action)
        connection = stand.stack.happybase()
        cells = dict(connection.table(tables[name]).scan())
        connection.close()
        assert {c[b"f:run"].decode() for c in cells.values()} == {last["run"]}, "a stale run wrote"
        assert len({c[b"f:v"] for c in cells.values()}) == 1, "attempts of a run are mixed"


@pytest.mark.soak  # the short tests see it in ``test_conservation.py``, too
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 6))
def test_one_attempt_of_each_run_commits_over_many_kills(
    stack: Any, tmp_path: Any, make_stand: Callable[..., Any], seed: int
) -> None:
    survive(make_stand(tmp_path), seed=seed, kills=15)


def test_a_stopped_agent_that_wakes_up_after_a_takeover_starts_nothing(
    make_stand: Callable[..., Any], scene_of: Callable[..., Any], tmp_path: Any
) -> None:
    stand = make_stand(tmp_path)
    scene = scene_of(stand, tmp_path, "once")
    scene.run_command("output")
    sleeper = scene.submit()
    os.kill(sleeper.pid, signal.SIGSTOP)
    other = stand.start_agent("other")
    try:
        other.await_dataflows()
        number = scene.begin(other)
        os.kill(sleeper.pid, signal.SIGCONT)
        time.sleep(AWAKE)
        assert not any(row["here"] for row in sleeper.ask("GET", "/v1/flows"))
        other.settle(scene.name, number)
        assert scene.outcomes(other) == [(1, "committed")]
        (run,) = scene.starts()
        assert list(scene.result()) == [run.encode()]
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
