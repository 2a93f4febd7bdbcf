"""Waiting for a wave: until it is settled, for so long, or while the dataflow runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from memory_agent import HostedFlow, MemoryAgent

from headgate.agent.api import routes
from headgate.agent.api.access import Role

_LONG = 60.0
"""Seconds after which a test gives up."""


@pytest.fixture
def api(make_api: Callable[..., Any], agent: MemoryAgent, flow: HostedFlow) -> Any:
    return make_api(agent=agent)


class Waiting:
    """A request that waits for wave 3, until the dataflow knows that somebody does."""

    def __init__(self, api: Any, flow: HostedFlow, token: str) -> None:
        self._api = api
        self._flow = flow
        self._token = token

    async def begun(self, seconds: float = _LONG) -> asyncio.Task[Any]:
        path = f"/v1/flows/air/waves/3?wait={seconds:g}"
        task = asyncio.create_task(self._api.ask("GET", path, token=self._token))
        async with asyncio.timeout(_LONG):
            while not self._flow.runtime.waves.waiters:
                await asyncio.sleep(0)
        return task


@pytest.fixture
def waiting(api: Any, flow: HostedFlow, token_of: Mapping[Role, str]) -> Waiting:
    return Waiting(api, flow, token_of[Role.READ])


def test_a_wave_is_answered_once_it_is_settled(waiting: Waiting, flow: HostedFlow) -> None:
    async def wait() -> Any:
        task = await waiting.begun()
        await asyncio.sleep(0.01)
        assert not task.done()
        flow.runtime.waves.settle(3)
        return (await asyncio.wait_for(task, _LONG)).json()

    answer = asyncio.run(wait())
    assert (answer["wave"], answer["settled"]) == (3, True)


def test_a_wave_that_is_not_settled_in_time_is_answered_as_it_stands(
    api: Any, flow: HostedFlow
) -> None:
    answer = api.answer("GET", "/v1/flows/air/waves/3?wait=0.01")
    assert answer.status_code == 200
    assert answer.json()["settled"] is False
    # It comes to rest later, when nobody waits any more.
    flow.runtime.waves.settle(3)


def test_a_wave_that_settles_at_the_moment_the_wait_ends_harms_nobody(
    api: Any, flow: HostedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dataflow's thread has looked whether somebody waits, and answers only now."""

    class Looked(Future[Any]):
        def done(self) -> bool:
            return False

    monkeypatch.setattr(routes, "Future", Looked)
    assert api.answer("GET", "/v1/flows/air/waves/3?wait=0.01").status_code == 200
    flow.runtime.waves.settle(3)


def test_a_wave_is_not_waited_for_unless_asked_to(api: Any, flow: HostedFlow) -> None:
    assert api.answer("GET", "/v1/flows/air/waves/3").json()["settled"] is False
    assert flow.runtime.asked == []


def test_nobody_waits_for_a_wave_that_was_never_asked_for(api: Any, flow: HostedFlow) -> None:
    flow.runtime.refused = "air has no wave 3; the last one is 2"
    answer = api.answer("GET", f"/v1/flows/air/waves/3?wait={_LONG:g}")
    assert (answer.status_code, answer.json()["error"]) == (409, flow.runtime.refused)


def test_a_request_that_is_given_up_disturbs_neither_the_wave_nor_others(
    waiting: Waiting, flow: HostedFlow
) -> None:
    async def wait() -> Any:
        given_up, kept = await waiting.begun(), await waiting.begun()
        async with asyncio.timeout(_LONG):
            while len(flow.runtime.waves.waiters) < 2:
                await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        flow.runtime.waves.settle(3)
        return (await asyncio.wait_for(kept, _LONG)).json()

    assert asyncio.run(wait())["settled"] is True


def test_a_dataflow_that_stops_is_not_waited_for(
    waiting: Waiting, flow: HostedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_LOOK", 0.001)

    async def wait() -> Any:
        task = await waiting.begun()
        await asyncio.sleep(0.01)
        assert not task.done()
        flow.alive = False
        return await asyncio.wait_for(task, _LONG)

    answer = asyncio.run(wait())
    assert answer.status_code == 409
    assert answer.json()["error"] == "dataflow air has been stopped here"


@pytest.mark.parametrize("wait", ["-1", "3601", "soon", "nan"])
def test_seconds_to_wait_that_are_none_are_refused(api: Any, flow: HostedFlow, wait: str) -> None:
    answer = api.answer("GET", f"/v1/flows/air/waves/3?wait={wait}")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("wait: ")
    assert answer.json()["error"].endswith("give seconds, as in ?wait=30")
    assert flow.runtime.asked == []
