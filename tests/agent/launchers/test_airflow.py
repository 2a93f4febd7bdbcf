"""A DAG run, with an Airflow that answers from memory as the real one does."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from headgate.agent.launchers.kinds import airflow as module
from headgate.agent.launchers.kinds.airflow import AirflowRefused, DagRun
from headgate.flows import AirflowLauncher

RUN = "/api/v2/dags/report/dagRuns/air__zones__r_1__2"


class Airflow:
    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.triggered: list[Any] = []
        self.paused = False
        self.away = False
        self.tokens = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        if self.away:
            raise httpx.ConnectError("away")
        path, method = request.url.path, request.method
        if path == "/auth/token":
            good = json.loads(request.content) == {"username": "ann", "password": "pw"}
            self.tokens += 1
            token = {"access_token": f"token-{self.tokens}"}
            return httpx.Response(201, json=token) if good else httpx.Response(401)
        if request.headers.get("Authorization") != f"Bearer token-{self.tokens}":
            return httpx.Response(401, json={"detail": "Not authenticated"})
        match method, path:
            case "GET", "/api/v2/dags/report":
                return httpx.Response(200, json={"is_paused": self.paused})
            case "POST", "/api/v2/dags/report/dagRuns":
                return self.trigger(json.loads(request.content))
            case "PATCH", _ if path == RUN:
                self.states[RUN] = json.loads(request.content)["state"]
                return httpx.Response(200, json={"state": self.states[RUN]})
            case "GET", _ if path == RUN and RUN in self.states:
                return httpx.Response(200, json={"state": self.states[RUN]})
            case "GET", _ if path == f"{RUN}/taskInstances":
                task = {"task_id": "write", "try_number": 1, "state": self.states[RUN]}
                return httpx.Response(200, json={"task_instances": [task]})
            case "GET", _ if path == f"{RUN}/taskInstances/write/logs/1":
                return httpx.Response(200, text='{"timestamp": "12:00", "event": "hello"}\n')
            case _:
                return httpx.Response(404, json={"detail": "not found"})

    def trigger(self, body: Any) -> httpx.Response:
        run = f"/api/v2/dags/report/dagRuns/{body['dag_run_id']}"
        if run in self.states:
            return httpx.Response(409, json={"detail": "exists"})
        self.states[run] = "queued"
        self.triggered.append(body)
        return httpx.Response(200, json={"state": "queued"})


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    monkeypatch.setattr(module, "_LOOK", 0.0)
    return Airflow()


@pytest.fixture
def run_of(make_job: Any, airflow: Airflow) -> Any:
    def make(dag: str = "report") -> DagRun:
        launcher = AirflowLauncher(dag, "http://airflow", {"to": "mayor"})
        files, job = make_job(launcher)
        return DagRun(files, job, launcher, httpx.MockTransport(airflow.answer))

    return make


def test_a_run_is_triggered_with_its_parameters_and_without_secrets(
    run_of: Any, airflow: Airflow
) -> None:
    run_of().start()
    (body,) = airflow.triggered
    assert body["dag_run_id"] == "air__zones__r_1__2"
    assert body["logical_date"] is None
    assert body["conf"]["to"] == "mayor"
    assert body["conf"]["headgate"]["token"] == 7
    assert "secret" not in json.dumps(body)
    assert "ledger_proof" not in body["conf"]["headgate"]
    assert body["conf"]["headgate"]["previous"] == "manifest-1"


def test_a_run_that_was_triggered_before_is_found(run_of: Any, airflow: Airflow) -> None:
    run_of().start()
    airflow.paused = True  # what was triggered goes on
    again = run_of()
    again.start()
    assert len(airflow.triggered) == 1
    airflow.states[RUN] = "success"
    assert again.outcome() == ""


def test_success_and_failure_are_told_and_logs_kept(
    run_of: Any, airflow: Airflow, tmp_path: Any
) -> None:
    run = run_of()
    run.start()
    assert run.outcome() is None
    airflow.states[RUN] = "failed"
    assert run.outcome() == "DAG run air__zones__r_1__2 failed: task write"
    assert "12:00 hello" in (tmp_path / "job" / "output.log").read_text()


def test_an_airflow_that_is_away_for_a_while_fails_nothing(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.away = True
    assert run.outcome() is None
    airflow.away = False
    airflow.states[RUN] = "success"
    assert run.outcome() == ""


def test_an_expired_token_is_replaced(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.tokens += 1
    assert run.outcome() is None


def test_a_stopped_run_is_marked_as_failed(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    run.stop()
    assert airflow.states[RUN] == "failed"


def test_a_run_that_succeeded_is_left_as_it_is(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.states[RUN] = "success"
    assert run.outcome() == ""
    run.stop()
    assert airflow.states[RUN] == "success"


def test_a_paused_dag_is_refused_with_the_cure(run_of: Any, airflow: Airflow) -> None:
    airflow.paused = True
    with pytest.raises(AirflowRefused, match="unpause it"):
        run_of().start()
    assert airflow.triggered == []


def test_an_unknown_dag_is_refused(run_of: Any) -> None:
    with pytest.raises(AirflowRefused, match="404"):
        run_of("nothing").start()
