"""An agent that is pointed at something else than an observer's Thrift2 listener."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("where", "words"), [("hbase", "HBase itself"), ("thrift1", "Thrift1")])
def test_an_agent_ends_at_once_and_says_what_answers_there(
    make_scene: Any, tmp_path: Path, where: str, words: str
) -> None:
    stand = make_scene("report").stand
    address = str(stand.stack.thrift2)
    if where == "thrift1":
        with closing(stand.connect()) as connection:
            address = f"{connection.host}:{connection.port}"
    file = tmp_path / "agent.toml"
    file.write_text(
        f'api = "127.0.0.1:0"\n[hbase]\nthrift2 = "{address}"\n'
        f'[kafka]\nbootstrap = "{stand.stack.kafka}"\n[workers]\ndirectory = "{tmp_path}"\n'
    )
    command = [sys.executable, "-m", "headgate.cli", "agent", "--config", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert words in ended.stderr
    assert address in ended.stderr
    assert "Thrift2 listener of an observer" in ended.stderr
