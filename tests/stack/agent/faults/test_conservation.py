"""Writes under ``kill -9`` of observer, agent and worker: what was acknowledged is never lost."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import happybase
import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.shared_processes import command_of
from thriftpy2.thrift import TException

from headgate.client import ClientError, Thrift2Connection
from headgate.events import Outcome, RequestPart, UpdateBatch, decode_update, updates_topic
from headgate.spark import Committed, RunKey, RunLedger

pytestmark = pytest.mark.stack

WRITERS = 2  # of each dialect
PAUSE = 0.01  # seconds between two requests of a writer, over many kills
QUICK_PAUSE = 0.1  # the same where others use this machine too
OK = 200
AWAY = 0.1  # seconds until a writer whose observer is gone tries again
LARGEST_BATCH = 20  # rows
REWRITES = 0.3  # of the rows a writer writes: rows that it wrote before
BOUND = 50  # updates that launch a run
START = 180.0  # seconds for an agent to take the dataflow over and start a worker
LONGEST = 0.5  # seconds after a step began; it is then at its end, or past its commit
LOOK = 0.05  # seconds between two looks whether a step runs
PATIENCE = 240.0  # seconds for everything to come to rest after the last kill
BROKEN = (OSError, TException, ClientError)
"""What a client raises when it does not learn what became of its request."""

VICTIMS: tuple[tuple[str, ...], ...] = (
    ("observer",),
    ("worker",),
    ("observer", "worker"),
    ("agent",),
    ("observer", "agent"),
)

STEPS = """
def copy(run):
    changed = run.changes("input").filter("not deleted")
    run.write(changed.selectExpr("row", "value as v"), "copied")

def mirror(run):
    run.write(run.read("copied"), "mirrored")
"""


def flow_text(name: str, tables: dict[str, str]) -> str:
    return f"""
name: {name}
containers:
  input: {{table: {tables["input"]}, column: "f:v", codec: opaque}}
  copied: {{table: {tables["copied"]}, column: "f:v", codec: opaque}}
  mirrored: {{table: {tables["mirrored"]}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: input}}
  copy:
    step: conservation_steps:copy
    reads: input
    writes: copied
    when:
      input: {{sequence: {BOUND}}}
    evaluate: write
    retries: {{attempts: 100, backoff: [0.2 s, 2 s]}}
  mirror:
    step: conservation_steps:mirror
    after: copy
    reads: copied
    writes: mirrored
    when:
      copied: {{sequence: 1}}
    retries: {{attempts: 100, backoff: [0.2 s, 2 s]}}
