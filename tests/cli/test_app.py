"""Commands are imported only when they are called."""

from __future__ import annotations

import subprocess
import sys

from headgate.events import RELEASE


def run(*arguments: str, before: str = "", environment: dict[str, str] | None = None):
    program = f"{before}\nfrom headgate.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def watch_imports(*rooms: str) -> str:
    """Return a program that prints at its end which of these were imported."""
    return f"""
import atexit, sys
atexit.register(lambda: print("imported:", [room for room in {rooms} if room in sys.modules]))
"""


WATCH_IMPORTS = watch_imports(
    "headgate.local", "headgate.observer", "headgate.agent", "headgate.spark", "pyspark"
)
WATCH_NUMBERS = watch_imports(
    "numpy", "pyarrow", "headgate.engine", "headgate.learning", "headgate.incremental"
)

WITHOUT_PSUTIL = """
import sys
sys.modules["psutil"] = None
"""


def test_help_imports_no_room() -> None:
    done = run("--help", before=WATCH_IMPORTS)
    assert done.returncode == 0
    assert "imported: []" in done.stdout


def test_a_command_imports_its_own_room_only() -> None:
    done = run("local", "--help", before=WATCH_IMPORTS)
    assert "imported: ['headgate.local']" in done.stdout


def test_who_asks_an_agent_waits_for_no_library_of_numbers() -> None:
    done = run("flow", "list", "--agent", "127.0.0.1:1", before=WATCH_NUMBERS)
    assert "no agent answers at 127.0.0.1:1" in done.stderr
    assert "imported: []" in done.stdout


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"headgate {RELEASE}\n"


def test_a_misspelt_command_is_answered_with_the_one_meant() -> None:
    done = run("locl")
    assert done.returncode == 2
    assert "'local'" in done.stderr


def test_a_missing_extra_is_named_with_how_to_install_it() -> None:
    done = run("local", "status", before=WITHOUT_PSUTIL)
    assert done.returncode == 1
    assert "psutil is not installed" in done.stderr
    assert "headgate[local]" in done.stderr
