"""The dataflows of a demonstration, over the agent's HTTP API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from headgate.agent import TrainingReport
from headgate.cli.agent_client import connect

_LOOK_SECONDS = 5.0  # one long poll; after each it is looked whether anything is stuck
_SETTLE_SECONDS = 300.0  # a wave's runs: a first Spark job may take half a minute on a busy machine
_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 120.0  # a submit waits until the proxy watches the tables


class DemoError(Exception):
    """A dataflow of the demonstration is stuck; the message says on what."""


class CommittedRun(Struct, frozen=True):
    """A run that has committed, with the times of its last attempt in Unix seconds."""

    number: int
    action: str
    cause: str
    launched: float
    ended: float
    made: dict[str, int] = {}
    """Rows of the increment that a stage has made, by the flow that others read."""

    @property
    def seconds(self) -> float:
        """Return the seconds from launch to commit."""
        return self.ended - self.launched


class Judged(Struct, frozen=True):
    """The judgement of a trigger on the wave as it stands."""

    words: str = ""


class Policy(Struct, frozen=True):
    """The report of a trigger on the outputs that its action writes."""

    words: str = ""
    data: dict[str, Any] = {}


class Explained(Struct, frozen=True):
    """How an action stands."""

    words: str
    """Reason of its last run, and what it needs for the next one."""
    result: Judged | None = None
    policy: Policy | None = None


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

    def submit(self, text: str, file: Path) -> None:
        """Submit a dataflow file's text; return when the agent counts its updates.

        Args:
            text: the file's content.
            file: names it in messages; the steps' modules are looked for beside it.

        Raises:
            DemoError: the agent refused it.
        """
        body = {"source": text, "file": file.name, "directory": str(file.parent)}
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
                time.sleep(_POLL_SECONDS)

    def end_wave(self, names: Sequence[str], time_of_wave: float | None = None) -> None:
        """End the wave of all dataflows; return when each has run what the wave made due.

        Args:
            names: of the dataflows.
            time_of_wave: the wave's own, in Unix seconds; now where None.

        Raises:
            DemoError: an action is in quarantine, or nothing settles.
        """
        body = {} if time_of_wave is None else {"time": time_of_wave}
        waves = {name: self._ask("POST", f"/v1/flows/{name}/waves", body)["wave"] for name in names}
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

    def committed(self, name: str, after: int) -> Sequence[CommittedRun]:
        """Return a dataflow's committed runs with higher numbers than ``after``, oldest first."""
        runs = sorted(self._ask("GET", f"/v1/flows/{name}/runs"), key=lambda run: run["number"])
        return [
            msgspec.convert(run, CommittedRun)
            for run in runs
            if run["outcome"] == "committed" and run["number"] > after
        ]

    def train(self, name: str, waves: int) -> TrainingReport:
        """Have models trained on the newest waves; return the report when they decide.

        Args:
            name: of the dataflow.
            waves: to train on.

        Raises:
            DemoError: the training does not end, or its models are not taken up.
        """
        path = f"/v1/flows/{name}/train"
        deadline = time.monotonic() + _SETTLE_SECONDS
        answer = self._ask("POST", path, {"waves": waves})
        while answer["seconds"] is None:
            if time.monotonic() > deadline:
                raise DemoError(f"the training of {name} did not end in {_SETTLE_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
            answer = self._ask("GET", f"{path}?number={answer['number']}")
        report = msgspec.convert(answer, TrainingReport)
        while report.models != (deciding := self._deciding(name)):
            if time.monotonic() > deadline:
                raise DemoError(f"of {report.models}, {name} decides by {deciding} only")
            time.sleep(_POLL_SECONDS)
        return report

    def explained(self, name: str) -> dict[str, Explained]:
        """Return by action how it stands."""
        actions = self._ask("GET", f"/v1/flows/{name}/explain")["actions"]
        return {action["action"]: msgspec.convert(action, Explained) for action in actions}

    def _deciding(self, name: str) -> dict[str, str]:
        """Return by output the model that decides, where there is one."""
        reports = (action.policy for action in self.explained(name).values())
        outputs = (known.data for known in reports if known is not None)
        return {
            output: data["model"]
            for known in outputs
            for output, data in known.items()
            if data.get("model")
        }

    def reasons(self, name: str) -> dict[str, str]:
        """Return by action why it last ran, and what it needs for its next run."""
        return {name: action.words for name, action in self.explained(name).items()}

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
