"""Secrets that processes of one user share by a file."""

from __future__ import annotations

import os
import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from headgate.settings import SecretFileError, find_secret, provide_secret, state_folder


def new() -> bytes:
    return secrets.token_bytes(32)


def test_the_folder_is_the_one_that_the_user_chose_for_state(tmp_path: Path) -> None:
    assert state_folder({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "headgate"
    assert state_folder({}) == Path("~/.local/state/headgate").expanduser()


def test_a_secret_is_made_once_and_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "headgate" / "token"
    assert find_secret(path) is None
    made = provide_secret(path, new, "name one")

    assert provide_secret(path, new, "name one") == made == find_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["token"]


def test_all_who_make_it_at_once_have_the_same(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / str(attempt) / "token"
        together = Barrier(8)

        def make(path: Path = path, together: Barrier = together) -> bytes:
            def slow() -> bytes:
                together.wait()  # nobody has found one when all make theirs
                return new()

            return provide_secret(path, slow, "name one")

        with ThreadPoolExecutor(8) as threads:
            made = [each.result() for each in [threads.submit(make) for _ in range(8)]]
        assert set(made) == {path.read_bytes()}
        assert [each.name for each in path.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_secret_that_others_may_read_or_change_is_none(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"known to others")
    path.chmod(mode)
    with pytest.raises(SecretFileError, match=f"mode {mode:04o}.*chmod 600") as raised:
        provide_secret(path, new, "name one")
    assert "known" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\n", bytes(65537)])
def test_a_file_without_a_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(SecretFileError, match="no secret in it; remove it"):
        find_secret(path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SecretFileError, match="no file"):
        find_secret(tmp_path)


def test_where_none_can_be_made_the_cure_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SecretFileError, match=r"cannot be made \(.*\); set token_file"):
        provide_secret(tmp_path / "file" / "token", new, "set token_file")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_secret_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    provide_secret(path, new, "name one")
    os.chown(path, 12345, 12345)
    with pytest.raises(SecretFileError, match="belongs to user 12345"):
        find_secret(path)
