"""Attempts as runs of a DAG, through the REST API of Airflow 3."""

from __future__ import annotations

import re
import time
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Struct, structs

from headgate.agent.configuration import Launchers
from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds.backend import Backend, NotConfigured
from headgate.flows import AirflowLauncher

_CALL: Final = 30.0
"""Seconds that one answer may take."""

_LOOK: Final = 1.0
"""Seconds between two looks at a DAG run."""

_PATIENCE: Final = 600.0
"""Seconds that Airflow may be away while it works: the DAG run does not depend on who looks."""

_PORTS: Final = {"http": 80, "https": 443}
_OVER: Final = frozenset({"success", "failed"})
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_.~:+-]")
"""Characters that Airflow takes in no id of a DAG run."""


class AirflowRefused(Exception):
    """Airflow answered that it does not do what it was asked for."""


class _DagRun(Struct):
    state: str


class _Dag(Struct):
    is_paused: bool


class _Task(Struct):
    task_id: str
    try_number: int
    map_index: int = -1
    state: str | None = None


class _Tasks(Struct):
    task_instances: list[_Task]


class _Token(Struct):
    access_token: str


class DagRun:
    """The DAG run of one attempt: triggered once, whoever asks how often.

    Args:
        files: the job's.
        job: its description.
        launcher: the job's.
        transport: carries requests; the network where None.
    """

    def __init__(
        self,
        files: JobFiles,
        job: Job,
        launcher: AirflowLauncher,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not launcher.url:
            message = (
                "no Airflow is named; set launchers.airflow.url in agent.toml, or "
                "`launcher: {airflow: {url: ...}}` in the dataflow"
            )
            raise NotConfigured(message)
        request = job.request
        self._files = files
        self._job = job
        self._dag = launcher.dag
        self._parameters = launcher.parameters
        written = f"{request.dataflow}__{request.action}__{request.run}__{request.attempt}"
        self.id = _NOT_IN_IDS.sub("_", written)
        self._client = httpx.Client(
            base_url=launcher.url.rstrip("/"),
            timeout=_CALL,
            trust_env=False,
            transport=transport,
        )
        self._here = f"/api/v2/dags/{quote(self._dag, safe='')}"
        self._run = f"{self._here}/dagRuns/{quote(self.id, safe='')}"
        self._begun = False
        self._state = ""
        self._looked = 0.0
        self._answered = time.monotonic()

    def start(self) -> None:
        """See ``Work``.

        Raises:
            AirflowRefused: there is no such DAG, it is paused, or this user may not run it.
        """
        self._print(f"DAG run {self.id} of {self._dag} at {self._client.base_url}")
        self._patiently(self._trigger)

    def _trigger(self) -> None:
        known = self._ask("GET", self._run, but=(httpx.codes.NOT_FOUND,))
        if known.is_success:
            # Triggered by an attendant that ended: it runs, whatever became of the DAG since.
            self._begun = True
            return
        dag = msgspec.json.decode(self._ask("GET", self._here).content, type=_Dag)
        if dag.is_paused:
            message = f"DAG {self._dag} is paused: unpause it in Airflow, then retry"
            raise AirflowRefused(message)
        request = msgspec.to_builtins(self._job.request)
        # A DAG run's conf is shown: these hold passwords, and what is for the attendant alone. The
        # proof that stays lets a reader do no more to this run than its origin does.
        del request["kafka_properties"], request["ledger_proof"]
        body = {
            "dag_run_id": self.id,
            "logical_date": None,
            "conf": {**self._parameters, "headgate": request},
        }
        # Conflict: the answer to the first request was lost.
        self._ask("POST", f"{self._here}/dagRuns", body, but=(httpx.codes.CONFLICT,))
        self._begun = True

    def outcome(self) -> str | None:
        """See ``Work``."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return None
        self._looked = now
        try:
            answer = self._ask("GET", self._run)
        except httpx.HTTPError as error:
            if now - self._answered > _PATIENCE:
                return f"Airflow at {self._client.base_url} does not answer: {error}"
            return None
        self._answered = now
        state = msgspec.json.decode(answer.content, type=_DagRun).state
        if state != self._state:
            self._print(f"{self.id} is {state}")
        self._state = state
        if state not in _OVER:
            return None
        failed = self._keep_logs()
        if state == "success":
            return ""
        return f"DAG run {self.id} failed{': ' if failed else ''}{', '.join(failed)}"

    def stop(self) -> None:
        """See ``Work``."""
        try:
            if self._begun and self._state not in _OVER:
                self._ask("PATCH", self._run, {"state": "failed"})
                self._print(f"{self.id} was marked as failed")
                self._keep_logs()
        except (httpx.HTTPError, AirflowRefused) as error:
            self._print(f"{self.id} could not be ended: {error}")
        finally:
            self._client.close()

    # -- requests --------------------------------------------------------------------------------

    def _patiently(self, work: Any) -> None:
        while True:
            try:
                work()
                return
            except httpx.HTTPError as error:
                if time.monotonic() - self._answered > _PATIENCE:
                    message = f"Airflow at {self._client.base_url} does not answer: {error}"
                    raise AirflowRefused(message) from error
                time.sleep(_LOOK)

    def _ask(
        self, method: str, path: str, body: Any = None, but: tuple[int, ...] = ()
    ) -> httpx.Response:
        """Ask, with another token where this one has expired.

        Raises:
            AirflowRefused: the answer is an error that is not among those in ``but``.
            httpx.HTTPError: there is none, or Airflow has a fault of its own.
        """
        answer = self._client.request(method, path, json=body)
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._job.user:
            self._log_in()
            answer = self._client.request(method, path, json=body)
        if answer.is_server_error:
            answer.raise_for_status()
        if answer.is_error and answer.status_code not in but:
            message = f"{method} {path}: {answer.status_code} {answer.text[:500]}"
            raise AirflowRefused(message)
        return answer

    def _log_in(self) -> None:
        who = {"username": self._job.user, "password": self._job.password}
        answer = self._client.post("/auth/token", json=who)
        if answer.is_client_error:
            message = f"Airflow refuses user {self._job.user}: {answer.text[:200]}"
            raise AirflowRefused(message)
        answer.raise_for_status()
        token = msgspec.json.decode(answer.content, type=_Token).access_token
        self._client.headers["Authorization"] = f"Bearer {token}"

    # -- what is shown ---------------------------------------------------------------------------

    def _keep_logs(self) -> list[str]:
        """Add the logs of all tasks to the job's own, and return which tasks failed."""
        try:
            answer = self._ask("GET", f"{self._run}/taskInstances")
            tasks = msgspec.json.decode(answer.content, type=_Tasks).task_instances
            for task in tasks:
                if task.try_number:
                    self._keep_log(task)
        except (httpx.HTTPError, AirflowRefused, msgspec.MsgspecError) as error:
            self._print(f"logs are with Airflow only: {error}")
            return []
        return [f"task {task.task_id}" for task in tasks if task.state == "failed"]

    def _keep_log(self, task: _Task) -> None:
        place = f"taskInstances/{quote(task.task_id, safe='')}/logs/{task.try_number}"
        answer = self._client.get(
            f"{self._run}/{place}",
            params={"map_index": task.map_index, "full_content": "true"},
            headers={"Accept": "application/x-ndjson"},
        )
        self._print(f"--- task {task.task_id}, try {task.try_number}: {task.state}")
        for line in answer.text.splitlines():
            self._print(_text_of(line))

    def _print(self, text: str) -> None:
        with self._files.log.open("a", encoding="utf-8") as log:
            print(text, file=log)


def _text_of(line: str) -> str:
    """Return a line of a task's log as text: its time and event, of a structured one."""
    try:
        said = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return line
    if not isinstance(said, dict):
        return str(said)
    detail = said.get("error_detail")
    text = " ".join(str(said[key]) for key in ("timestamp", "event") if said.get(key))
    return f"{text} {msgspec.json.encode(detail).decode()}" if detail else text


class AirflowBackend(Backend[AirflowLauncher]):
    """Runs DAGs, which go on in Airflow whoever asks after them."""

    remote = True

    def complete(self, job: Job, launcher: AirflowLauncher, defaults: Launchers) -> Job:
        """See ``Backend``: the configured user asks at the configured URL alone."""
        airflow = defaults.airflow
        if _origin(launcher.url or airflow.url) != _origin(airflow.url):
            return job
        # As it was configured: what it looks like to others who read URLs does not matter then.
        launcher = structs.replace(launcher, url=airflow.url)
        return structs.replace(job, launcher=launcher, user=airflow.user, password=airflow.password)

    def work(self, files: JobFiles, job: Job, launcher: AirflowLauncher) -> DagRun:
        """See ``Backend``."""
        return DagRun(files, job, launcher)


def _origin(url: str) -> tuple[str, str, int | None, str]:
    """Return what of a URL decides who reads what is sent there."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url, "", None, ""
    return parts.scheme, parts.hostname or "", port, parts.path.rstrip("/")


BACKEND: Final = AirflowBackend()
