"""A stage with a state as a step, on the real stack: what it knows outlives whoever is killed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headgate.incremental import StoredState

pytestmark = pytest.mark.stack

STAGES = """
import time
from pathlib import Path

import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow

HOLD = Path(__file__).with_name("hold")


def follow(row, flows):
    known = flows["state"][0] if flows["state"] else {"value": None, "times": 0}
    for unit in flows["source"]:
        if unit["value"] != known["value"]:
            known = {"value": unit["value"], "times": known["times"] + 1}
    while HOLD.exists():
        time.sleep(0.05)
    shown = {"row": row, "v": f"{known['times']} x, now {known['value'].decode()}"}
    return {"state": [known], "times": [shown]}


stage = Stage(
    "changes",
    inputs={"source": InputFlow("row")},
    outputs={"times": {"row": "string", "v": "string"}},
    translate=follow,
    state=StateFlow(pa.schema({"value": pa.binary(), "times": pa.int64()})),
)


def add(letter, flows):
    known = flows["state"][0]["rows"] if flows["state"] else 0
    known += len(flows["times"])
    while HOLD.exists():
        time.sleep(0.05)
    return {"state": [{"rows": known}], "totals": [{"row": letter, "v": str(known)}]}


adding = Stage(
    "adding",
    inputs={"times": InputFlow(lambda unit: unit["row"][:2])},
    outputs={"totals": {"row": "string", "v": "string"}},
    translate=add,
    state=StateFlow(pa.schema({"rows": pa.int64()})),
)


def whatever_waits(waiting, state):
    if HOLD.with_name("broken").exists():
        raise ValueError("it is broken")
    return {"reads": {"times": "all"}, "state": (state or 0) + len(waiting["times"]["increments"])}
"""

DATAFLOW = """
name: {name}
state: {state}
containers:
  source: {{table: {source}, column: "f:v", codec: opaque}}
  times: {{table: {times}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: source}}
  follow:
    stage: stages:stage
    reads: source
    writes: times
    when: {{source: {{sequence: 1}}}}
    retries: {{attempts: 5, backoff: 0.2 s}}
"""

TWO_STAGES = """
name: {name}
state: {state}
spark: {{spark.headgate.driverRows: 8}}
containers:
  source: {{table: {source}, column: "f:v", codec: opaque}}
  totals: {{table: {totals}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: source}}
  follow:
    stage: stages:stage
    reads: source
    out: times
    when: {{source: {{sequence: 1}}}}
    retries: {{attempts: 5, backoff: 0.2 s}}
  add:
    stage: stages:adding
    in: {{times: follow.times}}
    runnable: {{python: "stages:whatever_waits"}}
    writes: totals
    retries: {{attempts: 5, backoff: 0.2 s}}
"""


class Followed:
    """What the stage should show: how often the value of each row has changed."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.times: dict[bytes, int] = {}

    def write(self, values: dict[bytes, bytes]) -> None:
        for row, value in values.items():
            self.times[row] = self.times.get(row, 0) + (self.values.get(row) != value)
            self.values[row] = value

    @property
    def rows(self) -> dict[bytes, bytes]:
        return {
            row: b"%d x, now %s" % (self.times[row], value) for row, value in self.values.items()
        }


def stored(agent: Any, name: str, action: str) -> StoredState:
    """Return the state of a stage as it was committed last."""
    statuses = agent.ask("GET", f"/v1/flows/{name}/stages")
    (status,) = (each for each in statuses if each["action"] == action)
    return StoredState(status["location"], name, action, status["manifest"])


