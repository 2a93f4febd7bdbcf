"""``headgate exec`` runs what people write after it, or says what to write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OWN = Path(sys.executable)
SHOWN = "import sys; print(sys.executable, sys.argv)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(SHOWN)
    return tmp_path


def run(folder: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headgate.cli", "exec", *words],
        cwd=folder,
        env={
            **os.environ,
            "HEADGATE_CLIENT_KAFKA_BOOTSTRAP": "127.0.0.1:9092",
            "PATH": path or f"{OWN.parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("python", ["python", str(OWN)])
def test_a_leading_python_is_left_out(folder: Path, python: str) -> None:
    done = run(folder, python, "app.py", "--row", "1")
    assert done.stdout == f"{OWN} ['app.py', '--row', '1']\n", done.stderr


def test_another_python_is_refused_with_what_to_write(folder: Path) -> None:
    other = folder / "elsewhere" / "python3"
    other.parent.mkdir()
    other.symlink_to(OWN.resolve())
    done = run(folder, "python3", "app.py", "a b", path=str(other.parent))
    assert done.returncode == 1
    assert f"{other} is another Python than headgate's, {OWN}" in done.stderr
    assert "`headgate exec app.py 'a b'`" in done.stderr


def test_what_is_no_python_program_is_refused(folder: Path) -> None:
    binary = folder / "binary"
    binary.write_bytes(b"\x7fELF\0\0\0\0")
    binary.chmod(0o755)
    for word in ("./binary", "binary"):
        done = run(folder, word)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{word} is not a Python program" in done.stderr


def test_a_program_on_the_path_is_named_by_its_whole_path(folder: Path) -> None:
    script = folder / "bin" / "serve"
    script.parent.mkdir()
    script.write_text(f"#!{OWN}\n{SHOWN}\n")
    script.chmod(0o755)
    done = run(folder, "serve", "now", path=str(script.parent))
    assert f"`headgate exec {script} now`" in done.stderr
    assert run(folder, str(script), "now").stdout == f"{OWN} ['{script}', 'now']\n"
