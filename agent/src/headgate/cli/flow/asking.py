"""What commands that ask agents have in common: a question to an agent, and its answer."""

from __future__ import annotations

from typing import Annotated, Any, Final, NoReturn

import httpx
import msgspec
import typer

from headgate.cli.agent_client import (
    ADDRESS_VARIABLE,
    base_url,
    command_here,
    connect,
    cure,
    shown_here,
)
from headgate.cli.json_document import print_document
from headgate.settings import ConfigurationError

NameArgument = Annotated[str, typer.Argument(help="Name of the dataflow.")]

ANSWER: Final = 120.0
"""Seconds: a submit waits for observers, and for a first Spark session if asked to."""


def ask(
    method: str,
    path: str,
    agent: str | None,
    body: Any = None,
    *,
    json: bool,
    seconds: float = ANSWER,
) -> Any:
    """Return what an agent answers; end the command where it does not, or refuses."""
    content = ask_bytes(method, path, agent, body, json=json, seconds=seconds)
    return _decoded(content, agent, json=json)


def ask_bytes(
    method: str,
    path: str,
    agent: str | None,
    body: Any = None,
    *,
    json: bool,
    seconds: float = ANSWER,
) -> bytes:
    """Return the same as it came."""
    try:
        with connect(agent, seconds, shown_here()) as client:
            answer = client.request(
                method, path, content=msgspec.json.encode(body) if body is not None else None
            )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(
            f"no agent answers at {_address(agent)} ({error or type(error).__name__}); start one "
            "with `headgate agent --config agent.toml`, or name another with --agent or "
            f"{ADDRESS_VARIABLE}",
            json=json,
        )
    except ConfigurationError as error:
        fail(str(error), json=json)
    if answer.is_error:
        content = _decoded(answer.content, agent, json=json)
        words = content.get("error", answer.text) + cure(answer.status_code)
        fail(words, json=json, problems=content.get("problems", []))
    return answer.content


def _decoded(content: bytes, agent: str | None, *, json: bool) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        address = _address(agent)
        fail(f"what answers at {address} is no agent: {error}; correct --agent", json=json)


def _address(agent: str | None) -> str:
    return base_url(agent).removeprefix("http://")


def fail(message: str, *, json: bool, problems: Any = ()) -> NoReturn:
    """End the command with an error."""
    if json:
        document = {"error": message, "problems": problems}
        print_document(document)
    else:
        typer.echo(f"headgate {command_here()}: {message}", err=True)
        for problem in problems:
            place = f"{problem['file']}:{problem['line']}:{problem['column']}"
            typer.echo(f"{place}: {problem['message']}; {problem['cure']}", err=True)
    raise typer.Exit(1)


def printed(content: Any, *, json: bool) -> bool:
    """Print what an agent answered as JSON, where that is wanted; return whether."""
    if json:
        print_document(content)
    return json
