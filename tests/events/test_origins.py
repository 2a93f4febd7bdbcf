"""An origin as any program may write it, in JSON, and as Headgate's own programs do."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import Origin, decode_origin, encode_origin, encode_origin_text

_NAME = st.text(min_size=1, max_size=8)
_TOKEN = st.integers(1, 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"writer": "etl"}', Origin("", "", "", 0, "etl")),
        ('{"dataflow": "air"}', Origin("air", "", "", 0)),
        ('{"dataflow": "air", "action": "feed"}', Origin("air", "feed", "", 0)),
        (
            '{"token": 7, "run": "r-1", "action": "zones", "dataflow": "air"}',
            Origin("air", "zones", "r-1", 7),
        ),
        (' \n{"writer":"\\u00fc","since a later version":{"of":[1]}}', Origin("", "", "", 0, "ü")),
    ],
)
def test_an_origin_is_an_object_of_json(text: str, meant: Origin) -> None:
    assert decode_origin(text.encode()) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "air/feed",
        "{}",
        "[]",
        "7",
        '{"action": "feed"}',
        '{"dataflow": "air", "run": "r-1", "token": 7}',
        '{"dataflow": "air", "action": "zones", "run": "r-1"}',
        '{"dataflow": "air", "action": "zones", "token": 7}',
        '{"dataflow": "air", "action": "zones", "run": "r-1", "token": -1}',
        '{"dataflow": "air", "action": "zones", "run": "r-1", "token": 9223372036854775808}',
        '{"dataflow": "air", "writer": "etl"}',
        '{"writer": "etl", "token": 7}',
        '{"writer": 7}',
        '{"writer": "\\ud800"}',
        '{"writer": "etl"} \x00',
        '{"writer": "etl", "x": ' + "[" * 100_000,
    ],
)
def test_what_is_no_origin_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"headgate\.origin holds no origin.*write \{"):
        decode_origin(text.encode())


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no origin"):
        decode_origin(b'{"writer": "\xff"}')


@given(
    st.builds(Origin, _NAME, _NAME, _NAME, _TOKEN)
    | st.builds(Origin, _NAME, st.just("") | _NAME, st.just(""), st.just(0))
    | st.builds(Origin, st.just(""), st.just(""), st.just(""), st.just(0), _NAME)
)
def test_both_forms_say_the_same(origin: Origin) -> None:
    text = encode_origin_text(origin).encode()
    assert decode_origin(text) == decode_origin(encode_origin(origin)) == origin
    assert decode_origin(json.dumps(json.loads(text)).encode()) == origin


def test_what_earlier_programs_sent_is_read_whatever_it_holds() -> None:
    """A run without a token was sent by them, too."""
    packed = msgspec.msgpack.encode(["air", "zones", "r-1", 0])
    assert decode_origin(packed) == Origin("air", "zones", "r-1", 0)


@pytest.mark.parametrize("form", [encode_origin, lambda each: encode_origin_text(each).encode()])
def test_an_origin_longer_than_names_are_is_refused(form) -> None:
    whole = Origin("", "", "", 0, "w" * 4000)
    assert decode_origin(form(whole)) == whole
    with pytest.raises(ValueError, match="4096 at most"):
        decode_origin(form(Origin("", "", "", 0, "w" * 4097)))
