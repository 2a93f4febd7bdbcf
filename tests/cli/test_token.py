"""``headgate token``: tokens for others, of which agents keep the hash alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.agent import Role
from headgate.agent.api.access import Caller, TokenFile
from headgate.cli.app import app


def test_a_token_is_known_by_a_file_that_does_not_contain_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    made = {}
    for name, role in (("alice", Role.OPERATE), ("bob@example", Role.DEFINE)):
        arguments = ["token", name, "--role", role.value, "--file", str(file)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        made[result.stdout.strip()] = Caller(name, role)
    known = TokenFile(file)
    assert len(made) == 2
    for token, caller in made.items():
        assert known.caller(token) == caller
        assert token not in file.read_text()
        assert known.caller(token[:-1]) is None


def test_a_file_keeps_its_mode_and_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("# ours\n")
    file.chmod(0o640)
    assert CliRunner().invoke(app, ["token", "alice", "--file", str(file)]).exit_code == 0
    assert file.read_text().startswith("# ours\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.toml"]


def test_a_spoiled_file_and_a_wrong_name_are_told(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text("[[tokens]]\nname = 1\n")
    result = CliRunner().invoke(app, ["token", "alice", "--file", str(file)])
    assert result.exit_code == 1
    assert f"{file}:2" in result.stderr
    result = CliRunner().invoke(app, ["token", "al ice\n"])
    assert result.exit_code == 1
    assert "names nobody" in result.stderr


@pytest.mark.parametrize("role", Role)
def test_without_a_file_the_entry_is_told(tmp_path: Path, role: Role) -> None:
    result = CliRunner().invoke(app, ["token", "alice", "--role", role.value])
    (tmp_path / "tokens.toml").write_text(result.stderr.partition("\n")[2])
    caller = TokenFile(tmp_path / "tokens.toml").caller(result.stdout.strip())
    assert caller == Caller("alice", role)

    told = json.loads(CliRunner().invoke(app, ["token", "alice", "--json"]).stdout)
    assert set(told) == {"token", "entry"}
    assert told["entry"]["role"] == "read"
