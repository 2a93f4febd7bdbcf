"""The demonstration's view of an agent, against scripted answers."""

import json
from pathlib import Path

import httpx
import pytest

from headgate.cli.demo.dataflows import AgentDataflows, DemoError


class ScriptedAgent:
    """Answers each path with the next of its answers, the last one again and again."""

    def __init__(self, **answers):
        self.answers = {path.replace("__", "/"): list(found) for path, found in answers.items()}
        self.asked = []

    def __call__(self, request):
        path = request.url.path.removeprefix("/v1/flows/")
        self.asked.append((request.method, path, json.loads(request.content or b"null")))
        answers = self.answers[path]
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        return httpx.Response(status, json=body)

    def dataflows(self):
        return AgentDataflows("http://agent", httpx.MockTransport(self))


def ok(body):
    return (200, body)


def view(*, state="idle", ready=True, runs=()):
    worker = {"ready": ready, "words": "starting its Spark session"}
    actions = [{"name": "zones", "state": state}]
    return {"status": {"worker": worker, "actions": actions}, "runs": list(runs)}


def record(number, action="zones", outcome="committed", **more):
    return {
        "number": number,
        "action": action,
        "outcome": outcome,
        "cause": "a wave has ended",
        "launched": 10.0 + number,
        "ended": 10.5 + number,
        "reason": "",
        "detail": "",
        **more,
    }


def test_a_wave_is_ended_in_all_dataflows_before_the_first_is_waited_for():
    agent = ScriptedAgent(
        a__waves=[ok({"wave": 3})],
        b__waves=[ok({"wave": 5})],
        a__waves__3=[ok({"settled": True})],
        b__waves__5=[ok({"settled": True})],
    )
    agent.dataflows().end_wave(["a", "b"])
    assert [path for _, path, _ in agent.asked] == ["a/waves", "b/waves", "a/waves/3", "b/waves/5"]


def test_a_wave_is_waited_for_until_it_is_settled():
    agent = ScriptedAgent(
        a=[ok(view())],
        a__waves=[ok({"wave": 1})],
        a__waves__1=[ok({"settled": False, "waiting": "zones"}), ok({"settled": True})],
    )
    agent.dataflows().end_wave(["a"])
    assert [path for _, path, _ in agent.asked].count("a/waves/1") == 2


def test_a_quarantined_step_ends_the_wait_with_its_traceback():
    runs = [record(0), record(1, outcome="failed", reason="KeyError", detail="line 3: boom")]
    agent = ScriptedAgent(
        a=[ok(view(state="quarantined", runs=runs))],
        a__waves=[ok({"wave": 1})],
        a__waves__1=[ok({"settled": False, "waiting": "zones"})],
    )
    with pytest.raises(DemoError, match=r"step zones of dataflow a failed 1 times(.|\n)*boom"):
        agent.dataflows().end_wave(["a"])


def test_only_committed_runs_after_a_number_count_oldest_first():
    runs = [record(4), record(3, outcome="lost"), record(2), record(1), record(5, "index")]
    found = ScriptedAgent(a__runs=[ok(runs)]).dataflows().committed("a", 1)
    assert [(run.number, run.action, run.seconds) for run in found] == [
        (2, "zones", 0.5),
        (4, "zones", 0.5),
        (5, "index", 0.5),
    ]


def test_a_wave_may_have_a_time_of_its_own():
    agent = ScriptedAgent(a__waves=[ok({"wave": 1})], a__waves__1=[ok({"settled": True})])
    dataflows = agent.dataflows()
    dataflows.end_wave(["a"], 60.0)
    dataflows.end_wave(["a"])
    bodies = [body for method, _, body in agent.asked if method == "POST"]
    assert bodies == [{"time": 60.0}, {}]


def test_committed_runs_have_their_causes():
    runs = [record(2, cause="more than 0.8 runs"), record(1), record(3, outcome="failed")]
    (found,) = ScriptedAgent(a__runs=[ok(runs)]).dataflows().committed("a", 1)
    assert (found.number, found.cause) == (2, "more than 0.8 runs")


def explained(model):
    policy = {"words": "", "data": {"index": {"model": model}}}
    actions = [{"action": "zones", "words": "", "policy": None}]
    return ok({"actions": [*actions, {"action": "index", "words": "why", "policy": policy}]})


def test_a_training_has_ended_when_its_models_decide():
    report = {"number": 1, "outputs": ["index"], "asked": 24, "seconds": None}
    done = {**report, "seconds": 2.5, "waves": 24, "models": {"index": "0123"}}
    agent = ScriptedAgent(
        a__train=[ok(report), ok(report), ok(done)],
        a__explain=[explained(""), explained("old"), explained("0123")],
    )
    assert agent.dataflows().train("a", 24).models == {"index": "0123"}
    assert agent.asked[0] == ("POST", "a/train", {"waves": 24})
    assert [path for _, path, _ in agent.asked].count("a/explain") == 3


def test_workers_are_waited_for_until_they_are_warm():
    agent = ScriptedAgent(a=[ok(view(ready=False)), ok(view())])
    agent.dataflows().wait_warm(["a"])
    assert len(agent.asked) == 2


def test_a_refusal_is_told_in_the_agent_s_words():
    agent = ScriptedAgent(**{"/v1/flows": [(409, {"error": "no observer"})]})
    with pytest.raises(DemoError, match="no observer"):
        agent.dataflows().submit("name: a", Path("a.yaml"))


def test_an_agent_that_is_gone_is_named():
    def gone(request):
        raise httpx.ConnectError("refused", request=request)

    dataflows = AgentDataflows("http://agent", httpx.MockTransport(gone))
    with pytest.raises(DemoError, match="does not answer GET /v1/flows/a/runs: refused"):
        dataflows.committed("a", 0)


def test_a_file_is_submitted_with_its_name_and_the_folder_of_its_steps():
    agent = ScriptedAgent(**{"/v1/flows": [ok({})]})
    agent.dataflows().submit("name: a", Path("examples", "air", "a.yaml"))
    body = {"source": "name: a", "file": "a.yaml", "directory": str(Path("examples", "air"))}
    assert agent.asked == [("POST", "/v1/flows", body)]
