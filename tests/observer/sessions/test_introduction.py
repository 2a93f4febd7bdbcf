"""Who an observer says that it is."""

from __future__ import annotations

import pytest

from headgate.observer.sessions.introduction import (
    Introduction,
    decode_introduction,
    encode_introduction,
)


@pytest.mark.parametrize("compiled", [True, False, None])
def test_an_introduction_is_understood_as_it_was_meant(compiled: bool | None) -> None:
    introduction = Introduction("o1", 7, compiled)
    assert decode_introduction(encode_introduction(introduction)) == introduction


def test_an_earlier_version_does_not_say_whether_it_is_compiled() -> None:
    assert decode_introduction(b'{"observer":"o1","epoch":7}') == Introduction("o1", 7)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"7", b"{}", b'{"observer":1,"epoch":7}'])
def test_what_is_no_introduction_is_nobodys(text: bytes) -> None:
    assert decode_introduction(text) is None
