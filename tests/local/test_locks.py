"""A lock belongs to a living process, never to a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.local import InstanceBusyError
from headgate.local.processes.locks import exclusive

HOLDER = """
import sys, time
from pathlib import Path
from headgate.local.processes.locks import exclusive
with exclusive(Path(sys.argv[1]), 0, print):
    print("held", flush=True)
    time.sleep(600)
"""


def hold(path: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_held_lock_is_refused_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path) as holder:
        try:
            with (
                pytest.raises(InstanceBusyError, match=f"process {holder.pid} "),
                exclusive(path, 0, lambda _: None),
            ):
                pass
        finally:
            holder.kill()


def test_waiting_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    told: list[str] = []
    with hold(path) as holder:
        try:
            with pytest.raises(InstanceBusyError), exclusive(path, 0.3, told.append):
                pass
        finally:
            holder.kill()
    assert len(told) == 1
    assert str(holder.pid) in told[0]


def test_the_lock_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path) as holder:
        holder.kill()
    with exclusive(path, 0, lambda _: None):
        assert path.exists()


def test_a_lock_is_free_after_its_body_failed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), exclusive(path, 0, lambda _: None):
        _ = 1 / 0
    with exclusive(path, 0, lambda _: None):
        pass
