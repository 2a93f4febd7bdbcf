"""Removal of dataflows: of what runs, of rows that are not run, and of what cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from memory_agent import NOW, HostedFlow, MemoryAgent
from structlog.testing import capture_logs

from headgate.spark import RunKey


@pytest.fixture
def api(make_api: Callable[..., Any], agent: MemoryAgent) -> Any:
    return make_api(agent=agent)


def names(api: Any) -> list[str]:
    return [row["name"] for row in api.answer("GET", "/v1/flows").json()]


def forged(agent: MemoryAgent) -> None:
    """Have a row of ``air`` that no agent has signed."""
    agent.memory.rows[b"flow/air"][b"spec:seal"] = b"of somebody else"


def test_what_runs_here_withdraws_ends_and_is_forgotten(api: Any, agent: MemoryAgent) -> None:
    flow = agent.host(agent.save())
    agent.save(name="air2")
    own, others = RunKey("air", "clean", "r1").row, RunKey("air2", "clean", "r1").row
    agent.memory.put(own, {b"state:run": b"1"})
    agent.memory.put(others, {b"state:run": b"1"})
    answer = api.answer("DELETE", "/v1/flows/air")
    assert (answer.status_code, answer.json()) == (200, {})
    assert flow.runtime.asked == [("withdraw", NOW)]
    assert flow.stopped == [(0.0, False)]
    assert agent.rested == ["air"]
    assert names(api) == ["air2"]
    assert own not in agent.memory.rows
    assert others in agent.memory.rows


def test_a_family_that_observers_do_not_give_up_keeps_nothing_from_being_removed(
    make_api: Callable[..., Any],
) -> None:
    agent = MemoryAgent(submit_seconds=0.001)
    flow: HostedFlow = agent.host(agent.save())
    flow.runtime.withdrawing = lambda _: None
    api = make_api(agent=agent)
    with capture_logs() as lines:
        assert api.answer("DELETE", "/v1/flows/air").status_code == 200
    [line] = [line for line in lines if line["event"] == "the family of notify columns stays"]
    assert line["dataflow"] == "air"
    assert line["cure"] == "remove family 'hg' of its tables in the HBase shell"
    assert names(api) == []


def test_a_row_that_is_not_run_is_discarded(api: Any, agent: MemoryAgent) -> None:
    agent.save()
    forged(agent)
    assert names(api) == ["air"]
    assert api.answer("DELETE", "/v1/flows/air").status_code == 200
    assert names(api) == []


def test_a_row_that_is_not_run_stays_while_another_agent_runs_what_was_there(
    api: Any, agent: MemoryAgent
) -> None:
    other = MemoryAgent("two", "two:1", agent.memory)
    other.save()
    other.take("air")
    forged(agent)
    answer = api.answer("DELETE", "/v1/flows/air")
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("dataflow air is with agent two at two:1; ")
    assert names(api) == ["air"]


def test_what_was_there_before_ends_with_a_row_that_is_not_run(
    api: Any, agent: MemoryAgent
) -> None:
    flow = agent.host(agent.save())
    forged(agent)
    [row] = api.answer("GET", "/v1/flows").json()
    assert (row["here"], row["state"]) == (True, "unsigned")
    assert api.answer("DELETE", "/v1/flows/air").status_code == 200
    assert flow.stopped == [(0.0, False)]
    assert names(api) == []


@pytest.mark.parametrize(
    ("broken", "status", "words"),
    [
        (
            "it is too old",
            409,
            "dataflow air cannot run: it is too old; submit one that can, then remove",
        ),
        (
            None,
            503,
            "dataflow air is with no agent at the moment; one takes it over within 10 s",
        ),
    ],
)
def test_what_nobody_can_withdraw_stays(
    api: Any, agent: MemoryAgent, broken: str | None, status: int, words: str
) -> None:
    definition = agent.save()
    if broken is not None:
        agent.fail_on(definition, broken)
    answer = api.answer("DELETE", "/v1/flows/air")
    assert (answer.status_code, answer.json()["error"]) == (status, words)
    assert names(api) == ["air"]


def test_what_is_unknown_cannot_be_removed(api: Any) -> None:
    answer = api.answer("DELETE", "/v1/flows/air")
    assert answer.status_code == 404
    assert "no dataflow is called 'air'" in answer.json()["error"]


def test_what_has_just_ended_here_is_not_removed(api: Any, agent: MemoryAgent) -> None:
    agent.host(agent.save())
    epoch = agent._leases._epochs.pop("air")
    answer = api.answer("DELETE", "/v1/flows/air")
    assert (answer.status_code, answer.json()["error"]) == (
        409,
        "dataflow air does not run here",
    )
    assert epoch == 1
    assert names(api) == ["air"]
