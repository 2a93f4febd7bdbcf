"""An observer and agents as processes of their own, on the real stack, and a dataflow to run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import happybase
import psutil
import pytest
from free_ports import free_port

from headgate.cli.agent_client import connect
from headgate.local import Lifetime, start_process
from headgate.observer import (
    AccessSettings,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

# Seconds; far more than it takes on two busy cores: a shared machine may stand still for a minute.
READY = 300.0
SETTLE = 300.0

LONGEST_LOOK = 0.3
"""Seconds between two looks at what takes long: each costs the agent and the test milliseconds of a
processor, and what is waited for needs it, too."""

STEPS = """
import time
from pathlib import Path

def copy(run):
    run.write(run.read(run.parameters["source"]), run.parameters["target"])

def moody(run):
    if Path(run.parameters["flag"]).exists():
        raise ValueError("the flag is up")
    copy(run)

def slow(run):
    while Path(run.parameters["flag"]).exists():
        time.sleep(0.05)
    copy(run)
"""


COMMAND = """
import os, sys, time
from pathlib import Path
import msgspec
from headgate.client import Thrift2Connection
from headgate.spark import NamedResults, StepRequest

folder = Path(sys.argv[1])
with (folder / "starts").open("a") as starts:
    starts.write(os.environ["HEADGATE_RUN_ID"] + "\\n")
print("at work for", os.environ["HEADGATE_ACTION"], flush=True)
while (folder / "hold").exists():
    time.sleep(0.05)
if (folder / "fail").exists():
    sys.exit("it was told to fail")
request = msgspec.json.decode(Path(os.environ["HEADGATE_RUN"]).read_bytes(), type=StepRequest)
with (folder / "previous").open("a") as previous:
    print(request.previous, file=previous)
host, port = os.environ["HEADGATE_THRIFT2"].split(":")
with Thrift2Connection(host, int(port)) as connection:
    cells = [(request.run.encode(), {b"f:v": b"1"})]
    connection.put(request.parameters["table"], cells, origin=request.origin)
    results = NamedResults(connection, request.ledger, request.result_proof)
    results.name(request.key, request.token, f"state of {request.run}")
"""


# A handful of rows costs less than compiling Java for the plan that they go through. Compiled plans
# run in the demonstrations, in the examples, and in the tests of Spark's worker.
INTERPRETED = (
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
)


def looks() -> Iterator[None]:
    """Yield until what is waited for should have come: soon again at first, and then less often."""
    deadline = time.monotonic() + SETTLE
    pause = 0.03
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(LONGEST_LOOK, pause * 1.3)


def action_of(explanation: Any, action: str) -> Any:
    (found,) = (a for a in explanation["actions"] if a["action"] == action)
    return found


class AgentProcess:
    """``headgate agent`` in a process that ends with the tests."""

    def __init__(
        self,
        name: str,
        text: str,
        directory: Path,
        program: tuple[str, ...] = ("-m", "headgate.cli"),
        spark: tuple[str, ...] = INTERPRETED,
    ) -> None:
        """Start it; ``spark`` are options of the JVMs of its sessions."""
        self.name = name
        self.log = directory / f"{name}.log"
        self.configuration = directory / f"{name}.toml"
        self.configuration.write_text(text)
        command = [sys.executable, *program, "agent", "--config"]
        options = " ".join((os.environ.get("SPARK_SUBMIT_OPTS", ""), *spark))
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        self._process: subprocess.Popen[bytes] = start_process(
            [*command, str(self.configuration)], environment, self.log, Lifetime.WITH_CALLER
        )
        try:
            self.address = self._await_ready()
        except BaseException:
            # Not left to the tests after this one, whose agents have its name.
            self._process.kill()
            self._process.wait()
            raise
        self.client = connect(self.address, SETTLE + 30)

    def _await_ready(self) -> str:
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.findall(r"^ready api=(\S+)$", self.log.read_text(), re.MULTILINE)
            if found:
                return str(found[-1])
            time.sleep(0.05)
        raise AssertionError(f"agent {self.name} was not ready:\n{self.log.read_text()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.client.close()

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(60)
        self.client.close()
        return status

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def await_dataflows(self) -> None:
        """Wait until all dataflows run here: their leases with an agent before have ended."""
        for _ in looks():
            if all(row["here"] for row in self.ask("GET", "/v1/flows")):
                return
        raise AssertionError(self.words())

    def words(self) -> str:
        """Return the ends of its log and of its workers', for whoever has to find out why."""
        logs = [self.log, *sorted((self.log.parent / "workers" / self.name).rglob("*.log"))]
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    def show(self, flow: str) -> Any:
        return self.ask("GET", f"/v1/flows/{flow}")

    def explain(self, flow: str) -> Any:
        return self.ask("GET", f"/v1/flows/{flow}/explain")

    def explained(self, flow: str, action: str) -> Any:
        """Return what is explained of one action."""
        return action_of(self.explain(flow), action)

    def counted(self, flow: str, action: str) -> tuple[int, int]:
        """Return updates and elements of an action's first and of the only container."""
        told = self.explain(flow)
        (container,) = told["containers"]
        return action_of(told, action)["updates"][0]["counted"], container["elements"]

    def runs(self, flow: str, action: str) -> list[Any]:
        """Return the attempts of an action, oldest first."""
        return [r for r in reversed(self.show(flow)["runs"]) if r["action"] == action]

    def launch(self, flow: str, action: str) -> str:
        """Have an action run whatever its bounds say, and return the run when it is launched.

        Asked for once: a request that has to wait is kept, and another one would be another run.
        """
        before = {run["run"] for run in self.runs(flow, action)}
        self.ask("POST", f"/v1/flows/{flow}/run", {"action": action})
        for _ in looks():
            for run in self.runs(flow, action):
                if run["run"] not in before:
                    return str(run["run"])
        raise AssertionError(f"{self.explained(flow, action)}\n{self.words()}")

    def wave(self, flow: str) -> None:
        """End a wave and wait until its consequences have come to rest."""
        number = self.ask("POST", f"/v1/flows/{flow}/waves", {})["wave"]
        self.settle(flow, number)

    def settle(self, flow: str, number: int) -> None:
        status = self.ask("GET", f"/v1/flows/{flow}/waves/{number}?wait={SETTLE:g}")
        assert status["settled"], f"wave {number}: {status}\n{self.words()}"


