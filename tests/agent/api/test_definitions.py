"""Submits and updates: what is saved, what the running dataflow goes on with, and the wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from memory_agent import SOURCE, HostedFlow, MemoryAgent

from headgate.agent.configuration import Launchers
from headgate.agent.dataflow.views import Phase
from headgate.flows import parse_dataflow
from headgate.spark import identity_on_disk

SUBMIT = {"source": SOURCE, "directory": "."}
LATER = "dataflow air is saved but does not run yet: {}; it starts by itself when that changes"


@pytest.fixture
def agent() -> MemoryAgent:
    """Does not wait for what it saves."""
    return MemoryAgent(submit_seconds=0.0)


@pytest.fixture
def api(make_api: Callable[..., Any], agent: MemoryAgent) -> Any:
    return make_api(agent=agent)


def revision(agent: MemoryAgent) -> int:
    """Return that of ``air`` in the table: how often it was defined."""
    return agent.store.listing("air").definition.revision


def changes(flow: HostedFlow) -> list[Any]:
    """Return the definitions with which a dataflow was to go on."""
    return [asked[1] for asked in flow.runtime.asked if asked[0] == "change"]


def hosting(agent: MemoryAgent, *coming: Phase) -> list[HostedFlow]:
    """Have each announced dataflow run at once, in these phases; return those that do."""
    flows: list[HostedFlow] = []

    def host(name: str) -> None:
        flow = agent.host(agent.store.listing(name).definition)
        flow.runtime.coming = list(coming)
        flows.append(flow)

    agent.on_announced = host
    return flows


# -- submits


def test_a_submit_is_saved_and_waited_for_until_it_runs(make_api: Callable[..., Any]) -> None:
    agent = MemoryAgent()
    hosting(agent, Phase.STARTING, Phase.STARTING, Phase.RUNNING)
    answer = make_api(agent=agent).answer("POST", "/v1/flows", SUBMIT | {"shadow": True})
    assert answer.status_code == 200
    row = answer.json()
    assert (row["name"], row["revision"], row["here"], row["shadow"]) == ("air", 1, True, True)
    assert row["state"] == "running"


def test_what_does_not_run_yet_is_saved_all_the_same(api: Any, agent: MemoryAgent) -> None:
    answer = api.answer("POST", "/v1/flows", SUBMIT | {"profile": "eager"})
    assert answer.status_code == 503
    assert answer.json()["error"] == LATER.format("no agent has it yet")
    saved = agent.store.listing("air").definition
    assert (saved.source, saved.directory, saved.profile) == (SOURCE, ".", "eager")


def test_the_same_submit_twice_defines_once(api: Any, agent: MemoryAgent) -> None:
    flows = hosting(agent)
    assert api.answer("POST", "/v1/flows", SUBMIT).json()["revision"] == 1
    assert api.answer("POST", "/v1/flows", SUBMIT).json()["revision"] == 1
    assert revision(agent) == 1
    assert changes(flows[0]) == []


@pytest.mark.parametrize(
    "part",
    [
        {"source": SOURCE + "\n# longer\n"},
        {"directory": "/new"},
        {"profile": "eager"},
        {"shadow": True},
    ],
    ids=lambda part: next(iter(part)),
)
def test_a_submit_of_anything_else_is_gone_on_with(
    api: Any, agent: MemoryAgent, part: dict[str, Any]
) -> None:
    flow = agent.host(agent.save())
    assert api.answer("POST", "/v1/flows", SUBMIT | part).json()["revision"] == 2
    [change] = changes(flow)
    assert change == agent.store.listing("air").definition
    assert {name: getattr(change, name) for name in part} == part


def test_the_same_submit_is_saved_again_where_something_else_was_saved(
    api: Any, agent: MemoryAgent
) -> None:
    flow = agent.host(agent.save())
    agent.save(shadow=True)
    assert api.answer("POST", "/v1/flows", SUBMIT).status_code == 200
    assert revision(agent) == 3
    assert changes(flow) == [agent.store.listing("air").definition]
    assert not changes(flow)[0].shadow


def test_the_same_submit_is_saved_again_where_its_row_is_not_believed(
    api: Any, agent: MemoryAgent
) -> None:
    flow = agent.host(agent.save())
    agent.memory.rows[b"flow/air"][b"spec:seal"] = b"of somebody else"
    assert api.answer("POST", "/v1/flows", SUBMIT).status_code == 200
    assert [change.revision for change in changes(flow)] == [2] == [revision(agent)]


def test_a_submit_over_a_missing_table_is_refused_with_the_command_that_creates_it(
    api: Any, agent: MemoryAgent
) -> None:
    agent.tables = {"in"}
    answer = api.answer("POST", "/v1/flows", SUBMIT)
    assert answer.status_code == 409
    assert answer.json()["error"] == (
        "HBase has no table 'out'; create it with its column families first, in the HBase shell: "
        "create 'out', 'family'; or submit with --allow-missing-tables if something creates it "
        "later"
    )
    assert agent.memory.rows == {}


def test_a_missing_table_may_be_created_later(api: Any, agent: MemoryAgent) -> None:
    agent.tables = set()
    api.answer("POST", "/v1/flows", SUBMIT | {"allow_missing_tables": True})
    assert revision(agent) == 1


def test_a_file_that_is_not_in_order_is_answered_with_its_problems(
    api: Any, agent: MemoryAgent
) -> None:
    answer = api.answer("POST", "/v1/flows", {"source": "name: air\n", "file": "air.yaml"})
    assert answer.status_code == 422
    assert answer.json()["error"] == "the dataflow file is not in order"
    assert {problem["file"] for problem in answer.json()["problems"]} == {"air.yaml"}
    assert agent.memory.rows == {}


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_name_that_could_not_be_a_row_is_refused(api: Any, agent: MemoryAgent, name: str) -> None:
    answer = api.answer("POST", "/v1/flows", SUBMIT | {"name": name})
    assert answer.status_code in {409, 422}
    assert agent.memory.rows == {}


def test_what_no_dataflow_may_use_here_is_not_saved(make_api: Callable[..., Any]) -> None:
    agent = MemoryAgent(launchers=Launchers(allowed=("command",)))
    answer = make_api(agent=agent).answer("POST", "/v1/flows", SUBMIT)
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("dataflow air may not run here: action 'clean' is ")
    assert agent.memory.rows == {}


def test_a_submit_that_turns_out_not_to_run_is_refused(api: Any, agent: MemoryAgent) -> None:
    agent.on_announced = lambda name: agent.fail_on(
        agent.store.listing(name).definition, "it has no step"
    )
    answer = api.answer("POST", "/v1/flows", SUBMIT)
    assert answer.status_code == 409
    assert answer.json()["error"] == "dataflow air cannot run: it has no step"


# -- submits that another agent takes


class Owner:
    """Another agent, which takes what is announced; its answers are the test's."""

    def __init__(self, agent: MemoryAgent, *answers: httpx.Response | httpx.HTTPError) -> None:
        other = MemoryAgent("two", "two:1", agent.memory)
        agent.on_announced = other.take
        self.asked: list[httpx.Request] = []
        self._answers = list(answers)
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer


