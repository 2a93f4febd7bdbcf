"""A very small demonstration on a stand of its own, again at once after a ``kill -9``."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from aqhi.generator import Trend, generate
from aqhi.grid import Grid

SIDE = 8
WAVES = 3
SIGMAS = (20, 120)
SEED = 1
STAND_VARIABLE = "HEADGATE_DEMO_STAND"
LIMIT = 900  # seconds; half a minute on an idle machine


def demo(home, *arguments):
    command = [sys.executable, "-m", "headgate.cli", "demo", "aqhi"]
    size = ["--waves", str(WAVES), "--grid", str(SIDE), "--seed", str(SEED)]
    return [*command, *size, "--home", str(home), *arguments]


def processes_of(home):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(STAND_VARIABLE, "").startswith(str(home)):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def stands(home):
    return [entry for entry in (home / "demos").iterdir() if entry.is_dir()]


def expected_runs(sigma):
    """Runs of step C: each as soon as the detectors that B wrote since the last reach σ."""
    detectors = SIDE * SIDE
    runs, reported, computed = 0, [], 0
    for wave in generate(Grid(SIDE), WAVES, SEED, Trend.UNIFORM):
        reported += wave.detectors.tolist()
        if 100 * len(reported) / detectors >= 5:
            computed += len(set(reported))
            reported = []
        if 100 * computed / detectors >= sigma:
            runs, computed = runs + 1, 0
    return runs


@pytest.mark.stack
@pytest.mark.timeout(3 * LIMIT)
def test_a_demo_that_was_killed_leaves_nothing_and_the_next_one_ends_well(tmp_path):
    killed = subprocess.Popen(
        demo(tmp_path, "--report", str(tmp_path / "no.html")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert killed.stdout is not None
    assert any("dataflows: submitting" in line for line in killed.stdout)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()

    report = tmp_path / "report.html"
    sigmas = [part for sigma in SIGMAS for part in ("--sigma", str(sigma))]
    done = subprocess.run(
        demo(tmp_path, "--report", str(report), "--json", *sigmas),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["report"] == str(report)
    assert report.read_text(encoding="utf-8").count("<svg") == 4 + len(SIGMAS)

    runs = [way["steps"]["zones"]["runs"] for way in result["ways"]]
    assert runs == [expected_runs(sigma) for sigma in SIGMAS]
    assert runs[0] > runs[1], "executions fall as the bound grows"
    for way in result["ways"]:
        assert all(step["runs_synchronous"] == WAVES for step in way["steps"].values())
    apart = float(result["conditions"]["check"].rpartition(" ")[2])
    assert apart < 1e-9, "Spark's synchronous outputs are those of the formulas"

    assert not stands(tmp_path), "both are removed"
    assert not processes_of(tmp_path)


@pytest.mark.stack
@pytest.mark.timeout(LIMIT)
def test_an_interrupt_ends_everything(tmp_path):
    interrupted = subprocess.Popen(
        demo(tmp_path, "--report", str(tmp_path / "no.html")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert interrupted.stdout is not None
    assert any("kafka: starting" in line for line in interrupted.stdout)
    time.sleep(0.5)
    os.kill(interrupted.pid, signal.SIGINT)
    rest = interrupted.stdout.read()
    assert interrupted.wait() == 130
    assert "everything that was started has ended" in rest
    assert not processes_of(tmp_path)
    assert not stands(tmp_path)


@pytest.mark.stack
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "--data must name the folder"),
        (["--sigma", "0"], "sigma"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_started(tmp_path, arguments, message):
    done = subprocess.run(
        demo(tmp_path, *arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert message in " ".join((done.stdout + done.stderr).split())
    assert not (tmp_path / "demos").exists()
