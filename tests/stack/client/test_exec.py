"""``headgate exec``: untouched programs whose writes become events."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack

EXEC = ("-m", "headgate.cli", "exec")

PROGRAM = """
import os, sys
import happybase
from happybase.connection import Connection
import happybase.pool
assert __name__ == "__main__"
port = int(os.environ["THRIFT1_PORT"])
pool = happybase.pool.ConnectionPool(1, host=os.environ["THRIFT1_HOST"], port=port)
with pool.connection() as connection:
    assert type(connection) is Connection is happybase.Connection
    connection.table(sys.argv[1]).put(sys.argv[2].encode(), {b"f:a": b"1"})
"""


def test_an_untouched_program_makes_events(stack, programs) -> None:
    table = stack.table("exec")
    programs.watch(table)
    assert programs.run(PROGRAM, table, "--row", through=EXEC).returncode == 0
    assert programs.cells(table) == [(b"--row", b"f:a", b"1")]


def test_python_programs_that_it_starts_make_events_too(stack, programs) -> None:
    table = stack.table("exec")
    programs.watch(table)
    child = programs.command(PROGRAM, table, "child")
    program = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
    assert programs.run(program, *child, through=EXEC).returncode == 0
    assert programs.cells(table) == [(b"child", b"f:a", b"1")]


def test_what_a_program_sees_of_python_is_the_same(programs) -> None:
    program = """
import os, sys
print(__name__, sys.argv, sys.path, sys.flags.dev_mode, "headgate.client" in sys.modules)
print(globals()["__file__"], sys.orig_argv[1:])
raise SystemExit(5) if len(sys.argv) > 1 else ValueError("as it is")
"""
    command = programs.command(program)
    for words in (["-X", "dev", *command, "-c", "--config"], command):
        ran = [
            subprocess.run(
                [sys.executable, *through, *words],
                env=programs.environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            for through in ((), EXEC)
        ]
        plain, swapped = [(each.returncode, each.stdout, each.stderr) for each in ran]
        assert swapped == plain
        assert plain[0] == (5 if len(words) > 1 else 1)


def test_python_that_ignores_the_environment_is_refused(programs) -> None:
    ended = programs.run("", through=(*EXEC, "-I"))
    assert ended.returncode == 1
    assert "-I" in ended.stderr
    assert "drop-in" in ended.stderr


def test_a_configuration_that_cannot_be_used_is_told_at_once(programs, tmp_path: Path) -> None:
    config = tmp_path / "client.toml"
    config.write_text('[kafka]\nbootstrap = "127.0.0.1:9"\npartition = 3\n', encoding="utf-8")
    ended = programs.run("", through=(*EXEC, "--config", str(config)))
    assert ended.returncode == 1
    assert "client.toml:3: unknown key 'kafka.partition'" in ended.stderr
    assert "Traceback" not in ended.stderr
