"""What a request says: its body, its caller, and how long it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headgate.agent.api.access import CALLER, Caller
from headgate.agent.api.messages import ActionRequest, LogRequest
from headgate.agent.errors import Refused

_Wait = Annotated[float, Meta(ge=0, le=3600)]
Knowledge = Literal["forget", "keep"]
"""What becomes of pairs and models when their dataflow is removed."""


def caller_of(request: Request) -> Caller:
    """Return who asks; the guard before the API knows."""
    caller: Caller = request.scope["state"][CALLER]
    return caller


def seconds_of(request: Request) -> float:
    """Return how long the caller waits for what it asks for, in seconds.

    Raises:
        HTTPException: it is no number of seconds.
    """
    try:
        return msgspec.convert(request.query_params.get("wait", "0"), _Wait, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"wait: {error}; give seconds, as in ?wait=30") from error


def knowledge_of(request: Request) -> Knowledge:
    """Return what becomes of the knowledge of a dataflow that is removed.

    Raises:
        HTTPException: it is neither.
    """
    said = request.query_params.get("knowledge", "forget")
    try:
        knowledge: Knowledge = msgspec.convert(said, Knowledge)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"knowledge: {error}; ask as in ?knowledge=keep") from error
    return knowledge


async def body_of(request: Request, kind: type[Any]) -> Any:
    """Return the body as an object of the given type.

    Raises:
        HTTPException: it is none.
    """
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=kind)
    except msgspec.MsgspecError as error:
        raise HTTPException(400, f"the body is no such request: {error}") from error


def log_request(query: Mapping[str, str]) -> LogRequest:
    """Return which log a query asks for.

    Raises:
        HTTPException: it names none, or not as it should.
    """
    try:
        return msgspec.convert(dict(query), LogRequest, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"{error}; ask as in ?of=ACTION&lines=100") from error


def required_action(body: ActionRequest, verb: str) -> str:
    """Return the action that a request names.

    Raises:
        Refused: it names none; the verb says what for.
    """
    if body.action is None:
        raise Refused(f"name the action to {verb}")
    return body.action