def phase(phase: Phase) -> httpx.Response:
    return httpx.Response(200, json={"status": {"phase": phase}})


AWAY = httpx.ConnectError("refused")
NOT_THERE = httpx.Response(503, json={"error": "it is with no agent"})


@pytest.mark.parametrize("last", [Phase.RUNNING, Phase.PAUSED])
def test_a_submit_waits_until_its_taker_has_started_it(
    make_api: Callable[..., Any], last: Phase
) -> None:
    agent = MemoryAgent()
    owner = Owner(agent, AWAY, NOT_THERE, phase(Phase.STARTING), phase(last))
    answer = make_api(agent=agent, peers=owner.transport).answer("POST", "/v1/flows", SUBMIT)
    assert (answer.status_code, answer.json()["state"]) == (200, "elsewhere")
    assert len(owner.asked) == 4
    assert {(one.method, str(one.url)) for one in owner.asked} == {
        ("GET", "http://two:1/v1/flows/air")
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (AWAY, "agent two does not answer at two:1: refused"),
        (NOT_THERE, "agent two has not started it"),
        (phase(Phase.STARTING), "agent two has not started it"),
    ],
)
def test_a_taker_is_not_waited_for_without_end(
    make_api: Callable[..., Any], agent: MemoryAgent, answer: Any, reason: str
) -> None:
    owner = Owner(agent, answer)
    found = make_api(agent=agent, peers=owner.transport).answer("POST", "/v1/flows", SUBMIT)
    assert (found.status_code, found.json()["error"]) == (503, LATER.format(reason))
    assert revision(agent) == 1


# -- updates


