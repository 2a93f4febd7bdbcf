"""The dataflows of a demonstration, over the agent's HTTP API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from headgate.cli.agent_client import connect

if TYPE_CHECKING:
    from aqhi.comparison import FinishedRun

_LOOK_SECONDS = 5.0  # one long poll; after each it is looked whether anything is stuck
_SETTLE_SECONDS = 300.0  # a wave's runs: a first Spark job may take half a minute on a busy machine
_ANSWER_SECONDS = 120.0  # a submit waits until the proxy watches the tables


class DemoError(Exception):
    """A dataflow of the demonstration is stuck; the message says on what."""


class AgentDataflows:
    """Submits dataflows and marks their waves.

    Args:
        api: the agent's address, ``http://host:port``.
        transport: carries the requests; a connection by default.
    """

    def __init__(self, api: str, transport: httpx.BaseTransport | None = None) -> None:
        # The agent is this user's own, whatever token the user has for others.
        self._client = connect(api, _ANSWER_SECONDS, transport=transport, environment={})

    def close(self) -> None:
        """Close the connection to the agent."""
        self._client.close()

    def submit(self, text: str, directory: Path, file: str = "aqhi.yaml") -> None:
        """Submit a dataflow file's text; return when the agent counts its updates.

        Args:
            text: the file's content.
            directory: where the steps' modules are looked for.
            file: the file's name, for messages.

        Raises:
            DemoError: the agent refused it.
        """
        body = {"source": text, "file": file, "directory": str(directory)}
        self._ask("POST", "/v1/flows", body)

    def wait_warm(self, names: Sequence[str]) -> None:
        """Return when the workers of all dataflows have a warm Spark session.

        Raises:
            DemoError: one does not come up.
        """
        deadline = time.monotonic() + _SETTLE_SECONDS
        for name in names:
            while not (worker := self._ask("GET", f"/v1/flows/{name}")["status"]["worker"])[
                "ready"
            ]:
                if time.monotonic() > deadline:
                    raise DemoError(f"the worker of dataflow {name} is not warm: {worker['words']}")
                time.sleep(0.1)

    def end_wave(self, names: Sequence[str]) -> None:
        """End the wave of all dataflows; return when each has run what the wave made due.

        Raises:
            DemoError: an action is in quarantine, or nothing settles.
        """
        waves = {name: self._ask("POST", f"/v1/flows/{name}/waves", {})["wave"] for name in names}
        deadline = time.monotonic() + _SETTLE_SECONDS
        for name, wave in waves.items():
            path = f"/v1/flows/{name}/waves/{wave}?wait={_LOOK_SECONDS:g}"
            while not (status := self._ask("GET", path))["settled"]:
                self._check(name)
                if time.monotonic() > deadline:
                    raise DemoError(
                        f"wave {wave} of dataflow {name} did not settle in {_SETTLE_SECONDS:g} s: "
                        f"{status['waiting']}"
                    )

    def finished(self, name: str, after: int) -> Sequence[FinishedRun]:
        """Return a dataflow's committed runs with higher numbers than ``after``, oldest first."""
        from aqhi.comparison import FinishedRun

        return [
            FinishedRun(run["number"], run["action"], run["ended"] - run["launched"])
            for run in sorted(self._ask("GET", f"/v1/flows/{name}/runs"), key=lambda r: r["number"])
            if run["outcome"] == "committed" and run["number"] > after
        ]

    def reasons(self, name: str) -> dict[str, str]:
        """Return by action why it last ran, and what it needs for its next run."""
        explained = self._ask("GET", f"/v1/flows/{name}/explain")
        return {action["action"]: action["words"] for action in explained["actions"]}

    def _check(self, name: str) -> None:
        """Raise if an action is in quarantine, with its last traceback."""
        view = self._ask("GET", f"/v1/flows/{name}")
        for action in view["status"]["actions"]:
            if action["state"] == "quarantined":
                failed = [
                    run
                    for run in view["runs"]
                    if run["action"] == action["name"] and run["outcome"] != "committed"
                ]
                last = max(failed, key=lambda run: run["number"])
                raise DemoError(
                    f"step {action['name']} of dataflow {name} failed {len(failed)} times; last: "
                    f"{last['reason']}\n{last['detail']}"
                )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise DemoError(f"the agent does not answer {method} {path}: {error}") from error
        if answer.is_error:
            raise DemoError(f"the agent refused {method} {path}: {answer.text}")
        return answer.json()
