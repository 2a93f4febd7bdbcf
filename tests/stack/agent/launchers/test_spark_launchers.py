"""Steps by spark-submit on a standalone cluster, and on a Spark Connect server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from free_ports import free_port

from headgate.local import Lifetime, start_process
from headgate.spark import code_hash, digest_of

pytestmark = [pytest.mark.stack, pytest.mark.soak]

Eventually = Callable[..., Any]
READY = 180.0

STEPS = """
import os
import time
from pathlib import Path

def scale(run):
    with Path(run.parameters["starts"]).open("a") as starts:
        print(run.id, run.attempt, run.spark.version, file=starts)
    while Path(run.parameters["hold"]).exists():
        time.sleep(0.05)
    frame = run.read("input")
    print("rows to scale:", frame.count())
    # Through executors: a function of the step's own module runs in the cluster.
    doubled = frame.mapInPandas(twice, frame.schema)
    run.write(doubled, "output")

def twice(frames):
    for frame in frames:
        frame["v"] = frame["v"] * 2
        yield frame
"""

CODE = code_hash({"scaling": digest_of(STEPS.encode())})
"""Of the step: what it imports beside is installed."""


class Servers:
    """Spark's own servers, which end with the module."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "640m",
        }

    def start(self, name: str, ready: str, *words: str) -> re.Match[str]:
        """Start a program of Spark's and return what its log said when it was ready."""
        log = self._directory / f"{name}.log"
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        program = shutil.which(words[0], path=beside)
        assert program is not None
        process = start_process([program, *words[1:]], self._environment, log, Lifetime.WITH_CALLER)
        self._processes.append(process)
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline and process.poll() is None:
            found = re.search(ready, log.read_text())
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{name} was not ready:\n{log.read_text()[-3000:]}")

    def cluster(self) -> str:
        """Start a standalone cluster of one worker and return its master's address."""
        port = free_port()
        where = ("--host", "127.0.0.1", "--port")
        spark = "org.apache.spark.deploy"
        self.start(
            "master",
            "I have been elected leader",
            *("spark-class", f"{spark}.master.Master", *where, str(port), "--webui-port", "0"),
        )
        self.start(
            "worker",
            "Successfully registered with master",
            *("spark-class", f"{spark}.worker.Worker", "--cores", "2", "--memory", "1g"),
            *("--work-dir", str(self._directory / "work"), *where, "0", "--webui-port", "0"),
            f"spark://127.0.0.1:{port}",
        )
        return f"spark://127.0.0.1:{port}"

    def connect(self) -> str:
        """Start a Spark Connect server and return its address."""
        port = free_port()
        settings = {
            "spark.master": "local[2]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
        conf = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        words = ("spark-submit", *conf, "--class", server)
        self.start("connect", "Spark Connect server started at", *words, "spark-internal")
        return f"sc://127.0.0.1:{port}"

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("spark"))
    yield servers
    servers.close()


@pytest.fixture
def make_scaling(make_scene: Callable[[str], Any]) -> Callable[[str], Any]:
    def make(launcher: str) -> Any:
        scene = make_scene("scale")
        (scene.folder / "scaling.py").write_text(STEPS)
        scene.step = f"""
    step: scaling:scale
    launcher: {launcher}
    parameters: {{hold: {scene.hold}, starts: {scene.folder / "starts"}}}
"""
        return scene

    return make


def test_a_step_is_run_by_spark_submit_and_outlives_its_agent(
    make_scaling: Callable[[str], Any], servers: Servers, eventually: Eventually
) -> None:
    conf = "spark.driver.host: 127.0.0.1, spark.executor.memory: 512m, spark.ui.enabled: false"
    launcher = f"{{submit: {{master: '{servers.cluster()}', conf: {{{conf}}}}}}}"
    scene = make_scaling(launcher)
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    agent.kill()
    again = scene.restarted()
    scene.hold.unlink()
    again.settle(scene.name, wave)
    assert scene.outcomes(again) == [(1, "lost"), (2, "committed")]
    assert len(scene.starts()) == 1, "the application was submitted twice"
    assert again.runs(scene.name, "scale")[-1]["code"] == CODE
    assert scene.result() == {b"1": b"20.0", b"2": b"40.0"}


def test_an_application_that_dies_with_its_agent_loses_nothing(
    make_scaling: Callable[[str], Any], eventually: Eventually
) -> None:
    launcher = "{submit: {master: 'local[1]', conf: {spark.ui.enabled: false}}}"
    scene = make_scaling(launcher)
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    below = agent.descendants()
    agent.kill()
    for process in below:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue  # it ended with its parent
    scene.hold.unlink()
    again = scene.restarted()
    again.settle(scene.name, wave)
    assert scene.outcomes(again) == [(1, "lost"), (2, "committed")]
    assert scene.result() == {b"1": b"20.0", b"2": b"40.0"}


def test_a_step_is_run_on_a_connect_server_and_outlives_its_agent(
    make_scaling: Callable[[str], Any], servers: Servers, eventually: Eventually
) -> None:
    scene = make_scaling(f"{{connect: {{remote: '{servers.connect()}'}}}}")
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    agent.kill()
    again = scene.restarted()
    scene.hold.unlink()
    again.settle(scene.name, wave)
    assert scene.outcomes(again) == [(1, "lost"), (2, "committed")]
    assert len(scene.starts()) == 1, "the step was begun twice"
    assert again.runs(scene.name, "scale")[-1]["code"] == CODE
    assert scene.result() == {b"1": b"20.0", b"2": b"40.0"}
    logs = again.ask("GET", f"/v1/flows/{scene.name}/logs?of=scale")
    assert "rows to scale: 2" in logs["text"]
