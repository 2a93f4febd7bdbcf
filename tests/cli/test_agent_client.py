"""What commands show to an agent, and to whom they show nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uvicorn

from headgate.agent import find_token, user_token_file
from headgate.cli.agent_client import KEPT_SECONDS, Shown, connect
from headgate.settings import ConfigurationError

OWN = "headgate_of-the-agents-of-this-user"
GIVEN = "headgate_that-somebody-was-given"


@pytest.fixture(autouse=True)
def own_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = user_token_file()
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)
    path.write_text(OWN + "\n")


def test_an_idle_connection_is_given_up_before_the_agent_closes_it() -> None:
    """Else a request may meet the close, and nobody knows whether it was carried out."""
    agents = uvicorn.Config("any:app").timeout_keep_alive
    assert agents - 1 > KEPT_SECONDS
    with connect("agent.example", 1.0, Shown()) as client:
        transport: Any = client._transport
        assert transport._pool._keepalive_expiry == KEPT_SECONDS


def shown(address: str, environment: dict[str, str] | None = None, **files: Any) -> str | None:
    with connect(address, 1.0, Shown(**files), environment=environment or {}) as client:
        found: str | None = client.headers.get("authorization")
    return found and found.removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7680", OWN),
        ("localhost:7680", OWN),
        ("[::1]:7680", OWN),
        ("https://agent.example:7680", OWN),
        ("agent.example:7680", None),
        ("10.0.0.1:7680", None),
        ("http://127.0.0.1.evil.example:7680", None),
        ("http://127.0.0.1@evil.example:7680", None),
        ("http://localhost:7680@evil.example", None),
    ],
)
def test_the_users_own_token_never_goes_in_clear_to_another_machine(
    address: str, expected: str | None
) -> None:
    assert shown(address) == expected


def test_a_token_that_was_given_goes_where_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(GIVEN + "\nheadgate_the-one-before\n")
    for environment in ({"HEADGATE_TOKEN": f" {GIVEN}\n"}, {"HEADGATE_TOKEN_FILE": str(file)}):
        assert shown("agent.example:7680", environment) == GIVEN
    named = {"HEADGATE_TOKEN": "headgate_another", "HEADGATE_TOKEN_FILE": "/nowhere"}
    assert shown("agent.example:7680", named, token_file=file) == GIVEN


@pytest.mark.parametrize("content", ["", "short", "h\xe4dgate_not-of-ascii-letters"])
def test_a_file_without_a_token_is_told(tmp_path: Path, content: str) -> None:
    file = tmp_path / "given"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match="openssl rand -hex 32"):
        find_token(file, {}, trusted=True)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_token(tmp_path / "missing", {}, trusted=True)


def test_certificates_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--certificate"):
        connect("https://agent.example", 1.0, Shown(certificate=tmp_path / "missing"))
