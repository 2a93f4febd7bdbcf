"""Observer mode: some writers go through the observer, some round it, and agents are killed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from thriftpy2.thrift import TException

from headgate.agent.state.rows import HBaseConnections, HBaseRows
from headgate.agent.state.saved_state import state_in
from headgate.client import ClientError, Thrift2Connection
from headgate.engine import Engine
from headgate.flows import parse_dataflow

pytestmark = pytest.mark.stack

PAUSE = 0.01  # seconds between two requests of a writer, over many kills
QUICK_PAUSE = 0.03  # the same where others use this machine too
ROWS = 150  # of each kind, so that rows are written again and again
LARGEST = 5  # rows of a request
DELETES = 0.02  # of the requests that go round
PATIENCE = 240.0  # seconds for the agent to have found everything after the last write
BROKEN = (OSError, TException, ClientError)


def flow_text(name: str, table: str) -> str:
    return f"""
name: {name}
mode: observer
scans: {{every: 1 s, whole: 15 s}}
containers:
  through: {{table: {table}, column: "f:v", prefix: through-}}
  around: {{table: {table}, column: "f:v", prefix: around-}}
  mixed: {{table: {table}, column: "f:v", prefix: mixed-}}
actions:
  feed: {{input: [through, around, mixed]}}
  look:
    step: steps:copy
    after: feed
    when:
      through: {{sequence: 100000000, value: {{absolute: 1000000000}}}}
      around: {{sequence: 100000000, value: {{absolute: 1000000000}}}}
      mixed: {{sequence: 100000000, value: {{absolute: 1000000000}}}}
"""


@dataclass
class Writer:
    """Puts rows of its own and mixed ones, and counts what was acknowledged."""

    kind: str
    name: str
    address: tuple[str, int]
    table: str
    choices: random.Random
    pause: float
    deletes: float = 0.0
    updates: dict[str, int] = field(default_factory=lambda: {"own": 0, "mixed": 0})
    error: Exception | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            with closing(Thrift2Connection(*self.address, timeout=120.0)) as connection:
                while not stop.is_set():
                    self._write(connection)
                    stop.wait(self.pause)
        except Exception as error:
            self.error = error
            raise

    def _write(self, connection: Thrift2Connection) -> None:
        mixed = self.choices.random() < 1 / 2
        # Where two clients write one row at once, nobody can tell which value it has: a scan that
        # finds it counts once more. So rows whose updates are counted have one writer each.
        prefix = "mixed" if mixed else self.name
        numbers = self.choices.sample(range(ROWS), self.choices.randint(1, LARGEST))
        rows = [f"{prefix}-{number:03}".encode() for number in numbers]
        if self.choices.random() < self.deletes:
            connection.delete(self.table, rows)
        else:
            value = b"%d" % self.choices.randrange(1000)
            connection.put(self.table, [(row, {b"f:v": value}) for row in rows])
        self.updates["mixed" if mixed else "own"] += len(rows)


class Trial:
    """One dataflow, its writers, and an agent that is killed."""

    def __init__(self, stand: Any, seed: int, pause: float = PAUSE) -> None:
        self.stand = stand
        self.pause = pause
        self.choices = random.Random(seed)
        self.table = stand.stack.table("mixed")
        self.name = f"mixed-{stand.identity}"
        self.agents = 1
        self.agent = stand.start_agent("agent-1")
        self.text = flow_text(self.name, self.table)
        self.round_address = (stand.stack.thrift2.host, stand.stack.thrift2.port)
        stand.submit(self.agent, self.text, shadow=True)
        self.through = [self._writer("through", stand.thrift2, n) for n in range(2)]
        self.around = [self._writer("around", self.round_address, n, DELETES) for n in range(2)]

    def _writer(
        self, kind: str, address: tuple[str, int], number: int, deletes: float = 0.0
    ) -> Writer:
        choices = random.Random(f"{kind}-{number}-{self.choices.random()}")
        name = f"{kind}-{number}"
        return Writer(kind, name, address, self.table, choices, self.pause, deletes)

    def write(self, seconds: float, kills: int) -> None:
        stop = threading.Event()
        with ExitStack() as ending:
            for writer in (*self.through, *self.around):
                thread = threading.Thread(target=writer.run, args=(stop,))
                thread.start()
                ending.callback(thread.join)
            ending.callback(stop.set)
            until = time.monotonic() + seconds
            for _ in range(kills):
                time.sleep(self.choices.uniform(0.5, 1.5) * seconds / (kills + 1) * 0.8)
                self.kill()
            time.sleep(max(0.0, until - time.monotonic()))
        assert [w.error for w in (*self.through, *self.around)] == [None] * 4

    def kill(self) -> None:
        """Kill the agent and start another one."""
        self.agent.kill()
        self.agents += 1
        self.agent = self.stand.start_agent(f"agent-{self.agents}")

    def view(self) -> dict[bytes, bytes]:
        """Return the value of every element as the agent has it: what it saved last."""
        host, port = self.stand.thrift2
        connections = HBaseConnections(host, port, threading.Event())
        with closing(connections):
            rows = HBaseRows(connections, f"headgate-{self.stand.identity}", lambda _: b"")
            saved = state_in(self.name, rows.get(b"flow/" + self.name.encode()))
        assert saved is not None
        engine = Engine(parse_dataflow(self.text, "mixed.yaml").spec, saved.snapshot)
        return {
            key[0]: b"to be read" if key in cells.reads.unsettled else b"%g" % cast("float", value)
            for cells in engine.cells.values()
            for key, value in cells.columns.contents().items()
        }

    def truth(self) -> dict[bytes, bytes]:
        return self.stand.rows(self.table)

    def counted(self) -> dict[str, int]:
        look = self.agent.explained(self.name, "look")
        return {updates["container"]: updates["counted"] for updates in look["updates"]}

    def await_view(self) -> None:
        """Wait until the agent's view is that of the table."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.agent.client.get(f"/v1/flows/{self.name}")
            if answer.status_code == 200 and answer.json()["status"]["phase"] == "running":
                self.agent.wave(self.name)
                view, truth = self.view(), self.truth()
                if view == truth:
                    return
            else:
                view, truth = {}, self.truth()
            wrong = {row for row in view.keys() | truth if view.get(row) != truth.get(row)}
            assert time.monotonic() < deadline, (len(wrong), sorted(wrong)[:10])
            time.sleep(0.5)

    def check(self) -> dict[str, Any]:
        self.await_view()
        # Nothing more may be found later that was told already.
        time.sleep(3.0)
        self.await_view()
        counted = self.counted()
        through = sum(writer.updates["own"] for writer in self.through)
        around = sum(writer.updates["own"] for writer in self.around)
        assert counted["through"] == through
        assert len([r for r in self.truth() if r.startswith(b"around-")]) <= counted["around"]
        return {
            "updates through": through,
            "updates round": around,
            "mixed": sum(w.updates["mixed"] for w in (*self.through, *self.around)),
            "counted": counted,
            "agents": self.agents,
        }


