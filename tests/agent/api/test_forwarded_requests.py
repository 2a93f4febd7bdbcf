"""Requests for dataflows of other agents: asked there, once, as they were asked here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest
from memory_agent import NOW, HostedFlow, MemoryAgent

from headgate.agent.api.access import FORWARDED, Role
from headgate.agent.state.sealed import Definition

OTHER = "127.0.0.1:7682"


class Network:
    """Carries requests to other agents, and notes them."""

    def __init__(self) -> None:
        self.sent: list[httpx.Request] = []
        self.answer = httpx.Response(200, json={"by": "two"})
        self.error: httpx.HTTPError | None = None
        self.transport = httpx.MockTransport(self._carry)

    def _carry(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def other(agent: MemoryAgent) -> MemoryAgent:
    """Another agent, which has the dataflow ``air``."""
    other = MemoryAgent("two", OTHER, agent.memory)
    other.save()
    other.take("air")
    return other


@pytest.fixture
def api(
    make_api: Callable[..., Any], agent: MemoryAgent, other: MemoryAgent, network: Network
) -> Any:
    return make_api(agent=agent, peers=network.transport)


@pytest.mark.parametrize(
    ("method", "path", "body", "seconds"),
    [
        ("GET", "/v1/flows/air", None, 90.0),
        ("GET", "/v1/flows/air/logs?of=clean&lines=3", None, 90.0),
        ("POST", "/v1/flows/air/run", {"action": "clean"}, 90.0),
        ("POST", "/v1/flows/air/update", {"profile": None, "reload": True}, 90.0),
        ("POST", "/v1/flows/air/waves", {}, 90.0),
        ("GET", "/v1/flows/air/waves/3?wait=30", None, 120.0),
        ("DELETE", "/v1/flows/air", None, 90.0),
    ],
)
def test_the_owner_is_asked_the_same_and_has_as_long_as_was_asked_for(
    api: Any, network: Network, own_token: str, method: str, path: str, body: Any, seconds: float
) -> None:
    network.answer = httpx.Response(418, json={"by": "two"})
    answer = api.answer(method, path, body)
    assert (answer.status_code, answer.json()) == (418, {"by": "two"})
    assert answer.headers["content-type"] == "application/json"
    [sent] = network.sent
    assert (sent.method, str(sent.url)) == (method, f"http://{OTHER}{path}")
    assert sent.content == (b"" if body is None else httpx.Request("", "", json=body).content)
    assert sent.extensions["timeout"]["read"] == seconds
    assert sent.headers[FORWARDED] == "one"
    assert sent.headers["authorization"] == f"Bearer {own_token}"


def test_the_owner_gets_a_name_as_it_was_written(
    api: Any, agent: MemoryAgent, other: MemoryAgent, network: Network
) -> None:
    other.store.define(Definition("a b%", "", ".", 0, 1.0))
    other.take("a b%")
    assert api.answer("POST", "/v1/flows/a%20b%25/pause").status_code == 200
    assert network.sent[0].url.raw_path == b"/v1/flows/a%20b%25/pause"


def test_a_forwarded_request_is_not_forwarded_again(
    api: Any, network: Network, own_token: str
) -> None:
    for method, path in (("POST", "/v1/flows/air/pause"), ("GET", "/v1/flows/air/waves/3")):
        answer = asyncio.run(api.ask(method, path, {FORWARDED: "two"}, token=own_token))
        assert answer.status_code == 503
        assert answer.json()["error"] == (
            "dataflow air is with no agent at the moment; one takes it over within 10 s"
        )
    assert network.sent == []


def test_an_owner_that_does_not_answer_is_named_with_its_address(
    api: Any, network: Network
) -> None:
    network.error = httpx.ConnectError("refused")
    answer = api.answer("POST", "/v1/flows/air/pause")
    assert answer.status_code == 503
    assert answer.json()["error"] == (
        f"dataflow air is with agent two, which does not answer at {OTHER}: refused; it is taken "
        "over when its lease ends"
    )


@pytest.mark.parametrize("status", [401, 421])
def test_an_owner_that_takes_this_agent_for_none_is_no_answer(
    api: Any, network: Network, status: int
) -> None:
    network.answer = httpx.Response(status)
    answer = api.answer("POST", "/v1/flows/air/pause")
    assert answer.status_code == 503
    assert answer.json()["error"] == (
        f"the agent at {OTHER} does not take this one for an agent: give all agents the same "
        "token with access.token_file, and the address that they advertise"
    )


def test_a_submit_is_saved_by_the_owner_alone(
    api: Any, agent: MemoryAgent, network: Network
) -> None:
    source = agent.store.listing("air").definition.source
    assert api.answer("POST", "/v1/flows", {"source": source, "directory": "/new"}).json() == {
        "by": "two"
    }
    [sent] = network.sent
    assert (sent.method, sent.url.path) == ("POST", "/v1/flows")
    assert b'"directory":"/new"' in sent.content
    assert agent.store.listing("air").definition.revision == 1


def test_what_runs_here_is_asked_here(api: Any, agent: MemoryAgent, network: Network) -> None:
    definition = agent.save(name="own")
    flow = agent.host(definition)
    assert api.answer("POST", "/v1/flows/own/pause").status_code == 200
    assert flow.runtime.asked == [("pause", NOW)]
    assert network.sent == []


def test_an_owner_does_what_another_agent_is_asked_for(
    make_api: Callable[..., Any],
    agent: MemoryAgent,
    other: MemoryAgent,
    token_of: Mapping[Role, str],
) -> None:
    flow: HostedFlow = other.host(other.store.listing("air").definition)
    owners = make_api(agent=other)
    transport = httpx.ASGITransport(owners.guard, raise_app_exceptions=False)
    api = make_api(agent=agent, peers=transport)
    body = b'{"action": "clean"}'

    async def ask(role: Role) -> httpx.Response:
        token = token_of[role]
        return await api.ask("POST", "/v1/flows/air/run", token=token, content=body)

    assert asyncio.run(ask(Role.OPERATE)).json()["run"] == "r2"
    assert flow.runtime.asked == [("run", "clean", NOW)]
    assert asyncio.run(ask(Role.READ)).status_code == 403
    assert len(flow.runtime.asked) == 1


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/flows/fire", 404, "no dataflow is called 'fire'"),
        ("/v1/flows/free", 503, "dataflow free is with no agent at the moment"),
        ("/v1/flows/broken", 409, "dataflow broken cannot run: too old; submit a corrected one"),
        ("/v1/flows/forged", 409, "dataflow forged is not run: no agent with this agent's key"),
    ],
)
def test_what_nobody_runs_is_asked_of_nobody(
    api: Any, agent: MemoryAgent, network: Network, path: str, status: int, words: str
) -> None:
    agent.save(name="free")
    agent.fail_on(agent.save(name="broken"), "too old")
    agent.save(name="forged")
    agent.memory.rows[b"flow/forged"][b"spec:seal"] = b"of somebody else"
    for rest in ("", "/waves/3"):
        answer = api.answer("GET", path + rest)
        assert answer.status_code == status
        assert words in answer.json()["error"]
    assert network.sent == []
