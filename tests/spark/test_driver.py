"""A step in a process of its own: which code it ran is noted beside its run."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import msgspec
import pytest

from headgate.spark import StepRequest, Thrift2Address, code_hash, digest_of, driver

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
