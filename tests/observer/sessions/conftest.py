"""Scenes of sessions, with a journal that has room or is full."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import JournalSettings, WhenFull

if TYPE_CHECKING:
    from scene import Scene

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture
def scene(tmp_path: Path, make_bench) -> Scene:
    from scene import Scene

    return Scene(tmp_path, make_bench(), Dialect.THRIFT1, JournalSettings(str(tmp_path)))


@pytest.fixture
def second(tmp_path: Path, make_bench) -> Scene:
    """Of the second dialect."""
    from scene import Scene

    return Scene(tmp_path, make_bench(), Dialect.THRIFT2, JournalSettings(str(tmp_path)))


def full(tmp_path: Path, make_bench, policy: WhenFull) -> Scene:
    from scene import OK, Scene, put

    config = JournalSettings(
        str(tmp_path), limit_bytes=150, segment_bytes=100, when_full=policy, block_seconds=5.0
    )
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT1, config)
    session, _, _ = scene.connect()
    session.data_received(put(b"filling"))
    session.reply_received(OK)
    scene.work()
    return scene


@pytest.fixture
def blocking(tmp_path: Path, make_bench) -> Scene:
    return full(tmp_path, make_bench, WhenFull.BLOCK)


@pytest.fixture
def passing(tmp_path: Path, make_bench) -> Scene:
    return full(tmp_path, make_bench, WhenFull.PASS)
