"""An API behind its guard, with an agent that has nothing to do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio.to_thread
import httpx
import msgspec
import pytest

from headgate.agent.api.access import (
    Guard,
    GuardSettings,
    OwnTokens,
    Peers,
    Role,
    TokenFile,
    hash_of,
)
from headgate.agent.api.routes import make_application
from headgate.agent.configuration import AgentConfiguration, HBase, KafkaOptions
from headgate.agent.errors import UnknownDataflow
from headgate.agent.metrics import AgentMetrics

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``memory_agent``

from memory_agent import HostedFlow, MemoryAgent  # noqa: E402

OWN = "headgate_the-agents-own-token"
TOKENS = {role: f"headgate_token-of-{role.value}-0123456789" for role in Role}


class IdleAgent:
    """Knows no dataflow, and notes whatever comes through to it."""

    def __init__(self) -> None:
        self.configuration = AgentConfiguration(
            hbase=HBase("127.0.0.1:1"), kafka=KafkaOptions("k:1")
        )
        self.metrics = AgentMetrics()
        self.owner = SimpleNamespace(name="one")
        self.observers = self
        self.found: list[str] = []
        self.troubled: str | None = None
        self.not_turning: tuple[str, ...] = ()

    def live(self, _: float) -> dict[str, float]:
        return {}

    def hosted(self, _: str) -> None:
        return None

    def hosted_count(self) -> int:
        return 0

    def trouble(self) -> str | None:
        return self.troubled

    def stuck(self) -> tuple[str, ...]:
        return self.not_turning

    async def refresh_metrics(self) -> None:
        pass

    async def blocking(self, work: Callable[[], Any]) -> Any:
        return await anyio.to_thread.run_sync(work)

    def parse(self, source: str, *_: Any) -> Any:
        self.found.append(source)
        raise UnknownDataflow(f"{source} came through")

    async def row(self, name: str) -> Any:
        self.found.append(name)
        raise UnknownDataflow(f"{name} came through")

    def unsigned(self, name: str) -> Any:
        self.found.append(name)
        raise UnknownDataflow(f"{name} came through")

    def sign(self, name: str, *_: Any) -> None:
        self.unsigned(name)

    async def rows(self) -> list[Any]:
        self.found.append("all")
        return []


class Api:
    """The API of an agent as clients see it.

    Args:
        folder: for its files.
        agent: one that is idle, if none is given.
        peers: carries requests to other agents; the network where None.
        settings: of the guard.
    """

    def __init__(
        self,
        folder: Path,
        agent: Any = None,
        peers: httpx.AsyncBaseTransport | None = None,
        **settings: Any,
    ) -> None:
        self.agent = cast("Any", IdleAgent() if agent is None else agent)
        self.own_file = folder / "own"
        self.own_file.write_text(OWN + "\n")
        self.tokens_file = folder / "tokens.toml"
        self.write_tokens({role.value: (role, TOKENS[role]) for role in Role})
        own = OwnTokens(self.own_file)
        self.denied: list[str] = []
        given: dict[str, Any] = {
            "own": own,
            "tokens": TokenFile(self.tokens_file),
            "certificates": (),
            "hosts": frozenset({"agent-1.example"}),
            "proxied": False,
            "open_probes": True,
            "body_bytes": 4096,
            "denied": self.denied.append,
        }
        self.guard = Guard(
            make_application(self.agent, Peers(self.agent.owner.name, own, transport=peers)),
            GuardSettings(**(given | settings)),
        )

    def write_tokens(self, callers: Mapping[str, tuple[Role, str]]) -> None:
        self.tokens_file.write_text(
            "".join(
                f'[[tokens]]\nname = "{name}"\nrole = "{role.value}"\nsha256 = "{hash_of(token)}"\n'
                for name, (role, token) in callers.items()
            )
        )

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = None,
        content: Any = None,
        certificate: Any = None,
    ) -> httpx.Response:
        shown = {"host": "127.0.0.1:7680", **(headers or {})}
        if token is not None:
            shown["authorization"] = f"Bearer {token}"
        if content is not None:
            shown.setdefault("content-type", "application/json")

        async def certified(scope: Any, receive: Any, send: Any) -> None:
            more = {} if certificate is None else {"headgate.certificate": certificate}
            await self.guard({**scope, **more}, receive, send)

        transport = httpx.ASGITransport(
            certified, client=("192.0.2.7", 4711), raise_app_exceptions=False
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=shown, content=content)

    def answer(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Return the answer to somebody who may ask for anything."""
        content = None if body is None else msgspec.json.encode(body)
        return asyncio.run(self.ask(method, path, token=TOKENS[Role.DEFINE], content=content))


@pytest.fixture
def agent() -> MemoryAgent:
    return MemoryAgent()


@pytest.fixture
def flow(agent: MemoryAgent) -> HostedFlow:
    return agent.host(agent.save())


@pytest.fixture
def idle_agent() -> IdleAgent:
    return IdleAgent()


@pytest.fixture
def make_api(tmp_path: Path) -> Callable[..., Api]:
    def make(**settings: Any) -> Api:
        return Api(tmp_path, **settings)

    return make


@pytest.fixture
def api(make_api: Callable[..., Api]) -> Api:
    return make_api()


@pytest.fixture
def token_of() -> Mapping[Role, str]:
    return TOKENS


@pytest.fixture
def own_token() -> str:
    return OWN
