"""A step in a process of its own: which code it ran is noted, and what its run is to name kept."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import msgspec
import pytest
from msgspec.structs import replace

from headgate.client import Columns, ConnectionFailed
from headgate.events import Origin
from headgate.spark import (
    NamedResults,
    ResultError,
    StepRequest,
    Thrift2Address,
    code_hash,
    current_run,
    digest_of,
    driver,
)
from headgate.spark import ledger as ledger_module

STEPS = """
from pathlib import Path

def step(run):
    noted = Path(run.parameters["code"]).read_text()
    import {other}
    Path(run.parameters["seen"]).write_text(noted)
    raise ValueError("after all was imported")
"""


@pytest.fixture(autouse=True)
def _import_system() -> Iterator[None]:
    finders, path = list(sys.meta_path), list(sys.path)
    yield
    sys.meta_path[:] = finders
    sys.path[:] = path


def test_the_hash_of_the_code_is_noted_before_the_step_and_after_what_it_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "SparkSession", MagicMock())  # the step asks nothing of it
    name, other = (f"steps_{uuid.uuid4().hex}" for _ in range(2))
    (tmp_path / f"{name}.py").write_text(STEPS.format(other=other))
    (tmp_path / f"{other}.py").write_text("")
    code, seen, described = (tmp_path / file for file in ("code", "seen", "request.json"))
    request = StepRequest(
        *("air", "zones", "r1", 1, 1, f"{name}:step"),
        Thrift2Address("hbase", 9191),
        "kafka:9092",
        python_path=(str(tmp_path),),
        parameters={"code": str(code), "seen": str(seen)},
    )
    described.write_bytes(msgspec.json.encode(request))

    remote = ["--remote", "sc://server:1", "--code", str(code)]
    with pytest.raises(ValueError, match="after all"):
        driver.main([str(described), *remote])

    def of(*modules: str) -> str:
        return code_hash({m: digest_of((tmp_path / f"{m}.py").read_bytes()) for m in modules})

    assert seen.read_text() == of(name)
    assert code.read_text() == of(name, other)


REQUEST = StepRequest(
    *("air", "zones", "r1", 2, 7, "steps:step"),
    Thrift2Address("hbase", 9191),
    "kafka:9092",
    previous="manifest-1",
    result_proof=b"an agent's",
)


class Results:
    """A table, and the connection to it."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.proofs: list[bytes] = []
        self.away = 0
        """How many of the next writes are answered by nobody."""

    def __call__(self, host: str, port: int) -> Results:
        assert (host, port) == ("hbase", 9191)
        return self

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def get(self, table: str, row: bytes, columns: Any = ()) -> dict[bytes, bytes]:
        return self.rows.get(row, {})

    def put(
        self, table: str, rows: Iterable[tuple[bytes, Columns]], *, origin: Origin | None = None
    ) -> int:
        if self.away:
            self.away -= 1
            raise ConnectionFailed("no reply")
        assert origin is not None
        self.proofs.append(origin.proof)
        self.rows.update({row: dict(cells) for row, cells in rows})
        return 1


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Results:
    made = Results()
    monkeypatch.setattr(driver, "Thrift2Connection", made)
    monkeypatch.setattr(driver, "register_sources", lambda _: None)
    monkeypatch.setattr(ledger_module, "_PAUSES", (0.0, 0.0, 0.0))
    return made


def named(results: Results) -> str:
    return NamedResults(results, "headgate").named(REQUEST.key, REQUEST.token)


def test_what_a_program_names_is_kept_for_whoever_commits_its_run(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = tmp_path / "request.json"
    described.write_bytes(msgspec.json.encode(REQUEST))
    monkeypatch.setenv(driver.RUN_VARIABLE, str(described))

    run = current_run(cast(Any, MagicMock()))
    run.commit_as(f"after {run.previous}")

    assert named(results) == "after manifest-1"
    assert results.proofs == [b"an agent's"]


def test_a_task_of_airflow_names_the_result_of_its_dag_run(results: Results) -> None:
    conf = msgspec.json.decode(msgspec.json.encode(REQUEST))

    run = current_run(cast(Any, MagicMock()), conf)
    run.commit_as("early")
    run.commit_as("late")

    assert run.previous == "manifest-1"
    assert named(results) == "late"


def test_a_task_of_airflow_says_itself_what_kafka_asks_for() -> None:
    told = replace(REQUEST, kafka_properties={"client.rack": "a", "ssl.ca.location": "agent.pem"})
    own: dict[str, Any] = {"ssl.ca.location": "task.pem", "sasl.username": "task"}

    run = current_run(cast(Any, MagicMock()), msgspec.to_builtins(told), kafka_properties=own)

    assert run.kafka.properties == {"client.rack": "a", **own}
    assert (
        current_run(cast(Any, MagicMock()), msgspec.to_builtins(told)).kafka == told.kafka_address
    )


def test_an_observer_that_restarts_costs_a_program_no_result(results: Results) -> None:
    results.away = 3
    current_run(cast(Any, MagicMock()), msgspec.to_builtins(REQUEST)).commit_as("manifest-2")

    assert named(results) == "manifest-2"


def test_a_program_whose_result_could_not_be_kept_fails(results: Results) -> None:
    run = current_run(cast(Any, MagicMock()), msgspec.to_builtins(REQUEST))
    results.away = 99
    with pytest.raises(ConnectionFailed):
        run.commit_as("manifest-2")
    with pytest.raises(ResultError):
        run.commit_as("x" * 9_000)

    assert (run.result, results.rows) == ("", {})
