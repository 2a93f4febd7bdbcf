"""A dataflow's action as a run of a DAG, with Airflow itself.

Airflow is installed into a virtual environment of its own, which takes minutes: ``make soak``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from free_ports import free_port

from headgate.local import Lifetime, start_process

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]

Eventually = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[4]
READY = 600.0

DAG = """
import json
import os
import subprocess
from datetime import datetime

from airflow.sdk import dag, get_current_context, task

@dag(schedule=None, start_date=datetime(2024, 1, 1), catchup=False)
def report():
    @task
    def write():
        conf = get_current_context()["dag_run"].conf
        print("asked for by", conf["headgate"]["action"])
        # A real DAG starts Spark here; what matters is that the run's words arrive.
        environment = {name: value for name, value in os.environ.items() if "AIRFLOW" not in name}
        subprocess.run(
            [conf["python"], conf["script"], json.dumps(conf)], check=True, env=environment
        )
    write()

report()
"""

SCRIPT = """
import json, sys, time
from pathlib import Path
import msgspec
from headgate.client import Thrift2Connection
from headgate.spark import StepRequest

conf = json.loads(sys.argv[1])
request = msgspec.convert(conf["headgate"], StepRequest)
folder = Path(conf["folder"])
with (folder / "starts").open("a") as starts:
    print(request.run, request.attempt, file=starts)
while (folder / "hold").exists():
    time.sleep(0.1)
with Thrift2Connection(request.hbase.host, request.hbase.port) as connection:
    cells = [(request.run.encode(), {b"f:v": b"1"})]
    connection.put(conf["table"], cells, origin=request.origin)
"""


def installed() -> Path:
    """Return the folder of Airflow's programs, after its installation if need be."""
    home = ROOT / ".cache" / "airflow"
    programs = home / "bin"
    if not (programs / "airflow").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        lock = ROOT / "requirements-airflow.lock"
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", str(lock)], check=True)
    return programs


class Airflow:
    """``airflow standalone``: its API server, scheduler and the rest, on SQLite."""

    def __init__(self, home: Path) -> None:
        port = free_port()
        (home / "dags").mkdir(parents=True)
        (home / "dags" / "report.py").write_text(DAG)
        (home / "passwords.json").write_text(json.dumps({"headgate": "secret"}))
        self.url = f"http://127.0.0.1:{port}"
        programs = installed()
        settings = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(home / "dags"),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": "headgate:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
        }
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            "AIRFLOW_HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        self.log = home / "standalone.log"
        self._process = start_process(
            [str(programs / "airflow"), "standalone"], environment, self.log, Lifetime.WITH_CALLER
        )

    def await_ready(self) -> None:
        """Wait until the DAG can be triggered."""
        deadline = time.monotonic() + READY
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            while time.monotonic() < deadline and self._process.poll() is None:
                try:
                    who = {"username": "headgate", "password": "secret"}
                    token = client.post("/auth/token", json=who).json()["access_token"]
                    headers = {"Authorization": f"Bearer {token}"}
                    if client.get("/api/v2/dags/report", headers=headers).status_code == 200:
                        return
                except (httpx.HTTPError, ValueError, KeyError):
                    pass
                time.sleep(1)
        raise AssertionError(f"Airflow was not ready:\n{self.log.read_text()[-4000:]}")

    def runs(self) -> dict[str, str]:
        """Return the state of each of the DAG's runs."""
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as client:
            who = {"username": "headgate", "password": "secret"}
            token = client.post("/auth/token", json=who).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            answer = client.get("/api/v2/dags/report/dagRuns", headers=headers).json()
        return {run["dag_run_id"]: run["state"] for run in answer["dag_runs"]}

    def close(self) -> None:
        family = [
            psutil.Process(self._process.pid),
            *psutil.Process(self._process.pid).children(True),
        ]
        self._process.terminate()
        _, left = psutil.wait_procs(family, 30)
        for process in left:
            process.kill()


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    airflow = Airflow(tmp_path_factory.mktemp("airflow"))
    with closing(airflow):
        airflow.await_ready()
        yield airflow


@pytest.fixture
def scene(
    make_scene: Callable[[str], Any], airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setenv("HEADGATE_AGENT_LAUNCHERS_AIRFLOW_USER", "headgate")
    monkeypatch.setenv("HEADGATE_AGENT_LAUNCHERS_AIRFLOW_PASSWORD", "secret")
    scene = make_scene("report")
    (scene.folder / "write.py").write_text(SCRIPT)
    scene.step = f"""
    dag: report
    launcher: {{airflow: {{url: "{airflow.url}"}}}}
    parameters:
      python: {sys.executable}
      script: {scene.folder / "write.py"}
      folder: {scene.folder}
      table: {scene.tables["output"]}
"""
    return scene


def test_a_dag_is_run_once_whatever_is_killed_and_its_logs_are_kept(
    scene: Any, airflow: Airflow, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    below = agent.descendants()
    agent.kill()
    for process in below:
        process.kill()
    again = scene.restarted()
    scene.hold.unlink()
    eventually(lambda: scene.outcomes(again)[-1:] == [(2, "committed")])
    again.settle(scene.name, wave)
    assert len(scene.starts()) == 1, "the DAG was triggered twice"
    assert len(scene.result()) == 1
    assert list(airflow.runs().values()) == ["success"]
    logs = again.ask("GET", f"/v1/flows/{scene.name}/logs?of=report")
    assert "asked for by report" in logs["text"]


def test_a_dag_run_of_a_removed_dataflow_is_marked_as_failed(
    scene: Any, airflow: Airflow, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    scene.begin(agent)
    eventually(scene.starts)
    agent.ask("DELETE", f"/v1/flows/{scene.name}")
    mine = next(state for run, state in airflow.runs().items() if scene.name in run)
    assert mine == "failed"
