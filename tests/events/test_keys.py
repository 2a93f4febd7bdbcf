"""Text of keys: every byte string comes back, and both spellings of a byte are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import UnreadableKey, key_bytes, key_text, printable_key, typed_key

KEYS = (
    st.binary(max_size=40)
    | st.text(max_size=20).map(str.encode)
    | st.lists(
        st.sampled_from(
            [b"\\", b"x", b"4", b"1", b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\0", "é".encode()]
        )
    ).map(b"".join)
)


@given(KEYS)
def test_every_key_comes_back_from_its_text(key):
    text = key_text(key)

    assert key_bytes(text) == key
    assert typed_key(text) == key
    assert text.encode().decode() == text, "it is Unicode text"


@given(KEYS)
def test_every_key_comes_back_from_its_printable_text(key):
    text = printable_key(key)

    assert text.isprintable()
    assert key_bytes(text) == key


@given(KEYS, st.data())
def test_every_spelling_of_a_key_names_it(key, data):
    spelled = "".join(
        data.draw(st.sampled_from([f"\\x{byte:02x}", f"\\x{byte:02X}"])) for byte in key
    )

    assert key_bytes(spelled) == key
    assert typed_key(spelled) == key


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"plain", "plain"),
        ("Straße\n".encode(), "Straße\n"),
        (b"\xff", r"\xFF"),
        (b"a\\b", r"a\x5Cb"),
        (b"caf\xc3", r"caf\xC3"),
        (b"\xed\xa0\x80", r"\xED\xA0\x80"),  # half of a surrogate pair
        (b"\xc0\x80", r"\xC0\x80"),  # a zero byte spelled too long
    ],
)
def test_text_stays_and_all_else_is_escaped(key, text):
    assert key_text(key) == text


def test_a_backslash_that_escapes_nothing_stands_for_itself():
    assert key_bytes("C:\\dir\\x4") == b"C:\\dir\\x4"
    assert key_bytes("\\\\") == b"\\\\"


def test_by_hand_a_backslash_is_written_twice_or_escaped():
    assert typed_key(r"a\\b\x5Cc") == b"a\\b\\c"
    with pytest.raises(UnreadableKey, match="lone backslash"):
        typed_key("a\\b")


@pytest.mark.parametrize("read", [key_bytes, typed_key])
def test_half_of_a_surrogate_pair_is_no_key(read):
    with pytest.raises(UnreadableKey, match=r"write the bytes as \\xNN"):
        read("\ud800")