"""


class Client(Protocol):
    """A connection that puts rows of ``f:v`` in one request."""

    def put(self, rows: dict[bytes, bytes]) -> None: ...

    def close(self) -> None: ...


class Thrift1Client:
    def __init__(self, stand: Any, table: str) -> None:
        self._connection = happybase.Connection(*stand.observer.thrift1, timeout=10_000)
        self._table = self._connection.table(table)

    def put(self, rows: dict[bytes, bytes]) -> None:
        if len(rows) == 1:
            ((row, value),) = rows.items()
            self._table.put(row, {b"f:v": value})
            return
        with self._table.batch() as batch:
            for row, value in rows.items():
                batch.put(row, {b"f:v": value})

    def close(self) -> None:
        self._connection.close()


class Thrift2Client:
    def __init__(self, stand: Any, table: str) -> None:
        self._connection = Thrift2Connection(*stand.observer.thrift2)
        self._table = table

    def put(self, rows: dict[bytes, bytes]) -> None:
        columns = ((row, {b"f:v": value}) for row, value in rows.items())
        self._connection.put(self._table, columns)

    def close(self) -> None:
        self._connection.close()


Connect = Callable[[Any, str], Client]
Write = tuple[bytes, bytes]
"""A row and the value that was put there; no value is ever put twice."""


@dataclass
class Writer:
    """Puts rows of its own, again and again, and remembers what it was told of each."""

    name: str
    connect: Connect
    choices: random.Random
    pause: float
    attempted: list[Write] = field(default_factory=list)
    acknowledged: list[Write] = field(default_factory=list)
    requests: int = 0
    broken: int = 0
    error: Exception | None = None

    def run(self, stand: Any, table: str, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self._connected(stand, table, stop)
        except Exception as error:
            self.error = error
            raise

    def _connected(self, stand: Any, table: str, stop: threading.Event) -> None:
        try:
            client = self.connect(stand, table)
        except BROKEN:
            stop.wait(AWAY)
            return
        with closing(client):
            while not stop.is_set():
                rows = self._rows()
                self.attempted.extend(rows.items())
                self.requests += 1
                try:
                    client.put(rows)
                except BROKEN:
                    self.broken += 1
                    return
                self.acknowledged.extend(rows.items())
                stop.wait(self.pause)

    def _rows(self) -> dict[bytes, bytes]:
        size = self.choices.choice((1, 1, 1, self.choices.randint(2, LARGEST_BATCH)))
        rows: dict[bytes, bytes] = {}
        for number in range(size):
            value = f"{self.name}-{len(self.attempted) + number}".encode()
            again = self.attempted and self.choices.random() < REWRITES
            row = self.choices.choice(self.attempted)[0] if again else value
            rows[row] = value
        return rows


class Supervisor:
    """Kills what it keeps alive, and starts it again as it was."""

    def __init__(self, stand: Any, choices: random.Random) -> None:
        self._stand = stand
        self._choices = choices
        self._started = 0
        self.kills: Counter[str] = Counter()
        self.agent = self._start_agent()

    def _start_agent(self) -> Any:
        self._started += 1
        return self._stand.start_agent(f"agent-{self._started}")

    def disturb(self, dataflow: str, seconds: float, kills: int) -> None:
        """Kill ``kills`` times, half of them while a step runs; takes ``seconds`` or longer."""
        began = time.monotonic()
        order: list[tuple[str, ...]] = []
        while len(order) < kills:
            order += self._choices.sample(VICTIMS, len(VICTIMS))
        for number, victims in enumerate(order[:kills]):
            time.sleep(self._choices.uniform(0, 2 * seconds / kills))
            if number % 2 == 0:
                self._await_step(dataflow)
            self.kill(victims)
        time.sleep(max(0.0, began + seconds - time.monotonic()))

    def _await_step(self, dataflow: str) -> None:
        """Wait until a step runs, and some of it is done."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            answer = self.agent.client.get(f"/v1/flows/{dataflow}/runs")
            if answer.status_code == OK and any(r["outcome"] == "running" for r in answer.json()):
                time.sleep(self._choices.uniform(0, LONGEST))
                return
            time.sleep(LOOK)
        raise AssertionError(f"no step runs: {self.agent.show(dataflow)}")

    def kill(self, victims: tuple[str, ...]) -> None:
        """Kill these at once and start again what does not start by itself."""
        worker = self._worker() if "worker" in victims else None
        if "observer" in victims:
            self._stand.observer.kill()
        if worker is not None:
            worker.kill()
        if "agent" in victims:
            self.agent.kill()
        self.kills.update(victims)
        if "observer" in victims:
            self._stand.start_observer()
        if "agent" in victims:
            self.agent = self._start_agent()

    def _worker(self) -> psutil.Process:
        """Return the worker process, at whatever it is; wait for one where there is none."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            for process in self.agent.descendants():
                if "headgate.spark" in command_of(process):
                    return process
            time.sleep(AWAY)
        raise AssertionError(f"no worker came back: {self.agent.log.read_text()[-3000:]}")


def messages(kafka: str, table: str) -> Iterator[tuple[int, UpdateBatch]]:
    """Yield all updates of a table's topic, each partition in its order."""
    topic = updates_topic(table)
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": "conservation"})) as consumer:
        for partition in consumer.list_topics(topic, 30).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
            assert low == 0
            consumer.assign([TopicPartition(topic, partition, 0)])
            position = 0
            while position < high:
                for record in consumer.consume(500, 0.2):
                    assert record.error() is None
                    position = record.offset() + 1
                    message = decode_update(record.value())
                    if isinstance(message, UpdateBatch):
                        yield partition, message


