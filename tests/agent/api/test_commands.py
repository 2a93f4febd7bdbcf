"""What a dataflow is asked and had do over the API, and what is said of the agent itself."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from memory_agent import NOW, RECORD, HostedFlow, MemoryAgent
from simulation import SEALS

from headgate.agent.api import logs
from headgate.agent.api.logs import read_log
from headgate.agent.state.sealed import sign

RECORDED = msgspec.to_builtins(RECORD)


@pytest.fixture
def api(make_api: Callable[..., Any], agent: MemoryAgent, flow: HostedFlow) -> Any:
    return make_api(agent=agent)


RUN = {"action": "clean", "run": "r2", "waits": "", "follows": False}


@pytest.mark.parametrize(
    ("method", "path", "body", "asked", "answered"),
    [
        ("POST", "pause", None, ("pause", NOW), {}),
        ("POST", "resume", None, ("resume", NOW), {}),
        ("POST", "run", {"action": "clean"}, ("run", "clean", NOW), RUN),
        ("POST", "cancel", {"action": "clean"}, ("cancel", "clean"), {}),
        ("POST", "retry", {"action": "clean"}, ("retry", "clean", NOW), {"actions": ["clean"]}),
        ("POST", "retry", {}, ("retry", None, NOW), {"actions": ["all"]}),
        ("POST", "release", {"action": "clean"}, ("release", "clean", NOW), {"actions": ["clean"]}),
        ("POST", "release", None, ("release", None, NOW), {"actions": ["all"]}),
        (
            "POST",
            "waves",
            {"actions": ["feed"], "time": 7.25},
            ("mark", ("feed",), NOW, 7.25),
            {"wave": 4, "time": 7.25},
        ),
        ("POST", "waves", {"time": 0}, ("mark", (), NOW, 0.0), {"wave": 4, "time": 0.0}),
        ("POST", "waves", None, ("mark", (), NOW, None), {"wave": 4, "time": NOW}),
        ("GET", "stages", None, ("stages", NOW), ["clean"]),
        (
            "POST",
            "stages/rebuild",
            {"action": "clean", "with_sources": True},
            ("rebuild", "clean", True, NOW),
            {
                "actions": ["clean"],
                "runs": {"clean": "r2"},
                "waits": {},
                "written": {},
                "location": "",
                "manifests": {},
            },
        ),
        ("POST", "stages/compact", {"action": "clean"}, ("compact", "clean", NOW), RUN),
        ("GET", "explain", None, ("explain", NOW), {"explained": NOW}),
    ],
)
def test_a_dataflow_does_what_it_is_asked_for_and_answers(
    api: Any,
    flow: HostedFlow,
    method: str,
    path: str,
    body: Any,
    asked: tuple[Any, ...],
    answered: Any,
) -> None:
    answer = api.answer(method, f"/v1/flows/air/{path}", body)
    assert (answer.status_code, answer.json()) == (200, answered)
    assert flow.runtime.asked == [asked]


@pytest.mark.parametrize("verb", ["run", "cancel"])
def test_an_action_must_be_named(api: Any, flow: HostedFlow, verb: str) -> None:
    answer = api.answer("POST", f"/v1/flows/air/{verb}", {})
    assert (answer.status_code, answer.json()["error"]) == (409, f"name the action to {verb}")
    assert flow.runtime.asked == []


def test_what_a_dataflow_refuses_is_answered_in_its_words(api: Any, flow: HostedFlow) -> None:
    flow.runtime.refused = "`clean` is in quarantine; retry it"
    answer = api.answer("POST", "/v1/flows/air/run", {"action": "clean"})
    assert (answer.status_code, answer.json()["error"]) == (409, flow.runtime.refused)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"{", "the body is no such request: "), (b'{"acton": "x"}', "`acton`")],
)
def test_a_body_that_says_something_else_is_refused(
    api: Any, flow: HostedFlow, content: bytes, words: str
) -> None:
    answer = api.answer("POST", "/v1/flows/air/run", msgspec.Raw(content))
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert flow.runtime.asked == []


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (b"NaN", "invalid character"),
        (b"-Infinity", "invalid character"),
        (b"1e999", "`$.time`"),
        (b'"2026-01-31T12:00:00Z"', "`$.time`"),
        (b"-0.5", "time: -0.5 is no time of a wave; give Unix seconds"),
        (b"1769860800000", "(not milliseconds)"),
        (b"253402214400", "below 253402214400"),
    ],
)
def test_what_is_no_time_of_a_wave_is_refused(
    api: Any, flow: HostedFlow, time: bytes, words: str
) -> None:
    answer = api.answer("POST", "/v1/flows/air/waves", msgspec.Raw(b'{"time": %b}' % time))
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert flow.runtime.asked == []


def test_times_of_waves_reach_to_the_last_but_one_day_of_all_dates(
    api: Any, flow: HostedFlow
) -> None:
    answer = api.answer("POST", "/v1/flows/air/waves", {"time": 253_402_214_399.5})
    assert answer.json() == {"wave": 4, "time": 253_402_214_399.5}
    assert len(flow.runtime.asked) == 1


def test_a_fault_of_the_agent_is_answered_by_its_kind_alone(api: Any, flow: HostedFlow) -> None:
    flow.runtime.history.records = [object()]
    answer = api.answer("GET", "/v1/flows/air/runs")
    assert answer.status_code == 500
    assert answer.json()["error"] == "the agent failed to answer (TypeError); its log says where"


# -- dataflows and their runs


def test_a_dataflow_is_shown_with_its_state_and_its_runs(api: Any) -> None:
    found = api.answer("GET", "/v1/flows/air").json()
    assert (found["flow"]["name"], found["flow"]["state"]) == ("air", "running")
    assert (found["status"]["waves"], found["status"]["settled"]) == (4, 3)
    assert found["runs"] == [RECORDED]


def test_runs_and_decisions_are_listed(api: Any) -> None:
    assert api.answer("GET", "/v1/flows/air/runs").json() == [RECORDED]
    assert api.answer("GET", "/v1/flows/air/decisions").json() == ["decided"]


def test_dataflows_are_listed_by_name_wherever_they_run(api: Any, agent: MemoryAgent) -> None:
    other = MemoryAgent("two", "two:1", agent.memory)
    other.save(name="Zoo")
    other.take("Zoo")
    agent.save(name="bog")
    agent.memory.rows[b"flow/bog"][b"spec:seal"] = b"of somebody else"
    rows = api.answer("GET", "/v1/flows").json()
    assert [(row["name"], row["state"], row["owner"]) for row in rows] == [
        ("Zoo", "elsewhere", "two"),
        ("air", "running", "one"),
        ("bog", "unsigned", ""),
    ]


def test_a_dataflow_whose_thread_does_not_answer_waits_for_what_the_agent_waits_for(
    api: Any, agent: MemoryAgent, flow: HostedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.agent.ownership.service._GLANCE", 0.001)
    flow.silent = True
    agent.ail("HBase is away")
    [row] = api.answer("GET", "/v1/flows").json()
    assert (row["state"], row["here"]) == ("waiting", True)


# -- logs


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "`of`"),
        ("?of=clean&lines=0", "`int` >= 1"),
        ("?of=clean&lines=x", "`int`"),
        ("?of=clean&attempt=first", "`$.attempt`"),
        ("?of=clean&last=3", "`last`"),
    ],
)
def test_a_query_for_a_log_that_is_none_is_refused_with_one_that_is(
    api: Any, flow: HostedFlow, query: str, words: str
) -> None:
    answer = api.answer("GET", f"/v1/flows/air/logs{query}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert answer.json()["error"].endswith("; ask as in ?of=ACTION&lines=100")
    assert flow.runtime.asked == []


def test_the_end_of_a_log_is_shown(api: Any, flow: HostedFlow, tmp_path: Path) -> None:
    flow.runtime.log = tmp_path / "log"
    flow.runtime.log.write_text("one\ntwo\nthree\n")
    found = api.answer("GET", "/v1/flows/air/logs?of=r1&attempt=2&lines=2").json()
    assert flow.runtime.asked == [("log", "r1", 2)]
    assert found["run"] == RECORDED
    assert (found["file"], found["text"]) == (str(flow.runtime.log), "two\nthree")
    assert found["whole"] is False


def test_a_log_is_shown_whole_where_it_has_no_more_lines(
    api: Any, flow: HostedFlow, tmp_path: Path
) -> None:
    flow.runtime.log = tmp_path / "log"
    flow.runtime.log.write_text("one\ntwo\n")
    found = api.answer("GET", "/v1/flows/air/logs?of=clean&lines=2").json()
    assert flow.runtime.asked == [("log", "clean", None)]
    assert (found["text"], found["whole"]) == ("one\ntwo", True)


def test_an_attempt_without_a_log_has_an_empty_one(api: Any) -> None:
    found = api.answer("GET", "/v1/flows/air/logs?of=clean").json()
    assert (found["file"], found["text"], found["whole"]) == ("", "", True)


def test_a_long_log_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST", 8)
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\nlast\xff\n")
    found = read_log(RECORD, path, 100)
    assert (found.text, found.whole) == ("9\nlast\\xff", False)


# -- signatures


def test_what_stands_in_a_row_is_shown_and_believed_once_it_is_signed(
    api: Any, agent: MemoryAgent
) -> None:
    agent.save(name="bog")
    agent.memory.rows[b"flow/bog"][b"spec:seal"] = b"of somebody else"
    shown = api.answer("GET", "/v1/flows/bog/sign").json()
    value = base64.b64decode(shown["value"])
    assert shown["table"] == agent.configuration.hbase.state_table
    assert value == agent.memory.rows[b"flow/bog"][b"spec:definition"]
    announced: list[str] = []
    agent.on_announced = announced.append
    signed = {"value": shown["value"], "seal": base64.b64encode(sign(SEALS, "bog", value)).decode()}
    answer = api.answer("POST", "/v1/flows/bog/sign", signed)
    assert (answer.status_code, answer.json()["state"]) == (200, "waiting")
    assert announced == ["bog"]


# -- the agent itself


def test_probes_answer_for_what_runs_here(api: Any, agent: MemoryAgent, flow: HostedFlow) -> None:
    well = {"status": "ok", "words": "", "dataflows": 1, "observers": ["observer"]}
    for path in ("/healthz", "/readyz"):
        answer = api.answer("GET", path)
        assert (answer.status_code, answer.json()) == (200, well)
    flow.busy = 61.0
    words = "the loop of dataflow air has not turned for 61 s"
    assert api.answer("GET", "/livez").json() == {"status": "stuck", "words": words}
    assert api.answer("GET", "/livez").status_code == 503
    answer = api.answer("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (
        503,
        well | {"status": "impaired", "words": words},
    )


def test_an_agent_that_waits_for_hbase_is_impaired_and_alive(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    flow.busy = 61.0
    agent.ail("HBase is away")
    assert api.answer("GET", "/livez").json() == {"status": "ok", "words": ""}
    answer = api.answer("GET", "/healthz")
    assert (answer.status_code, answer.json()["words"]) == (503, "HBase is away")


@pytest.mark.parametrize(("busy", "stuck"), [(0.0, False), (60.0, False), (60.1, True)])
def test_a_loop_is_stuck_after_a_minute(
    agent: MemoryAgent, flow: HostedFlow, busy: float, stuck: bool
) -> None:
    flow.busy = busy
    assert bool(agent.stuck()) is stuck


def test_a_dataflow_that_has_ended_and_is_held_is_stuck(
    agent: MemoryAgent, flow: HostedFlow
) -> None:
    flow.alive = False
    assert agent.stuck() == ("dataflow air has ended and is not given up yet",)


def test_metrics_are_refreshed_when_they_are_asked_for(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    text = api.answer("GET", "/metrics").text
    assert flow.runtime.asked == [("measure", NOW)]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["headgate_agent_dataflows"] == "1.0"
    assert values["headgate_agent_observers_live"] == "1.0"
