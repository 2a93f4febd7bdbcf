"""Requests to other agents: in the place of a caller, with this agent's own right to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from headgate.agent.api.access.guard import STANDING_FOR, STANDING_FOR_ROLE
from headgate.agent.api.access.tokens import OwnTokens
from headgate.agent.errors import Unreachable
from headgate.agent.roles import Caller
from headgate.settings import Credentials

_JSON = "application/json"
FORWARDED = "headgate-forwarded"
"""The header by which an agent knows that another has looked for the dataflow already."""


def base_url(address: str) -> str:
    """Return where an agent is asked, of the address in its lease."""
    return address if "://" in address else f"http://{address}"


class Peers:
    """Asks other agents.

    Args:
        name: this agent's.
        tokens: of which the first is shown, where there is no certificate.
        credentials: by which others are known, and what is shown to them; None without TLS.
        server_name: what the others' certificates are for; empty: the host of each address.
        transport: carries the requests; connections where None.
    """

    def __init__(
        self,
        name: str,
        tokens: OwnTokens,
        credentials: Credentials | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._name = name
        self._tokens = tokens
        self._credentials = credentials
        self._transport = transport
        self._former: list[httpx.AsyncClient] = []
        self._client = self._connect()

    async def ask(
        self,
        caller: Caller,
        address: str,
        method: str,
        path: str,
        query: Mapping[str, Any] | str = "",
        content: bytes = b"",
        *,
        seconds: float = 5.0,
    ) -> httpx.Response:
        """Return another agent's answer to a caller of this one.

        Raises:
            httpx.HTTPError: it does not answer.
            Unreachable: it does not take this agent for one.
        """
        headers = {
            FORWARDED: self._name,
            STANDING_FOR: caller.name,
            STANDING_FOR_ROLE: caller.role.value,
        }
        if content:
            headers["content-type"] = _JSON
        if self._credentials is None or "upstream_client" not in self._credentials.expiries:
            headers["authorization"] = f"Bearer {self._tokens.first()}"
        extensions = {}
        if self._credentials is not None and self._credentials.server_name:
            extensions["sni_hostname"] = self._credentials.server_name
        answer = await self._renewed().request(
            method,
            f"{base_url(address)}{path}",
            params=query or None,
            content=content,
            headers=headers,
            timeout=seconds,
            extensions=extensions,
        )
        if answer.status_code in {401, 421}:
            raise Unreachable(
                f"the agent at {address} does not take this one for an agent: give all agents the "
                "same token with access.token_file, and the address that they advertise"
            )
        return answer

    async def close(self) -> None:
        """Close connections."""
        for client in (*self._former, self._client):
            await client.aclose()

    def _renewed(self) -> httpx.AsyncClient:
        if self._credentials is not None and self._context is not self._credentials.context:
            # Requests under way end with the one before, which is closed with the others.
            self._former.append(self._client)
            self._client = self._connect()
        return self._client

    def _connect(self) -> httpx.AsyncClient:
        self._context = self._credentials.context if self._credentials is not None else None
        return httpx.AsyncClient(
            trust_env=False,
            transport=self._transport,
            verify=self._context if self._context is not None else True,
        )
