"""Who an observer says that it is."""

from __future__ import annotations

import pytest

from headgate.observer.sessions.identification import (
    Identification,
    decode_identification,
    encode_identification,
)


@pytest.mark.parametrize("compiled", [True, False])
def test_an_introduction_is_understood_as_it_was_meant(compiled: bool) -> None:
    identification = Identification("o1", 7, compiled)
    assert decode_identification(encode_identification(identification)) == identification


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"7", b"{}", b'{"observer":"o1","epoch":7}'])
def test_what_is_no_introduction_is_nobodys(text: bytes) -> None:
    assert decode_identification(text) is None
