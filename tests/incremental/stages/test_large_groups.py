"""One group that is many times larger than what a process keeps of it in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SIZES = (20_000, 100_000)
"""Rows that come for the group in each of three increments; all are more than a portion has."""


def test_a_group_of_five_times_the_rows_takes_little_more_memory(tmp_path: Path) -> None:
    program = Path(__file__).with_name("large_group.py")
    command = [sys.executable, str(program), "group", "right", str(tmp_path), *map(str, SIZES)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    small, large = json.loads(told)
    for found, size in zip((small, large), SIZES, strict=True):
        came = size + 200
        assert found["made"] == [[rows, came] for rows in (came, 2 * came, 5 * came // 2)]
        assert found["rows"] == 5 * came // 2
    # The most that Arrow has had so far. The small group does not fill all portions; the state of
    # the large one has 25 MB.
    assert large["memory"] < 2 * small["memory"]
    assert large["memory"] < 9 << 20
