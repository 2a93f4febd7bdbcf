"""Two weeks of Beijing's air on a stand of its own, against the replay of what Spark computed."""

import json
import subprocess
import sys

import pytest

HOURS = 336
LIMIT = 3600  # seconds


@pytest.mark.stack
@pytest.mark.soak
@pytest.mark.timeout(LIMIT)
def test_two_weeks_run_for_real_as_they_are_replayed(tmp_path):
    command = [sys.executable, "-m", "headgate.cli", "demo", "beijing"]
    size = ["--hours", str(HOURS), "--real-hours", str(HOURS), "--sigma", "200"]
    done = subprocess.run(
        [*command, *size, "--home", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["checks"]["formulas_apart_points"] < 1e-9
    real = result["real"]
    assert real["hours"] == HOURS
    assert real["disagreement"] == {}
    assert real["runs"] == real["replayed_runs"]
    assert real["index_apart_points"] < 1e-9
    assert 0 < real["runs"]["index"] < real["runs"]["zones"] < HOURS
