"""The paper's evaluation in its quick form, on stands of its own."""

import json
import subprocess
import sys

import pytest

WAVES = 24
LIMIT = 3600  # seconds; minutes on an idle machine


@pytest.mark.stack
@pytest.mark.soak
@pytest.mark.timeout(LIMIT)
def test_the_quick_evaluation_runs_for_real_as_it_is_replayed(tmp_path):
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "headgate.cli", "demo", "evaluation", "--quick"]
    done = subprocess.run(
        [*command, "--home", str(tmp_path), "--report", str(report)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    print(f"{result['seconds']} s on {result['machine']}")
    assert result["waves"] == WAVES

    checks = result["checks"]
    assert {trend: check["disagreement"] for trend, check in checks.items()} == {
        "increasing": [],
        "uniform": [],
    }
    bounded = checks["uniform"]
    assert bounded["real_setting"] == "all 80"
    assert bounded["real_runs"] == bounded["replayed_runs"]
    assert 0 < bounded["real_runs"]["index"] < bounded["real_runs"]["zones"] < WAVES
    assert bounded["index_apart_points"] < 1e-9

    for step, by_sigma in result["figures"].items():
        runs = {sigma: figure["executions_percent"] for sigma, figure in by_sigma.items()}
        assert 100 >= runs["20"] > runs["80"] > 0, f"{step}: executions fall as the bound grows"
    assert "<svg" in report.read_text(encoding="utf-8")
