"""Learned triggers on a stand of its own: trained on one morning, deciding on the next."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 3600  # seconds; nine minutes on two cores with a load of ten
WAVES, FILLING = 40, 5


def demo(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate.cli", "demo", "linear-road", "--home", str(home)]
    return subprocess.run(
        [*command, *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.stack
@pytest.mark.soak
@pytest.mark.timeout(LIMIT)
def test_what_one_morning_taught_skips_runs_on_the_next(tmp_path: Path) -> None:
    done = demo(tmp_path, "--waves", str(WAVES))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["waves"] == WAVES + FILLING
    assert result["apart"] < 1e-9, "what runs is what the formulas say"
    assert all(output["model"] for output in result["outputs"].values()), result["outputs"]
    runs = {name: step["runs"] for name, step in result["steps"].items()}
    assert runs["split"] == WAVES + FILLING, "nothing is predicted from what has no numbers"
    for name, output in result["outputs"].items():
        assert 0 < output["skipped"] < WAVES + FILLING
        assert runs[name] == WAVES + FILLING - output["skipped"]
    assert not [entry for entry in (tmp_path / "demos").iterdir() if entry.is_dir()]


@pytest.mark.stack
@pytest.mark.soak
@pytest.mark.timeout(LIMIT)
def test_too_few_waves_are_said_and_nothing_is_pretended(tmp_path: Path) -> None:
    done = demo(tmp_path, "--waves", "3")
    assert done.returncode == 3, done.stderr
    assert "3 waves are too few to train and test on; 21 more are missing" in done.stderr
    result = json.loads(done.stdout)
    assert result["waves"] == 0
    assert not any(output["model"] for output in result["outputs"].values())
    assert not [entry for entry in (tmp_path / "demos").iterdir() if entry.is_dir()]
