"""Attempts as runs of a DAG, through the REST API of Airflow 3."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from msgspec import Struct, structs

from headgate.agent.configuration import Launchers
from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds.airflow_api import (
    AirflowApi,
    AirflowRefused,
    NoAnswer,
    Patience,
)
from headgate.agent.launchers.kinds.backend import Backend, NotConfigured
from headgate.flows import AirflowLauncher

_LOOK: Final = 1.0
"""Seconds between two looks at a DAG run."""

_LONGEST_LOOK: Final = 10.0
"""Seconds between two requests, after some that got no answer of Airflow's."""

_PATIENCE: Final = 600.0
"""Seconds that Airflow may be away while it works: the DAG run does not depend on who looks."""

_MARKING: Final = 10.0
"""Seconds for marking a DAG run as failed; the agent kills who needs more than 15 to stop."""

_PORTS: Final = {"http": 80, "https": 443}
_OVER: Final = frozenset({"success", "failed"})
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_.~:+-]")
"""Characters that Airflow takes in no id of a DAG run."""


class _DagRun(Struct):
    dag_run_id: str
    state: str


class _Dag(Struct):
    dag_id: str
    is_paused: bool


class _Task(Struct):
    task_id: str
    try_number: int
    map_index: int = -1
    state: str | None = None


class _Tasks(Struct):
    task_instances: list[_Task]


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
        self._api = AirflowApi(launcher.url, job.user, job.password, transport)
        self._here = f"/api/v2/dags/{quote(self._dag, safe='')}"
        self._run = f"{self._here}/dagRuns/{quote(self.id, safe='')}"
        self._begun = False
        self._state = ""
        self._next_look = 0.0
        self._patience = self._patience_of(_PATIENCE)

    def start(self) -> None:
        """See ``Work``.

        Raises:
            AirflowRefused: there is no such DAG, it is paused, or this user may not run it.
        """
        self._print(f"DAG run {self.id} of {self._dag} at {self._api.url}")
        self._patiently(self._trigger, self._patience)
        self._patience = self._patience_of(_PATIENCE)

    def _trigger(self) -> None:
        if self._is_known():
            # Triggered by an attendant that ended, or by a request whose answer was lost: it runs,
            # whatever became of the DAG since.
            self._begun = True
            return
        dag = self._api.ask("GET", self._here, _Dag)
        if dag.dag_id != self._dag:
            raise NoAnswer(f"the answer for DAG {self._dag} is about {dag.dag_id!r}")
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
        self._begun = True  # as far as is known, until there is an answer
        try:
            self._checked(self._api.ask("POST", f"{self._here}/dagRuns", _DagRun, body))
        except AirflowRefused as error:
            # Conflict: the answer to the first request was lost.
            self._begun = error.status == httpx.codes.CONFLICT
            if not self._begun:
                raise

    def outcome(self) -> str | None:
        """See ``Work``: what is not Airflow's word about this DAG run is waited out."""
        now = time.monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + _LOOK
        try:
            found = self._find()
        except NoAnswer as error:
            return self._look_later(error)
        except AirflowRefused as error:
            # Whoever serves no such path at all says 404 too, but does not name the DAG run.
            if error.status == httpx.codes.NOT_FOUND and self.id in error.said:
                return f"Airflow has no DAG run {self.id} any more"
            # It refuses to say, which a new password or right mends: the DAG run works meanwhile.
            return self._look_later(NoAnswer(str(error)))
        self._patience = self._patience_of(_PATIENCE)
        self._note(found)
        if found.state not in _OVER:
            return None
        failed = self._keep_logs()
        if found.state == "success":
            return ""
        return f"DAG run {self.id} failed{': ' if failed else ''}{', '.join(failed)}"

    def _look_later(self, error: NoAnswer) -> str | None:
        when = self._patience.next_time(error)
        if when is None:
            return f"Airflow at {self._api.url} does not answer: {error}"
        self._print(f"looks again in {when - time.monotonic():.0f} s: {error}")
        self._next_look = when
        return None

    def stop(self) -> None:
        """See ``Work``."""
        try:
            if self._begun and self._state not in _OVER:
                self._patiently(self._mark, self._patience_of(_MARKING))
        except AirflowRefused as error:
            self._print(f"{self.id} could not be ended: {error}")
        finally:
            self._api.close()

    def _mark(self) -> None:
        found = self._find()  # It may have ended since the last look.
        self._note(found)
        if found.state in _OVER:
            return
        self._note(self._checked(self._api.ask("PATCH", self._run, _DagRun, {"state": "failed"})))
        self._print(f"{self.id} was marked as failed")
        self._keep_logs()

    # -- requests --------------------------------------------------------------------------------

    def _is_known(self) -> bool:
        try:
            self._find()
        except AirflowRefused as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def _find(self) -> _DagRun:
        """Return the DAG run as it is.

        Raises:
            AirflowRefused: Airflow has none, or does not say.
            NoAnswer: nobody says.
        """
        return self._checked(self._api.ask("GET", self._run, _DagRun))

    def _checked(self, found: _DagRun) -> _DagRun:
        if found.dag_run_id != self.id:
            raise NoAnswer(f"the answer for {self.id} is about {found.dag_run_id!r}")
        return found

    def _note(self, found: _DagRun) -> None:
        if found.state != self._state:
            self._print(f"{self.id} is {found.state}")
        self._state = found.state

    @staticmethod
    def _patience_of(seconds: float) -> Patience:
        return Patience(_LOOK, _LONGEST_LOOK, time.monotonic() + seconds)

    def _patiently(self, work: Callable[[], None], patience: Patience) -> None:
        while True:
            try:
                work()
                return
            except NoAnswer as error:
                when = patience.next_time(error)
                if when is None:
                    message = f"Airflow at {self._api.url} does not answer: {error}"
                    raise AirflowRefused(message) from error
                self._print(f"asks again in {when - time.monotonic():.0f} s: {error}")
                time.sleep(max(0.0, when - time.monotonic()))

    # -- what is shown ---------------------------------------------------------------------------

    def _keep_logs(self) -> list[str]:
        """Add the logs of all tasks to the job's own, and return which tasks failed."""
        failed: list[str] = []
        try:
            tasks = self._api.ask("GET", f"{self._run}/taskInstances", _Tasks).task_instances
            failed += [f"task {task.task_id}" for task in tasks if task.state == "failed"]
            for task in tasks:
                if task.try_number:
                    self._keep_log(task)
        except (NoAnswer, AirflowRefused) as error:
            self._print(f"logs are with Airflow only: {error}")
        return failed

    def _keep_log(self, task: _Task) -> None:
        place = f"taskInstances/{quote(task.task_id, safe='')}/logs/{task.try_number}"
        parameters = {"map_index": task.map_index, "full_content": "true"}
        text = self._api.text(f"{self._run}/{place}", parameters)
        self._print(f"--- task {task.task_id}, try {task.try_number}: {task.state}")
        for line in text.splitlines():
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
