"""Writes through the proxy while proxy, agent and worker are killed: none acknowledged is lost."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from thriftpy2.thrift import TException

from headgate.events import UpdateBatch, decode_update, updates_topic

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

ROWS = 40
WRITERS = 2
PAUSE = 0.002  # seconds between two writes of a writer: a steady stream, not a load test
BETWEEN_KILLS = (0.5, 3.0)  # seconds

STEPS = """
def consume(run):
    import pandas
    changed = len(run.changes("input").toPandas())
    run.write(pandas.DataFrame({"row": ["changed"], "v": [float(changed)]}), "output")
"""


class Writer(threading.Thread):
    """Puts one value after the other and remembers those that were acknowledged."""

    def __init__(self, stand: Any, table: str, number: int, until: float) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[tuple[bytes, bytes]] = set()
        self.refused = 0
        self._stand = stand
        self._table = table
        self._number = number
        self._until = until

    def run(self) -> None:
        connection = None
        count = 0
        while time.monotonic() < self._until:
            count += 1
            row, value = b"%d-%d" % (self._number, count % ROWS), b"%d" % count
            try:
                connection = connection or self._stand.connect()
                connection.table(self._table).put(row, {b"f:v": value})
                self.acknowledged.add((row, value))
                time.sleep(PAUSE)
            except (TException, OSError, EOFError):
                # Whatever happened to this one is not known; only acknowledged ones are counted.
                self.refused += 1
                connection = None
                time.sleep(0.05)


def kill_something(stand: Any, agent: Any, victim: str, number: int) -> Any:
    if victim == "proxy":
        stand.observer.kill()
        stand.start_observer()
    elif victim == "worker":
        for process in agent.descendants():
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue  # it ended with its parent
    else:
        agent.kill()
        return stand.start_agent(f"agent-{number}")
    return agent


def published(stand: Any, table: str, cut: list[int]) -> set[tuple[bytes, bytes]]:
    """Return rows and values of all updates below the cut."""
    topic = updates_topic(table)
    consumer = Consumer(
        {"bootstrap.servers": stand.stack.kafka, "group.id": "tests", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, part, 0) for part in range(len(cut))])
    position = [0] * len(cut)
    found = set()
    deadline = time.monotonic() + 60
    while any(a < b for a, b in zip(position, cut, strict=True)):
        assert time.monotonic() < deadline, f"read up to {position} of {cut}"
        for record in consumer.consume(1000, 0.2):
            part, offset = record.partition(), record.offset()
            position[part] = offset + 1
            message = decode_update(record.value())
            if offset < cut[part] and isinstance(message, UpdateBatch):
                found.update(zip(message.rows, message.values, strict=True))
    consumer.close()
    return found


def survive(stand: Any, seed: int, seconds: float) -> None:
    choices = random.Random(seed)
    tables = {name: stand.stack.table(name) for name in ("input", "output")}
    (stand.directory / "consuming.py").write_text(STEPS)
    flow = f"conservation-{stand.identity}"
    agent = stand.start_agent("agent-0")
    stand.submit(
        agent,
        f"""
name: {flow}
containers:
  input: {tables["input"]} f:v
  output: {tables["output"]} f:v
actions:
  feed: {{input: input}}
  consume:
    step: consuming:consume
    reads: input
    writes: output
    when:
      input: {{sequence: 200}}
    evaluate: write
    retries: {{attempts: 50, backoff: 0.2 s}}
""",
    )
    until = time.monotonic() + seconds
    writers = [Writer(stand, tables["input"], number, until) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    victims = ["proxy", "agent", "worker"]
    number = 0
    while time.monotonic() < until:
        time.sleep(choices.uniform(*BETWEEN_KILLS))
        number += 1
        agent = kill_something(stand, agent, victims[number % 3], number)
    for writer in writers:
        writer.join()
    acknowledged = set().union(*(writer.acknowledged for writer in writers))
    assert len(acknowledged) > 100 * seconds / 20, "hardly anything was written"
    check(stand, agent, flow, tables["input"], acknowledged)


def check(
    stand: Any, agent: Any, flow: str, table: str, acknowledged: set[tuple[bytes, bytes]]
) -> None:
    deadline = time.monotonic() + 60
    while not any(row["here"] for row in agent.ask("GET", "/v1/flows")):
        assert time.monotonic() < deadline, "the dataflow was not taken over"
        time.sleep(0.1)
    agent.ask("POST", f"/v1/flows/{flow}/run", {"action": "consume"})
    agent.wave(flow)
    agent.ask("POST", f"/v1/flows/{flow}/run", {"action": "consume"})
    agent.wave(flow)
    runs = [r for r in agent.runs(flow, "consume") if r["outcome"] == "committed"]
    assert len({r["run"] for r in runs}) == len(runs), "a run was committed twice"
    for before, after in itertools.pairwise(runs):
        assert after["since"] == before["cut"], "updates between two runs were left out"
    cut = runs[-1]["cut"]["offsets"][updates_topic(table)]
    lost = acknowledged - published(stand, table, cut)
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged updates were never consumed"
    assert agent.show(flow)["status"]["consumed"] >= len(acknowledged)


def test_no_acknowledged_update_is_lost(make_stand: Callable[..., Any], tmp_path: Any) -> None:
    survive(make_stand(tmp_path), seed=7, seconds=15)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_update_is_lost_in_a_minute_of_kills(
    make_stand: Callable[..., Any], tmp_path: Any, seed: int
) -> None:
    survive(make_stand(tmp_path), seed=seed, seconds=60)
