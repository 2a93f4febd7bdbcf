"""Instances live below the user's data folder, under names that are safe as folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.local import InstanceNameError, LocalStackError, default_cache, default_home
from headgate.local.places import InstancePlaces


def test_headgate_home_comes_before_the_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("HEADGATE_HOME", "/named")
    assert default_home() == Path("/named")
    monkeypatch.delenv("HEADGATE_HOME")
    assert default_home() == Path("/data/headgate")


def test_without_settings_the_usual_folders_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADGATE_HOME", "HEADGATE_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert default_home() == Path.home() / ".local" / "share" / "headgate"
    assert default_cache() == Path.home() / ".cache" / "headgate"


def test_jars_lie_below_the_home_that_somebody_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADGATE_HOME", "HEADGATE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert default_cache(Path("/srv/stacks")) == Path("/srv/stacks/cache")
    monkeypatch.setenv("HEADGATE_HOME", "/named")
    assert default_cache() == Path("/named/cache")
    assert default_cache(Path("/srv/stacks")) == Path("/srv/stacks/cache")
    monkeypatch.setenv("HEADGATE_CACHE", "/jars")
    assert default_cache(Path("/srv/stacks")) == Path("/jars")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a b", "a" * 65])
def test_a_name_that_is_no_safe_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InstanceNameError):
        InstancePlaces(tmp_path, name)


def test_an_instance_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    places = InstancePlaces(tmp_path, "dev")
    places.create()
    assert places.folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_made_is_named_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalStackError, match="--home"):
        InstancePlaces(tmp_path / "file", "dev").create()
