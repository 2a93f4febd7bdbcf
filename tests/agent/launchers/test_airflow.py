"""A DAG run, with an Airflow that answers from memory as the real one does."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from headgate.agent.launchers.kinds import airflow as module
from headgate.agent.launchers.kinds import airflow_api
from headgate.agent.launchers.kinds.airflow import DagRun
from headgate.agent.launchers.kinds.airflow_api import AirflowRefused, NoAnswer, Patience
from headgate.flows import AirflowLauncher

ID = "air__zones__r_1__2"
RUN = f"/api/v2/dags/report/dagRuns/{ID}"

PAGE = "<html><body>Please sign in</body></html>"
STRANGERS: dict[str, tuple[int, dict[str, Any]]] = {
    "too many requests": (429, {"json": {"detail": "slow down"}}),
    "too many requests, with a time": (429, {"text": PAGE, "headers": {"Retry-After": "0"}}),
    "request time-out": (408, {"text": ""}),
    "too early": (425, {"json": {"detail": "early"}}),
    "fault": (500, {"json": {"detail": "Internal Server Error"}}),
    "bad gateway": (502, {"html": PAGE}),
    "unavailable": (503, {"html": PAGE}),
    "gateway time-out": (504, {"json": {"message": "upstream timed out"}}),
    "a page": (200, {"html": PAGE}),
    "no content": (204, {}),
    "a redirect to a portal": (302, {"headers": {"Location": "https://portal/login"}}),
    "a redirect of the same method": (307, {"headers": {"Location": "https://portal/login"}}),
    "a page of no such place": (404, {"html": PAGE}),
    "a page of no right": (403, {"html": PAGE}),
    "a gateway's own words": (404, {"json": {"message": "no Route matched"}}),
    "truncated": (200, {"content": b'{"dag_run_id": "air__zones__r_1__2", "state": "fail'}),
    "nothing": (200, {"content": b""}),
    "not UTF-8": (200, {"content": b'{"dag_run_id": "\xff", "state": "failed"}'}),
    "deep": (200, {"content": b'{"x": ' + b"[" * 100_000}),
    "another shape": (200, {"json": {"status": "up"}}),
    "a list": (200, {"json": []}),
    "another's state": (200, {"json": {"state": "failed"}}),
    "another's run": (200, {"json": {"dag_run_id": "other", "state": "failed"}}),
    "another's DAG": (200, {"json": {"dag_id": "other", "is_paused": True}}),
}
"""Answers to any request that are not Airflow's word about it."""


class Stranger(NamedTuple):
    """Whoever answers one request in Airflow's place."""

    place: int
    kind: str
    passes_on: bool = False
    """True if Airflow gets the request all the same."""

    def answer(self) -> httpx.Response:
        status, content = STRANGERS[self.kind]
        return httpx.Response(status, **content)


class Airflow:
    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.triggered: list[Any] = []
        self.paused = False
        self.away = False
        self.tokens = 0
        self.requests = 0
        self.stranger: Stranger | None = None

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.away:
            raise httpx.ConnectError("away")
        if self.stranger is not None and self.requests == self.stranger.place:
            if self.stranger.passes_on:
                self.answer_itself(request)
            return self.stranger.answer()
        return self.answer_itself(request)

    def answer_itself(self, request: httpx.Request) -> httpx.Response:
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
                return httpx.Response(200, json={"dag_id": "report", "is_paused": self.paused})
            case "POST", "/api/v2/dags/report/dagRuns":
                return self.trigger(json.loads(request.content))
            case "PATCH", _ if path == RUN:
                self.states[RUN] = json.loads(request.content)["state"]
                return httpx.Response(200, json=self.shown())
            case "GET", _ if path == RUN and RUN in self.states:
                return httpx.Response(200, json=self.shown())
            case "GET", _ if path == f"{RUN}/taskInstances":
                task = {"task_id": "write", "try_number": 1, "state": self.states[RUN]}
                return httpx.Response(200, json={"task_instances": [task]})
            case "GET", _ if path == f"{RUN}/taskInstances/write/logs/1":
                return httpx.Response(200, text='{"timestamp": "12:00", "event": "hello"}\n')
            case _:
                return httpx.Response(404, json={"detail": f"{path} was not found"})

    def trigger(self, body: Any) -> httpx.Response:
        run = f"/api/v2/dags/report/dagRuns/{body['dag_run_id']}"
        if run in self.states:
            return httpx.Response(409, json={"detail": "exists"})
        self.states[run] = "queued"
        self.triggered.append(body)
        return httpx.Response(200, json=self.shown())

    def shown(self) -> dict[str, str]:
        return {"dag_run_id": ID, "state": self.states[RUN]}


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


TRIGGER = 5
"""The request that triggers: after a refused look, a log-in, a look, and the DAG."""

