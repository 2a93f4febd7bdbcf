"""Keys that agents share: signatures, files with several, and the one that is made by itself."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.settings import ConfigurationError, KeyRing, key_path, read_keys, shared_keys

PARTS = st.lists(st.binary(max_size=6), max_size=4)
FIRST = b"1" * 32
SECOND = b"2" * 32


@given(PARTS, PARTS)
def test_a_signature_is_of_exactly_these_parts(signed: list[bytes], others: list[bytes]) -> None:
    ring = KeyRing([FIRST])
    assert ring.believes(ring.sign(*signed), *others) == (signed == others)


@given(st.integers(0, 39), st.integers(1, 255))
def test_a_signature_with_another_byte_is_none(place: int, change: int) -> None:
    ring = KeyRing([FIRST])
    signature = bytearray(ring.sign(b"part"))
    signature[place] ^= change
    assert not ring.believes(bytes(signature), b"part")


@pytest.mark.parametrize("signature", [b"", b"x", KeyRing([FIRST]).sign(b"part")[:-1]])
def test_a_part_of_a_signature_is_none(signature: bytes) -> None:
    assert not KeyRing([FIRST]).believes(signature, b"part")


def test_the_first_key_signs_and_each_is_believed() -> None:
    both = KeyRing([FIRST, SECOND])
    assert KeyRing([FIRST]).believes(both.sign(b"part"), b"part")
    assert both.believes(KeyRing([SECOND]).sign(b"part"), b"part")
    assert not KeyRing([FIRST]).believes(KeyRing([SECOND]).sign(b"part"), b"part")


def test_a_file_holds_keys_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"# since May\r\n\n  " + SECOND + b"  \r\n" + FIRST)
    ring = read_keys(file)
    assert ring.sign(b"part") == KeyRing([SECOND]).sign(b"part")
    assert ring.believes(KeyRing([FIRST]).sign(b"part"), b"part")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# none\n", b"secret\n", FIRST + b"\nshort"])
def test_a_file_without_a_good_key_is_refused_with_the_command_that_makes_one(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"key.*openssl rand -hex 32") as error:
        read_keys(file)
    assert "secret" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=str(tmp_path / "key")):
        shared_keys(str(tmp_path / "key"))


def test_the_first_agent_of_a_user_makes_the_key_and_the_next_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    signature = shared_keys("").sign(b"part")
    assert shared_keys("").believes(signature, b"part")
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
