r"""The text of keys: rows and qualifiers are bytes, and text stands for them without loss.

UTF-8 text stands for itself, control characters included. Every other byte, and the backslash, is
written ``\xNN`` with capital digits, as HBase's shell writes bytes. Where text is read, both
spellings of a byte name one key: ``\xc3\xa9``, ``\xC3\xA9`` and ``é`` are the same.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

REST_OF_ROW: Final = b""
"""The column of a change that stands for all cells of its row that are gone and that no other
change names: a delete of a row or family reaches columns that its container does not declare."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = re.compile(r"\\x([0-9A-Fa-f]{2})")
_TYPED: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|\\)?")
_SPELLED: Final = {
    0x5C: r"\x5C",
    # What `surrogateescape` makes of bytes that are not UTF-8.
    **{0xDC00 + byte: f"\\x{byte:02X}" for byte in range(0x80, 0x100)},
}


class KeyForm(StrEnum):
    """How a container's rows and qualifiers come to a step."""

    TEXT = "text"
    """Texts, as ``key_text`` writes them."""
    BINARY = "binary"
    """Bytes, unchanged."""


class UnreadableKey(ValueError):
    """A text that names no key."""


def key_text(key: bytes) -> str:
    r"""Return the text of a key, of which ``key_bytes`` returns the key.

    ``b"caf\xc3\xa9"`` is ``café``, ``b"\xff\\"`` is ``\xFF\x5C``.
    """
    if b"\\" not in key:
        try:
            return key.decode()
        except UnicodeDecodeError:
            pass
    return key.decode("utf-8", "surrogateescape").translate(_SPELLED)


def is_unicode(text: str) -> bool:
    """Return whether a text is Unicode text: it has no half of a surrogate pair."""
    return not _SURROGATE.search(text)


def key_bytes(text: str) -> bytes:
    r"""Return the key that a text names.

    A backslash that does not begin ``\xNN`` stands for itself, as it does for HBase's shell.

    Raises:
        UnreadableKey: the text has half of a surrogate pair, which is not Unicode text.
    """
    if "\\" not in text:
        return _utf8(text)
    parts: list[bytes] = []
    end = 0
    for escaped in _ESCAPED.finditer(text):
        parts += (_utf8(text[end : escaped.start()]), bytes.fromhex(escaped[1]))
        end = escaped.end()
    return b"".join((*parts, _utf8(text[end:])))


def typed_key(text: str) -> bytes:
    r"""Return the key that a text names which somebody wrote by hand, as in a dataflow file.

    A backslash is written ``\\`` or ``\x5C``. One that begins neither is taken for a slip.

    Raises:
        UnreadableKey: a backslash stands alone, or the text is not Unicode text.
    """
    parts: list[bytes] = []
    end = 0
    for escape in _TYPED.finditer(text):
        parts.append(_utf8(text[end : escape.start()]))
        end = escape.end()
        match escape[1]:
            case None:
                message = f"a lone backslash in `{text}`"
                raise UnreadableKey(message)
            case "\\":
                parts.append(b"\\")
            case code:
                parts.append(bytes.fromhex(code[1:]))
    return b"".join((*parts, _utf8(text[end:])))


def printable_key(key: bytes) -> str:
    r"""Return the text of a key for a terminal or a log: what is not printable is ``\xNN``, too.

    It names the same key as ``key_text`` does.
    """
    text = key_text(key)
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else "".join(f"\\x{byte:02X}" for byte in character.encode())
        for character in text
    )


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"{text!a:.200} is not Unicode text: write the bytes as \\xNN"
        raise UnreadableKey(message) from error