class Stand:
    """An observer, agents, and the tables of one dataflow."""

    def __init__(self, stack: Any, directory: Path, lease: float = 3.0) -> None:
        self.stack = stack
        self.directory = directory
        self.lease = lease
        self.identity = uuid.uuid4().hex[:10]
        self.control_topic = f"headgate.control-{self.identity}"
        self.agents: list[AgentProcess] = []
        self._ports = (free_port(), free_port())
        self.access: AccessSettings | None = None
        """Of the observer, when it is started again."""
        (directory / "steps.py").write_text(STEPS)
        self.start_observer()

    def start_observer(self) -> None:
        """Start the observer, again on the same ports and journal."""
        thrift1, thrift2 = self._ports
        self.observer = ObserverProcess(
            ObserverConfig(
                name=f"observer-{self.identity}",
                thrift1=Listener(f"127.0.0.1:{thrift1}", str(self.stack.thrift1)),
                thrift2=Listener(f"127.0.0.1:{thrift2}", str(self.stack.thrift2)),
                kafka=KafkaSettings(
                    self.stack.kafka, control_topic=self.control_topic, partitions=4
                ),
                journal=JournalSettings(str(self.directory / "journal")),
                lease_seconds=3.0,
                access=self.access,
            ),
            self.directory / "observer",
        )

    @property
    def thrift1(self) -> tuple[str, int]:
        """The observer's Thrift1 listener."""
        return "127.0.0.1", self._ports[0]

    @property
    def thrift2(self) -> tuple[str, int]:
        """The observer's Thrift2 listener."""
        return "127.0.0.1", self._ports[1]

    def start_agent(self, name: str = "one", more: str = "", **options: Any) -> AgentProcess:
        """Start an agent; ``more`` is what else its configuration says."""
        agent = AgentProcess(
            name,
            f"""
name = "{name}"
api = "127.0.0.1:0"
lease_seconds = {self.lease}
checkpoint_seconds = 1.0
shutdown_seconds = 3.0
[hbase]
thrift2 = "127.0.0.1:{self._ports[1]}"
state_table = "headgate-{self.identity}"
[kafka]
bootstrap = "{self.stack.kafka}"
group = "agents-{self.identity}"
control_topic = "{self.control_topic}"
partitions = 4
[workers]
directory = "{self.directory / "workers" / name}"
{more}""",
            self.directory,
            **options,
        )
        self.agents.append(agent)
        return agent

    def connect(self) -> happybase.Connection:
        """Connect to Thrift1 through the observer."""
        return happybase.Connection("127.0.0.1", self._ports[0], timeout=30_000)

    def write(self, table: str, values: dict[bytes, bytes]) -> None:
        """Write rows one by one through the observer."""
        with closing(self.connect()) as connection:
            for row, value in values.items():
                connection.table(table).put(row, {b"f:v": value})

    def rows(self, table: str) -> dict[bytes, bytes]:
        """Read a table past the observer."""
        with closing(self.stack.happybase()) as connection:
            return {row: cells[b"f:v"] for row, cells in connection.table(table).scan()}

    def submit(self, agent: AgentProcess, text: str, **more: Any) -> Any:
        """Submit a dataflow; ``more`` is what else the request says."""
        return agent.ask(
            "POST",
            "/v1/flows",
            {"source": text, "file": "test.yaml", "directory": str(self.directory), **more},
        )

    def close(self) -> None:
        for agent in self.agents:
            if agent.running:
                agent.stop()
        if self.observer.running():
            self.observer.stop()