def requests(kafka: str, table: str) -> Iterator[tuple[int, RequestPart, list[Write]]]:
    """Yield each request of a table once: its partition, itself, and what it wrote."""
    seen = set()
    for partition, batch in messages(kafka, table):
        first = 0
        for part in batch.requests:
            cells = slice(first, first + part.cells)
            first += part.cells
            identity = (partition, batch.observer, batch.epoch, part.intent, part.piece)
            if identity not in seen:
                seen.add(identity)
                # Nothing is deleted there, so every cell has a value.
                values = cast("Sequence[bytes]", batch.values[cells])
                yield partition, part, list(zip(batch.rows[cells], values, strict=True))


class Trial:
    """One dataflow, what was written to its input, and what became of it."""

    def __init__(self, stand: Any, seed: int, pause: float) -> None:
        self.stand = stand
        self.name = f"conservation-{stand.identity}"
        self.tables = {name: stand.stack.table(name) for name in ("input", "copied", "mirrored")}
        (stand.directory / "conservation_steps.py").write_text(STEPS)
        self.writers = [
            Writer(
                f"{connect.__name__}-{number}", connect, random.Random(f"{seed}-{number}"), pause
            )
            for number, connect in enumerate((Thrift1Client, Thrift2Client) * WRITERS)
        ]
        self.supervisor = Supervisor(stand, random.Random(seed))
        stand.submit(self.supervisor.agent, flow_text(self.name, self.tables))

    def write(self, seconds: float, kills: int) -> None:
        """Write for so long, or longer, while everything but HBase and Kafka is killed."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=writer.run, args=(self.stand, self.tables["input"], stop))
            for writer in self.writers
        ]
        with ExitStack() as ending:
            for thread in threads:
                thread.start()
                ending.callback(thread.join)
            ending.callback(stop.set)
            self.supervisor.disturb(self.name, seconds, kills)
        assert [writer.error for writer in self.writers] == [None] * len(self.writers)

    def finish(self) -> None:
        """Let everything come to rest, then run the first step once more by hand."""
        self._settle()
        self.supervisor.agent.ask("POST", f"/v1/flows/{self.name}/run", {"action": "copy"})
        self._settle()

    def _settle(self) -> None:
        agent = self.supervisor.agent
        deadline = time.monotonic() + PATIENCE
        while not any(row["here"] for row in agent.ask("GET", "/v1/flows")):
            assert time.monotonic() < deadline, "the dataflow was not taken over"
            time.sleep(AWAY)
        agent.wave(self.name)

    @property
    def acknowledged(self) -> list[Write]:
        return [write for writer in self.writers for write in writer.acknowledged]

    def updates(self, action: str) -> dict[str, Any]:
        """Return what the engine counted of an action's one container."""
        (updates,) = self.supervisor.agent.explained(self.name, action)["updates"]
        return dict(updates)

    # -- what must hold

    def check(self) -> dict[str, Any]:
        """Check everything, and return the figures."""
        figures = {
            "requests": sum(writer.requests for writer in self.writers),
            "broken requests": sum(writer.broken for writer in self.writers),
            "acknowledged updates": len(self.acknowledged),
            "uncertain updates": sum(len(w.attempted) - len(w.acknowledged) for w in self.writers),
            "kills": dict(self.supervisor.kills),
        }
        figures |= self._check_events()
        self._check_tables()
        figures["runs"] = self._check_runs()
        for action, table in (("copy", "copied"), ("mirror", "mirrored")):
            self._check_no_stale_write(action, table)
        return figures

    def _check_events(self) -> dict[str, Any]:
        parts = list(requests(self.stand.stack.kafka, self.tables["input"]))
        told = {write for _, _, writes in parts for write in writes}
        lost = set(self.acknowledged) - told
        assert not lost, f"{len(lost)} acknowledged updates have no event: {sorted(lost)[:5]}"
        invented = told - {write for writer in self.writers for write in writer.attempted}
        assert not invented, f"events of writes that nobody made: {sorted(invented)[:5]}"
        counted = self.updates("copy")
        events = sum(part.cells for _, part, _ in parts)
        assert counted["counted"] >= len(self.acknowledged)
        assert counted["counted"] == events, "the agent's count is not that of the topic"
        assert counted["consumed"] == counted["counted"], counted
        assert self.updates("mirror")["pending"] == 0
        unknown = sum(part.cells for _, part, _ in parts if part.outcome is Outcome.UNKNOWN)
        return {"updates in events": events, "unknown": unknown, "counted": counted["counted"]}

    def _check_tables(self) -> None:
        rows = {name: self.stand.rows(table) for name, table in self.tables.items()}
        for writer in self.writers:
            certain = {row: at for at, (row, _) in enumerate(writer.acknowledged)}
            attempts: dict[bytes, list[bytes]] = {}
            for row, value in writer.attempted:
                attempts.setdefault(row, []).append(value)
            for row, at in certain.items():
                last = attempts[row].index(writer.acknowledged[at][1])
                assert rows["input"][row] in attempts[row][last:], f"{row!r} lost its last value"
        assert rows["copied"] == rows["input"], _difference(rows["input"], rows["copied"])
        assert rows["mirrored"] == rows["input"], _difference(rows["input"], rows["mirrored"])

    def _check_runs(self) -> dict[str, int]:
        records = self.supervisor.agent.show(self.name)["runs"]
        runs = {(record["action"], record["run"]) for record in records}
        with closing(Thrift2Connection(*self.stand.stack.thrift2)) as connection:
            ledger = RunLedger(connection, f"headgate-{self.stand.identity}")
            for action, run in runs:
                state = ledger.state(RunKey(self.name, action, run))
                assert isinstance(state, Committed), f"{run} of {action}: {state}"
        outcomes = Counter(record["outcome"] for record in records)
        committed = Counter(
            (record["action"], record["run"]) for record in records if _committed(record)
        )
        assert set(committed) == runs
        for action in ("copy", "mirror"):
            ended = [r for r in self.supervisor.agent.runs(self.name, action) if _committed(r)]
            for before, after in itertools.pairwise(ended):
                assert after["since"] == before["cut"], "updates between two runs were left out"
        assert set(committed.values()) == {1}
        return dict(outcomes)

    def _check_no_stale_write(self, action: str, table: str) -> None:
        highest: dict[int, int] = {}
        for partition, part, _ in requests(self.stand.stack.kafka, self.tables[table]):
            assert part.origin is not None
            assert part.origin.action == action
            assert part.origin.token >= highest.get(partition, 0), f"stale: {part}"
            highest[partition] = part.origin.token


def _committed(record: dict[str, Any]) -> bool:
    return bool(record["outcome"] == "committed")


def _difference(left: dict[bytes, bytes], right: dict[bytes, bytes]) -> str:
    rows = sorted(row for row in left.keys() | right.keys() if left.get(row) != right.get(row))
    shown = [(row, left.get(row), right.get(row)) for row in rows[:5]]
    return f"{len(rows)} of {len(left)} rows differ: {shown}"


def survive(stand: Any, seed: int, seconds: float, kills: int, pause: float = PAUSE) -> None:
    trial = Trial(stand, seed, pause)
    trial.write(seconds, kills)
    trial.finish()
    print(json.dumps(trial.check()))


def test_every_acknowledged_update_is_counted_and_consumed_whatever_is_killed(
    stack: Any, tmp_path: Any, make_stand: Callable[..., Any]
) -> None:
    survive(make_stand(tmp_path), seed=1, seconds=9.0, kills=3, pause=QUICK_PAUSE)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2, 7))
def test_every_acknowledged_update_is_counted_and_consumed_over_many_kills(
    stack: Any, tmp_path: Any, make_stand: Callable[..., Any], seed: int
) -> None:
    survive(make_stand(tmp_path), seed=seed, seconds=60.0, kills=12)
