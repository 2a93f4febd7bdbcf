"""The token that the agents of one user share without any setting."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headgate.agent.api.access import OwnTokens, find_token, user_token_file
from headgate.settings import ConfigurationError


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_first_agent_makes_a_token_that_agents_and_commands_find() -> None:
    assert find_token(None, {}, trusted=True) is None
    first = OwnTokens(None)
    assert OwnTokens(None).first() == first.first() == find_token(None, {}, trusted=True)
    assert find_token(None, {}, trusted=False) is None
    assert stat.S_IMODE(user_token_file().stat().st_mode) == 0o600
    assert len(first.first()) > 40


def test_one_that_others_may_read_starts_no_agent() -> None:
    token = OwnTokens(None).first()
    user_token_file().chmod(0o644)
    with pytest.raises(ConfigurationError, match="others may read") as raised:
        OwnTokens(None)
    assert token not in str(raised.value)


def test_one_that_was_removed_is_made_anew_and_the_one_before_is_none() -> None:
    tokens = OwnTokens(None)
    before = tokens.first()
    user_token_file().unlink()
    with capture_logs():
        assert tokens.caller(before) is None
    assert tokens.first() == find_token(None, {}, trusted=True) != before


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.token_file.*openssl rand"):
        OwnTokens(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