def test_an_update_without_a_change_saves_nothing(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    answer = api.answer("POST", "/v1/flows/air/update", {})
    assert answer.status_code == 200
    assert answer.json()["changes"] == []
    assert answer.json()["flow"]["revision"] == 1 == revision(agent)
    assert flow.runtime.asked == []


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ({"profile": "eager"}, ["profile"]),
        ({"shadow": True}, ["shadow mode"]),
        ({"directory": "/new"}, []),
        ({"source": SOURCE + "\n# longer\n"}, []),
    ],
    ids=lambda value: next(iter(value), ""),
)
def test_an_update_is_saved_gone_on_with_and_listed(
    api: Any, agent: MemoryAgent, flow: HostedFlow, body: dict[str, Any], parts: list[str]
) -> None:
    answer = api.answer("POST", "/v1/flows/air/update", body).json()
    listed = [change["part"] for change in answer["changes"]]
    assert listed[-1:] == parts
    assert answer["flow"]["revision"] == 2
    before = parse_dataflow(SOURCE, "air", None, "air")
    [change] = changes(flow)
    expected = {"source": before.source, "directory": ".", "profile": None, "shadow": False}
    assert {name: getattr(change, name) for name in expected} == expected | body
    assert change == agent.store.listing("air").definition


@pytest.mark.parametrize(
    ("reload", "words"),
    [
        (False, "`headgate flow update air --reload` starts another"),
        (True, "the new Spark session reads it"),
    ],
)
def test_an_update_says_what_becomes_of_edited_code(
    reload: bool, words: str, api: Any, flow: HostedFlow, tmp_path: Path
) -> None:
    """Edit a comment, which is no edit, and then the code of a step and a file of it."""
    source = SOURCE.replace("    after: feed", "    after: feed\n    depends: model.json")
    module, model = tmp_path / "steps.py", tmp_path / "model.json"
    module.write_text("def clean(run): return 1\n")
    model.write_text("1")
    ran = identity_on_disk(parse_dataflow(source, "air"), "clean", tmp_path)
    flow.runtime.history.identities = lambda: {"clean": ran, "gone": ran}
    body = {"source": source, "directory": str(tmp_path)}

    def parts(more: dict[str, Any]) -> dict[str, str]:
        found = api.answer("POST", "/v1/flows/air/update", body | more).json()["changes"]
        return {one["part"]: one["words"] for one in found}

    module.write_text("# of the first hour\ndef clean(run):\n    return 1\n")
    assert parts({}).keys() == {"action `clean`"}
    module.write_text("def clean(run): return 2\n")
    model.write_text("2")
    told = parts({"reload": reload})
    assert told["code of `clean`"].endswith(words)
    assert "the next run reads it" in told["files that `clean` depends on"]


def test_an_update_keeps_what_it_does_not_name(api: Any, agent: MemoryAgent) -> None:
    flow = agent.host(agent.save(directory="/flows", profile="eager", shadow=True))
    assert api.answer("POST", "/v1/flows/air/update", {"source": SOURCE + "#\n"}).is_success
    [change] = changes(flow)
    assert (change.directory, change.profile, change.shadow) == ("/flows", "eager", True)
    assert api.answer("POST", "/v1/flows/air/update", {"profile": None}).is_success
    again = changes(flow)[1]
    assert (again.source, again.directory) == (change.source, "/flows")
    assert (again.profile, again.shadow) == (None, True)


def test_an_update_without_a_change_is_saved_where_something_else_was_saved(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    agent.save(shadow=True)
    assert api.answer("POST", "/v1/flows/air/update", {}).json()["flow"]["revision"] == 3
    assert [change.shadow for change in changes(flow)] == [False]


def test_modules_are_read_again_where_an_update_asks_for_it(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    assert api.answer("POST", "/v1/flows/air/update", {"reload": True}).status_code == 200
    assert flow.runtime.asked == [("reload",)]
    assert revision(agent) == 1


def test_an_update_may_watch_on_a_table_that_was_dropped(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    agent.tables = set()
    assert api.answer("POST", "/v1/flows/air/update", {"profile": "eager"}).status_code == 200
    more = SOURCE.replace("output: out c:v", "output: new c:v")
    answer = api.answer("POST", "/v1/flows/air/update", {"source": more})
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("HBase has no table 'new'; ")
    assert len(changes(flow)) == 1
    later = {"source": more, "allow_missing_tables": True}
    assert api.answer("POST", "/v1/flows/air/update", later).status_code == 200


def test_an_update_to_a_file_that_is_not_in_order_changes_nothing(
    api: Any, agent: MemoryAgent, flow: HostedFlow
) -> None:
    body = {"source": "name: air\n", "file": "air.yaml"}
    answer = api.answer("POST", "/v1/flows/air/update", body)
    assert answer.status_code == 422
    assert {problem["file"] for problem in answer.json()["problems"]} == {"air.yaml"}
    assert (flow.runtime.asked, revision(agent)) == ([], 1)
