"""What a killed demonstration leaves is removed; what is in use or kept stays."""

import fcntl
import os

import pytest

from headgate.cli.demo import services as demo_services
from headgate.local import Progress


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "demos" / "1-abc"
    folder.mkdir(parents=True)
    (folder / "owner").touch()
    return folder


def remove_left(folder):
    told: list[Progress] = []
    demo_services._remove_left(folder.parent, told.append)
    return [progress.text for progress in told]


def test_a_stand_whose_owner_is_gone_is_removed_and_told(folder):
    (folder / "journal").mkdir()
    assert remove_left(folder) == [f"removing what a killed demo left: {folder}"]
    assert not folder.exists()


def test_a_stand_without_an_owner_s_lock_file_is_left_over_too(folder):
    (folder / "owner").unlink()
    remove_left(folder)
    assert not folder.exists()


def test_a_stand_whose_demo_runs_stays(folder):
    owner = os.open(folder / "owner", os.O_RDWR)
    fcntl.flock(owner, fcntl.LOCK_EX)
    try:
        assert remove_left(folder) == []
        assert folder.exists()
    finally:
        os.close(owner)


def test_a_stand_that_was_kept_stays(folder):
    (folder / "kept").touch()
    assert remove_left(folder) == []
    assert folder.exists()


def test_variables_are_put_back(monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Da=b")
    monkeypatch.delenv("HEADGATE_DEMO_STAND", raising=False)
    with demo_services._appended("JAVA_TOOL_OPTIONS", "-Dc=d"):
        assert os.environ["JAVA_TOOL_OPTIONS"] == "-Da=b -Dc=d"
        with demo_services._variable("HEADGATE_DEMO_STAND", "here"):
            assert os.environ["HEADGATE_DEMO_STAND"] == "here"
    assert os.environ["JAVA_TOOL_OPTIONS"] == "-Da=b"
    assert "HEADGATE_DEMO_STAND" not in os.environ