class Scene:
    """A dataflow of one action, and the files by which it is told what to do.

    Attributes:
        step: what a test says of the action: indented lines of YAML.
        bound: of the action on its input.
        attempts: of each run.
    """

    def __init__(self, stand: Stand, folder: Path, action: str) -> None:
        self.stand = stand
        self.folder = folder
        self.action = action
        self.name = f"{action}-{uuid.uuid4().hex[:10]}"
        self.hold = folder / "hold"
        self.tables = {name: stand.stack.table(name) for name in ("input", "output")}
        self.step = ""
        self.bound = "{sequence: 1}"
        self.attempts = 3

    @property
    def text(self) -> str:
        return f"""
name: {self.name}
containers:
  input: {self.tables["input"]} f:v
  output: {self.tables["output"]} f:v
actions:
  feed: {{input: input}}
  {self.action}:
    reads: input
    writes: output
    when: {{input: {self.bound}}}
    retries: {{attempts: {self.attempts}, backoff: 0.2 s}}
{self.step}
"""

    def submit(self) -> AgentProcess:
        """Hand it to the agent that runs, or to a first one, and return that."""
        running = [agent for agent in self.stand.agents if agent.running]
        agent = running[-1] if running else self.stand.start_agent()
        body = {"source": self.text, "file": "scene.yaml", "directory": str(self.folder)}
        agent.ask("POST", "/v1/flows", body)
        return agent

    def restarted(self) -> AgentProcess:
        """Start the agent again after it was killed, and return it when it has the dataflow."""
        agent = self.stand.start_agent()
        agent.await_dataflows()
        return agent

    def run_command(self, table: str) -> None:
        """Let the step be a command that writes a row named after its run to one of the tables."""
        (self.folder / "command.py").write_text(COMMAND)
        self.step = f"""
    command: [{sys.executable}, command.py, {self.folder}]
    timeout: 60 s
    parameters: {{table: {self.tables[table]}}}
"""

    def begin(self, agent: AgentProcess) -> int:
        """Write two rows, end the wave and return its number."""
        self.stand.write(self.tables["input"], {b"1": b"10.0", b"2": b"20.0"})
        return int(agent.ask("POST", f"/v1/flows/{self.name}/waves", {})["wave"])

    def starts(self) -> list[str]:
        """Return a line for each time that the step began."""
        path = self.folder / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def outcomes(self, agent: AgentProcess) -> list[tuple[int, str]]:
        return [(r["attempt"], r["outcome"]) for r in agent.runs(self.name, self.action)]

    def result(self) -> dict[bytes, bytes]:
        return self.stand.rows(self.tables["output"])


@pytest.fixture(scope="module")
def stand(stack: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    stand = Stand(stack, tmp_path_factory.mktemp("stand"))
    yield stand
    stand.close()


@pytest.fixture
def make_stand(stack: Any) -> Iterator[Callable[..., Stand]]:
    made: list[Stand] = []

    def make(directory: Path, on: Any = stack) -> Stand:
        made.append(Stand(on, directory))
        return made[-1]

    yield make
    for stand in made:
        stand.close()


@pytest.fixture(scope="session")
def scene_of() -> type[Scene]:
    """For a stand of the test's own."""
    return Scene


@pytest.fixture
def make_scene(stand: Stand, tmp_path: Path) -> Callable[[str], Scene]:
    return lambda action: Scene(stand, tmp_path, action)


def await_truth(what: Callable[[], Any]) -> Any:
    """Wait until it is true, and return it."""
    for _ in looks():
        found = what()
        if found:
            return found
    raise AssertionError("it did not come to pass")


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    return await_truth
