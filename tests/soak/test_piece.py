"""A short piece of the soak. What hours find, the program beside finds: ``run.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from soaking.clocks import ClocksMissing, Faketime

PROGRAM = Path(__file__).with_name("run.py")
SIX_MINUTES = "6"


@pytest.mark.stack
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_six_minutes_leave_everything_right(tmp_path: Path) -> None:
    clocks = [] if _has_clocks(tmp_path) else ["--without-clocks"]
    command = [sys.executable, str(PROGRAM), "--minutes", SIX_MINUTES, "--seed", "7", *clocks]
    done = subprocess.run(
        [*command, "--home", str(tmp_path / "home")], stdout=subprocess.PIPE, text=True, check=False
    )
    print(done.stdout)
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["verdict"] == "right", last
    assert done.returncode == 0


def _has_clocks(folder: Path) -> bool:
    try:
        Faketime(folder)
    except ClocksMissing:
        return False
    return True
