"""Who an observer says that it is."""

from __future__ import annotations

import pytest

from headgate.observer.sessions.identification import (
    Identification,
    decode_identification,
    encode_identification,
)


@pytest.mark.parametrize("compiled", [True, False, None])
def test_an_introduction_is_understood_as_it_was_meant(compiled: bool | None) -> None:
    identification = Identification("o1", 7, compiled)
    assert decode_identification(encode_identification(identification)) == identification


def test_an_earlier_version_does_not_say_whether_it_is_compiled() -> None:
    assert decode_identification(b'{"observer":"o1","epoch":7}') == Identification("o1", 7)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"7", b"{}", b'{"observer":1,"epoch":7}'])
def test_what_is_no_introduction_is_nobodys(text: bytes) -> None:
    assert decode_identification(text) is None
