"""Dataflows that share a Spark session: apart from each other, and cheaper than alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.stack

LONG = 240.0  # seconds until the outcome must be there, however busy the machine is
MOST = 1.4
"""Times the memory of one dataflow that three of a pool may take."""
STEPS = """
import os, time
from pathlib import Path

import pooled_state

SEEN = []

def nothing(run):
    pass

def look(run):
    spark = run.spark
    SEEN.append(run.dataflow)
    pooled_state.NAMES.append(run.dataflow)
    before = spark.catalog.tableExists("mine")
    spark.createDataFrame([(run.dataflow,)], "name string").createOrReplaceTempView("mine")
    spark.sql("select * from mine").collect()
    conf = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    print("printed by", run.dataflow)
    place = Path(run.parameters["folder"]) / run.dataflow
    place.write_text(repr((SEEN, pooled_state.NAMES, before, conf)))

def crash(run):
    folder = Path(run.parameters["folder"])
    (folder / "crashing").write_text("")
    while not (folder / "both").exists() and not (folder / "again").exists():
        time.sleep(0.05)
    (folder / "again").write_text("")
    os._exit(9)

def careful(run):
    folder = Path(run.parameters["folder"])
    with (folder / "careful").open("a") as told:
        told.write("x")
    if not (folder / "again").exists():
        (folder / "both").write_text("")
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def pooled(stand: Any) -> Any:
    """The stand with an agent, and a pool that all tests share: what one leaves harms no other."""
    (stand.directory / "pooled.py").write_text(STEPS)
    (stand.directory / "pooled_state.py").write_text("NAMES = []\n")
    stand.start_agent("owner")
    return stand


def submit(stand: Any, name: str, step: str) -> str:
    flow = f"{name}-{stand.identity}"
    tables = {name: stand.stack.table(name) for name in ("input", "output")}
    text = f"""
name: {flow}
containers: {{input: "{tables["input"]} f:v", output: "{tables["output"]} f:v"}}
actions:
  feed: {{input: input}}
  act:
    step: pooled:{step}
    reads: input
    writes: output
    when: {{input: {{sequence: 1000}}}}
    retries: {{attempts: 1}}
    parameters: {{folder: {stand.directory}}}
spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 2}}
spark_pool: shared
"""
    stand.submit(stand.agents[0], text)
    stand.write(tables["input"], {b"1": b"1"})
    return flow


def ended(agent: Any, flow: str, outcome: str = "committed") -> list[Any]:
    deadline = time.monotonic() + LONG
    while True:
        runs = agent.runs(flow, "act")
        if runs and runs[-1]["outcome"] == outcome:
            return runs
        assert time.monotonic() < deadline, f"{runs}\n{agent.words()}"
        time.sleep(0.2)


def session(agent: Any, flow: str) -> int:
    return int(agent.show(flow)["status"]["worker"]["pid"])


def memory(pid: int) -> int:
    """Return the bytes of a session's process and all that it has started; shared ones by parts."""
    worker = psutil.Process(pid)
    return sum(p.memory_full_info().pss for p in (worker, *worker.children(recursive=True)))


@pytest.mark.soak
def test_three_dataflows_that_do_nothing_take_little_more_memory_than_one(
    make_stand: Callable[..., Any], tmp_path: Path
) -> None:
    stand = make_stand(tmp_path)
    (stand.directory / "pooled.py").write_text(STEPS)
    (stand.directory / "pooled_state.py").write_text("NAMES = []\n")
    agent = stand.start_agent("alone")
    flows = [submit(stand, "one", "nothing")]
    agent.launch(flows[0], "act")
    ended(agent, flows[0])
    pid = session(agent, flows[0])
    one = memory(pid)
    for name in ("two", "three"):
        flows.append(submit(stand, name, "nothing"))
        agent.launch(flows[-1], "act")
        ended(agent, flows[-1])
    assert {session(agent, flow) for flow in flows} == {pid}
    three = memory(pid)
    words = f"one {one / 2**20:.0f} MiB, three {three / 2**20:.0f} MiB, ratio {three / one:.2f}"
    print(words)
    assert three <= MOST * one, words


def test_dataflows_of_a_pool_have_nothing_of_each_other(pooled: Any) -> None:
    stand, (agent,) = pooled, pooled.agents
    flows = [submit(stand, name, "look") for name in ("one", "two")]
    for flow in flows:
        agent.launch(flow, "act")
        ended(agent, flow)
        seen = (stand.directory / flow).read_text()
        assert seen == repr(([flow], [flow], False, "2"))
    assert len({session(agent, flow) for flow in flows}) == 1
    for flow in flows:
        text = agent.client.get(f"/v1/flows/{flow}/logs?of=act").text
        assert f"printed by {flow}" in text
        assert not any(f"printed by {other}" in text for other in flows if other != flow)
    agent.launch(flows[0], "act")
    deadline = time.monotonic() + LONG
    twice = repr(([flows[0]] * 2, [flows[0]] * 2, True, "7"))
    while (stand.directory / flows[0]).read_text() != twice:
        assert time.monotonic() < deadline, (stand.directory / flows[0]).read_text()
        time.sleep(0.2)


def test_other_settings_are_refused_in_words(pooled: Any) -> None:
    stand, (agent,) = pooled, pooled.agents
    flow = submit(stand, "first", "nothing")
    other = f"""
name: other-{stand.identity}
containers: {{input: "{stand.stack.table("input")} f:v"}}
actions:
  feed: {{input: input}}
  act: {{step: "pooled:nothing", reads: input}}
spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 3}}
spark_pool: shared
"""
    body = {"source": other, "file": "other.yaml", "directory": str(stand.directory)}
    answer = agent.client.request("POST", "/v1/flows", json=body)
    assert answer.status_code >= 400
    assert "spark.sql.shuffle.partitions" in answer.text
    members = [row["name"] for row in agent.ask("GET", "/v1/flows")]
    assert flow in members
    assert any(member in answer.text for member in members)


def test_a_step_that_ends_the_session_has_the_others_run_again_unharmed(pooled: Any) -> None:
    stand, (agent,) = pooled, pooled.agents
    careful, crash = submit(stand, "careful", "careful"), submit(stand, "crash", "crash")
    run = agent.launch(careful, "act")
    deadline = time.monotonic() + LONG
    while not (stand.directory / "both").exists():
        assert time.monotonic() < deadline, agent.words()
        time.sleep(0.1)
    agent.launch(crash, "act")

    runs = ended(agent, careful)
    assert [(r["run"], r["attempt"], r["outcome"]) for r in runs] == [(run, 1, "committed")]
    assert "counts as no failure" in runs[0]["reason"]
    assert (stand.directory / "careful").read_text().startswith("xx")
    crashed = ended(agent, crash, "lost")
    deadline = time.monotonic() + LONG
    while agent.show(crash)["status"]["actions"][1]["state"] != "quarantined":
        assert time.monotonic() < deadline, crashed
        time.sleep(0.2)
    # The only attempt that it has was made alone; the first, among others, counted for nobody.
    assert [r["attempt"] for r in agent.runs(crash, "act")] == [1]