@pytest.mark.parametrize("killing", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_stage_goes_on_from_its_state_and_from_one_that_was_compacted_or_rebuilt(
    make_stand: Any, tmp_path: Path, eventually: Any, killing: bool
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    source, times = (stand.stack.table(name) for name in ("source", "times"))
    name = f"stages-{stand.identity}"
    text = DATAFLOW.format(name=name, source=source, times=times, state=tmp_path / "state")
    expected, drawn = Followed(), random.Random(7)

    def wave() -> None:
        values = {b"r%d" % drawn.randrange(30): b"%d" % drawn.randrange(3) for _ in range(12)}
        stand.write(source, values)
        expected.write(values)

    agent = stand.start_agent()
    stand.submit(agent, text)
    for _ in range(2):
        wave()
        agent.wave(name)
        assert stand.rows(times) == expected.rows

    if killing:  # otherwise the stages below are killed
        (tmp_path / "hold").touch()
        wave()
        number = agent.ask("POST", f"/v1/flows/{name}/waves", {})["wave"]
        eventually(lambda: any(r["outcome"] == "running" for r in agent.runs(name, "follow")))
        for process in agent.descendants():
            process.kill()
        (tmp_path / "hold").unlink()
        agent.settle(name, number)
        assert stand.rows(times) == expected.rows

        wave()
        agent.kill()
        agent = stand.start_agent()
        agent.await_dataflows()
        agent.wave(name)
        wave()
        agent.wave(name)
        assert stand.rows(times) == expected.rows
    committed = [r for r in agent.runs(name, "follow") if r["outcome"] == "committed"]
    manifests = list((tmp_path / "state").rglob("*.manifest"))
    assert len(manifests) >= len(committed), "one for each commit, and of attempts that were killed"

    def end(run: str) -> None:
        runs = agent.runs
        eventually(
            lambda: any(
                r["run"] == run and r["outcome"] == "committed" for r in runs(name, "follow")
            )
        )

    compacted = agent.ask("POST", f"/v1/flows/{name}/stages/compact", {"action": "follow"})
    end(compacted["run"])
    wave()
    agent.wave(name)
    assert stand.rows(times) == expected.rows, "it goes on from the compacted state"

    rebuilt = agent.ask("POST", f"/v1/flows/{name}/stages/rebuild", {"action": "follow"})
    end(rebuilt["runs"]["follow"])
    expected.times = dict.fromkeys(expected.values, 1)
    assert stand.rows(times) == expected.rows, "it has seen each row once"
    state = stored(agent, name, "follow")
    known = {row["_key"]: row["value"] for row in state.arrow().to_pylist()}
    assert known == {row.decode(): value for row, value in expected.values.items()}
    assert list(state.damaged()) == []


def test_a_stage_reads_each_increment_once_though_worker_and_agent_are_killed(
    make_stand: Any, tmp_path: Path, eventually: Any
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    source, totals = (stand.stack.table(name) for name in ("source", "totals"))
    name = f"flows-{stand.identity}"
    text = TWO_STAGES.format(name=name, source=source, totals=totals, state=tmp_path / "state")
    drawn, followed = random.Random(11), Followed()
    expected: dict[bytes, int] = {}

    def wave(size: int = 12) -> None:
        """Write rows: of more than eight an epoch is a Spark job."""
        rows = {b"r%d" % row: b"%d" % drawn.randrange(3) for row in drawn.sample(range(60), size)}
        stand.write(source, rows)
        followed.write(rows)
        for row in rows:
            expected[row[:2]] = expected.get(row[:2], 0) + 1

    def all_added() -> bool:
        """Whether each row that a wave has touched was counted once by both stages."""
        shown = {row: int(value) for row, value in stand.rows(totals).items()}
        return bool(shown == expected)

    agent = stand.start_agent()
    stand.submit(agent, text)
    for size in (12, 4):
        wave(size)
        agent.wave(name)
        eventually(all_added)

    (tmp_path / "hold").touch()
    wave()
    number = agent.ask("POST", f"/v1/flows/{name}/waves", {})["wave"]
    eventually(lambda: any(r["outcome"] == "running" for r in agent.runs(name, "follow")))
    for process in agent.descendants():
        process.kill()
    (tmp_path / "hold").unlink()
    agent.settle(name, number)
    eventually(all_added)

    wave()
    (tmp_path / "hold").touch()
    agent.ask("POST", f"/v1/flows/{name}/waves", {})
    eventually(lambda: any(r["outcome"] == "running" for r in agent.runs(name, "follow")))
    agent.kill()
    (tmp_path / "hold").unlink()
    agent = stand.start_agent()
    agent.await_dataflows()
    eventually(all_added)

    def explained() -> Any:
        actions = agent.ask("GET", f"/v1/flows/{name}/explain")["actions"]
        return next(each for each in actions if each["action"] == "add")

    (tmp_path / "broken").touch()
    wave(4)
    agent.ask("POST", f"/v1/flows/{name}/waves", {})
    eventually(lambda: "ValueError: it is broken" in explained()["missing"])
    failure = explained()["runnable_failure"]
    assert "in whatever_waits" in failure, "the traceback"
    assert [each["unread"] for each in explained()["flows"]] == [1]
    (tmp_path / "broken").unlink()
    agent.ask("POST", f"/v1/flows/{name}/retry", {"action": "add"})
    eventually(all_added)

    wave(4)
    agent.wave(name)
    eventually(all_added)
    known = stored(agent, name, "follow").arrow().to_pylist()
    assert {row["_key"].encode(): (row["value"], row["times"]) for row in known} == {
        row: (value, followed.times[row]) for row, value in followed.values.items()
    }, "its state has gone on through all of this"
    added = explained()
    assert [(f["flow"], f["source"], f["unread"]) for f in added["flows"]] == [
        ("times", "follow.times", 0)
    ]
    assert added["runnable_failure"] == ""
