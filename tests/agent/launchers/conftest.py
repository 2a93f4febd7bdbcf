"""Jobs in a temporary folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.agent.launchers.job import Job, JobFiles
from headgate.flows import JobLauncher
from headgate.spark import StepRequest, Thrift2Address

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``scripted_worker``

MakeJob = Callable[[JobLauncher], tuple[JobFiles, Job]]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(launcher: JobLauncher) -> tuple[JobFiles, Job]:
        (tmp_path / "steps.py").write_text("def zones(run): ...\n")
        request = StepRequest(
            "air",
            "zones",
            "r 1",
            2,
            7,
            "steps:zones",
            Thrift2Address("hbase", 9191),
            "kafka:9092",
            python_path=(str(tmp_path),),
            kafka_properties={"sasl.password": "secret"},
            ledger_proof=b"an agent's",
            previous="manifest-1",
            result_proof=b"for one row",
        )
        files = JobFiles(tmp_path / "job")
        job = Job(
            request,
            launcher,
            str(tmp_path),
            "/venv/bin/python",
            "holder",
            user="ann",
            password="pw",
        )
        files.create(job)
        return files, job

    return make
