"""Values as strangers write them: numbers in every spelling, and what only looks like one."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from headgate.engine import Codec, CodecName

DEEP = b'{"v":' + b"[" * 1_100 + b"1" + b"]" * 1_100 + b"}"

_WORDS = st.sampled_from(
    (
        *(b"", b" ", b"-", b".", b"inf", b"-Infinity", b"nan", b"nan(1)", b"NaN", b"n/a", b"true"),
        *(b"1_000", b"1_0.5", b"0x10", b"0X1F", b"-0x5", b"1d", b"5f", b"0x1p3", b"12,5", b"007"),
        *(b"1234567890,1234567890", b",", b"1,"),
        *(b"1e400", b"-1e400", b"1e-400", b"1e300", b"1e5", b"1e", b"1E+05", b"0e-99999999999"),
        *(b"9" * 400, b"9" * 5_000, b"0." + b"0" * 400 + b"1", b"1" + b"0" * 400 + b"e-400"),
        *(b"9007199254740993", b"9007199254740993.0", b"9007199254740993.5", b"1.5", b"2.0"),
        *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-0"),
        *(b" 5 ", b"\t5\n", b"\x0b5\x0c", b"\xc2\xa01", b"\xef\xbb\xbf1", b"+1", b"1.", b".5"),
        *(b"1\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xd9\xa1", b"1e-99999999999999999999"),
    )
)
_SPELLED = st.from_regex(
    rb"[ \t]?[+-]?[0-9_]{0,20}\.?[0-9_]{0,6}([eE][+-]?[0-9]{1,4})?[ d]?", fullmatch=True
)
_TEXT = (
    _WORDS
    | _SPELLED
    | st.floats().map(lambda n: repr(n).encode())
    | st.integers().map(lambda n: b"%d" % n)
)


def _document(inner: bytes) -> bytes:
    return b'{"v":' + inner + b"}"


_DOCUMENTS = st.one_of(
    _TEXT.map(_document),
    _TEXT,
    st.sampled_from(
        [DEEP, b"[" * 257 + b"]" * 257, b'{"v":true}', b'{"v":null}', b'{"v":"1"}', b"{}"]
    ),
    st.integers(1, 1_200).map(lambda n: _document(b"[" * n + b"1" + b"]" * n)),
    st.integers(1, 1_200).map(lambda n: b'{"a":' + b"[" * n + b"]" * n + b',"v":1}'),
    st.sampled_from([b'{"v":1,"v":2}', b'{"v":"[[[[","w":1}', b'{"v":1}x', b'{"v":1']),
)


def _of_width(width: int) -> st.SearchStrategy[bytes]:
    numbers = st.binary(min_size=width, max_size=width)
    if width == struct.calcsize(">d"):
        numbers |= st.floats().map(lambda n: struct.pack(">d", n))
    if width == struct.calcsize(">f"):
        numbers |= st.floats(width=32).map(lambda n: struct.pack(">f", n))
    return numbers


def values_of(codec: Codec) -> st.SearchStrategy[bytes]:
    """Return values that the codec may be given, most of which it can read."""
    if codec.name is CodecName.JSON:
        return _DOCUMENTS
    if codec.layout is None:
        return _TEXT
    return st.one_of(*[_of_width(codec.layout.width)] * 4, st.binary(max_size=9), _WORDS)


CODECS = tuple(
    Codec(name, "v" if name is CodecName.JSON else "")
    for name in CodecName
    if name is not CodecName.OPAQUE
)
"""Every codec that has numbers."""
