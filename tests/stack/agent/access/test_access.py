"""Who reaches a real agent, and who does not."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.agent import user_token_file

pytestmark = pytest.mark.stack

_SENT = 300 << 20  # bytes of a body that nobody wants


@pytest.fixture(scope="module")
def agent(stand: Any) -> Any:
    return stand.start_agent()


def flow(agent: Any, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``headgate flow`` as a user does."""
    environment = {**os.environ, "HEADGATE_AGENT": agent.address, "COLUMNS": "200", **variables}
    return subprocess.run(
        [sys.executable, "-m", "headgate.cli", "flow", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_user_of_the_agent_has_nothing_to_configure(agent: Any) -> None:
    listed = flow(agent, "list")
    assert listed.returncode == 0, listed.stderr
    assert "No dataflow was submitted yet" in listed.stdout
    assert stat.S_IMODE(user_token_file().stat().st_mode) == 0o600


def test_another_user_is_told_what_is_missing_and_gets_in_with_a_token(
    agent: Any, tmp_path: Path
) -> None:
    stranger = {"XDG_STATE_HOME": str(tmp_path)}
    refused = flow(agent, "list", **stranger)
    assert refused.returncode == 1
    assert "HEADGATE_TOKEN" in refused.stderr

    token = user_token_file().read_text().strip()
    assert flow(agent, "list", **stranger, HEADGATE_TOKEN=token).returncode == 0
    (tmp_path / "token").write_text(token)
    assert flow(agent, "--token-file", str(tmp_path / "token"), "list", **stranger).returncode == 0
    mistyped = flow(agent, "list", **stranger, HEADGATE_TOKEN=token[:-1])
    assert mistyped.returncode == 1
    assert token[:-1] not in mistyped.stderr


def test_a_page_in_a_browser_submits_nothing(agent: Any) -> None:
    body = '{"source": "name: evil"}'
    url = f"http://{agent.address}/v1/flows"
    for headers in (
        {"content-type": "text/plain", "origin": "https://evil.example"},
        {"content-type": "application/json", "sec-fetch-site": "cross-site"},
        {"content-type": "application/json", "host": "evil.example"},
        {},
    ):
        answer = httpx.post(url, headers=headers, content=body, trust_env=False)
        assert answer.status_code in {401, 403, 421}, headers
    assert agent.ask("GET", "/v1/flows") == []


def test_a_huge_body_is_refused_before_it_is_sent(agent: Any) -> None:
    host, _, port = agent.address.rpartition(":")
    token = user_token_file().read_text().strip()
    sent = 0
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = (
            f"POST /v1/flows HTTP/1.1\r\nHost: {agent.address}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {_SENT}\r\n\r\n"
        )
        connection.sendall(head.encode())
        try:
            while sent < _SENT:
                sent += connection.send(bytes(65536))
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert sent < 16 << 20  # what the kernel keeps on both sides


def test_no_token_is_in_the_log_and_every_change_is(agent: Any) -> None:
    agent.client.delete("/v1/flows/unknown")
    log = agent.log.read_text()
    assert user_token_file().read_text().strip() not in log
    (line,) = re.findall(r".*change refused.*", log)
    for told in ("agent", "define", "127.0.0.1", "DELETE /v1/flows/unknown", "404"):
        assert told in line


def test_an_agent_asks_another_in_the_place_of_its_caller(
    stand: Any, agent: Any, eventually: Any
) -> None:
    second = stand.start_agent("two")
    tables = {name: stand.stack.table(name) for name in ("source", "target")}
    text = f"""
name: passed-on
containers: {{source: {tables["source"]} f:v, target: {tables["target"]} f:v}}
actions:
  feed: {{input: source}}
  copy: {{step: "steps:copy", reads: source, writes: target, when: {{source: {{sequence: 100}}}}}}
"""
    row = stand.submit(agent, text, shadow=True)
    owner, other = (agent, second) if row["owner"] == agent.name else (second, agent)
    eventually(lambda: not any(r["state"] == "waiting" for r in other.ask("GET", "/v1/flows")))
    other.ask("POST", "/v1/flows/passed-on/pause")
    assert owner.show("passed-on")["status"]["phase"] == "paused"
    (line,) = re.findall(r".*flows/passed-on/pause.*", owner.log.read_text())
    assert "via" in line
    other.ask("DELETE", "/v1/flows/passed-on")