PLACES = [(place, False) for place in range(1, 8)] + [(TRIGGER, True)]


@pytest.mark.parametrize("kind", STRANGERS)
def test_whoever_answers_in_airflows_place_fails_nothing(
    run_of: Any, airflow: Airflow, kind: str
) -> None:
    for place, passes_on in PLACES:
        airflow.states.clear()
        airflow.triggered.clear()
        airflow.requests = 0
        airflow.stranger = Stranger(place, kind, passes_on)
        run = run_of()
        run.start()
        assert [run.outcome() for _ in range(3)] == [None] * 3, place
        airflow.states[RUN] = "success"
        ended = next(filter(lambda said: said is not None, (run.outcome() for _ in range(3))))
        run.stop()
        assert (ended, airflow.states[RUN], len(airflow.triggered)) == ("", "success", 1), place


@pytest.mark.parametrize("kind", STRANGERS)
def test_whoever_answers_in_airflows_place_does_not_keep_a_run_from_being_stopped(
    run_of: Any, airflow: Airflow, kind: str
) -> None:
    for place in (1, 2):  # the look, and the mark
        run = run_of()
        run.start()
        airflow.states[RUN] = "running"
        airflow.stranger = Stranger(airflow.requests + place, kind)
        run.stop()
        assert airflow.states[RUN] == "failed"


def test_a_log_is_not_a_page_that_came_in_its_place(
    run_of: Any, airflow: Airflow, tmp_path: Path
) -> None:
    run = run_of()
    run.start()
    airflow.states[RUN] = "failed"
    airflow.stranger = Stranger(airflow.requests + 3, "a page")
    assert run.outcome() == f"DAG run {ID} failed: task write"
    log = (tmp_path / "job" / "output.log").read_text()
    assert "logs are with Airflow only" in log
    assert "--- task" not in log


def test_nobody_asks_again_before_the_time_that_was_given(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.answer_itself = lambda _: httpx.Response(  # type: ignore[assignment]
        429, headers={"Retry-After": "100"}
    )
    assert run.outcome() is None
    asked = airflow.requests
    assert run.outcome() is None
    assert airflow.requests == asked


def test_an_airflow_that_never_answers_fails_the_attempt_in_the_end(
    run_of: Any, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    run = run_of()
    run.start()
    airflow.stranger = Stranger(airflow.requests + 1, "a page")
    assert "which is not Airflow's JSON" in run.outcome()


def test_a_run_that_ended_while_nobody_looked_is_left_as_it_is(
    run_of: Any, airflow: Airflow
) -> None:
    run = run_of()
    run.start()
    airflow.states[RUN] = "success"
    run.stop()
    assert airflow.states[RUN] == "success"


def test_a_run_that_was_deleted_fails(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.states.clear()
    assert run.outcome() == f"Airflow has no DAG run {ID} any more"


def test_a_refused_password_leaves_a_run_that_works(run_of: Any, airflow: Airflow) -> None:
    run = run_of()
    run.start()
    airflow.tokens += 1
    airflow.stranger = Stranger(airflow.requests + 2, "too many requests")
    assert run.outcome() is None
    assert run.outcome() is None
    airflow.states[RUN] = "success"
    assert run.outcome() == ""


def test_an_airflow_that_has_moved_is_refused_with_the_cure(run_of: Any, airflow: Airflow) -> None:
    airflow.answer_itself = lambda _: httpx.Response(  # type: ignore[assignment]
        308, headers={"Location": "https://airflow/"}
    )
    with pytest.raises(AirflowRefused, match=r"moved to https://airflow/; set launchers"):
        run_of().start()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("", 0),
        ("soon", 0),
        ("-3", 0),
        ("Fri, 31 Dec 99999999999999 23:59:59 GMT", 0),
    ],
)
def test_retry_after_may_be_seconds(value: str, seconds: float) -> None:
    assert airflow_api._retry_after(value) == seconds


@pytest.mark.parametrize(("ahead", "low", "high"), [(-100, 0, 0), (10_000, 9_000, 10_000)])
def test_retry_after_may_be_a_date(ahead: float, low: float, high: float) -> None:
    value = formatdate(time.time() + ahead, usegmt=True)
    assert low <= airflow_api._retry_after(value) <= high


def test_patience_grows_heeds_what_was_asked_for_and_has_an_end() -> None:
    now = time.monotonic()
    patience = Patience(1.0, 4.0, now + 100.0)
    waits = [(patience.next_time(NoAnswer("")) or 0) - now for _ in range(4)]
    assert waits == pytest.approx([1, 2, 4, 4], abs=0.5)
    assert (patience.next_time(NoAnswer("", 50.0)) or 0) - now == pytest.approx(50, abs=0.5)
    assert patience.next_time(NoAnswer("", 1e9)) == now + 100.0
    assert Patience(1.0, 4.0, now).next_time(NoAnswer("")) is None