def test_the_agents_view_is_the_table_whoever_wrote(
    make_stand: Callable[[Path], Any], tmp_path: Path
) -> None:
    trial = Trial(make_stand(tmp_path), seed=1, pause=QUICK_PAUSE)
    trial.write(seconds=12.0, kills=1)
    print(trial.check())


def test_deletes_that_went_round_count_where_keys_are_kept(
    stand: Any, eventually: Callable[..., Any]
) -> None:
    table = stand.stack.table("kept")
    name = f"kept-{stand.identity}"
    agent = stand.start_agent("keeping")
    text = f"""
name: {name}
mode: observer
scans: {{every: 500 ms, whole: 1 s, deletes: counted}}
containers:
  values: {table} f:v
actions:
  feed: {{input: values}}
  look: {{step: "steps:copy", after: feed, when: {{values: {{sequence: 1000000}}}}}}
"""
    stand.submit(agent, text, shadow=True)

    # What is there when the dataflow first reads the table is no update.
    eventually(lambda: agent.explain(name)["containers"][0]["scanned"])
    with Thrift2Connection(*stand.stack.thrift2) as around:
        around.put(table, [(b"%d" % n, {b"f:v": b"1"}) for n in range(5)])
        eventually(lambda: agent.counted(name, "look") == (5, 5))
        around.delete(table, [b"1", b"3"])
        eventually(lambda: agent.counted(name, "look") == (7, 3))
    agent.ask("DELETE", f"/v1/flows/{name}")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_minutes_of_mixed_writers_and_killed_agents(
    make_stand: Callable[[Path], Any], tmp_path: Path
) -> None:
    trial = Trial(make_stand(tmp_path), seed=2)
    trial.write(seconds=600.0, kills=12)
    print(trial.check())
