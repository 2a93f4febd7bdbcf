"""What is kept and shown of text that clients give: names are theirs to invent, of any length.

Tables, methods and origins are refused from a certain length on where they are read. What is
shorter is excerpted here wherever it stays: as a metric's label, in the log, in a cache's key.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

LABEL: Final = 200
"""Characters of a name: longer than people's, and a thousand of them are no burden to anybody."""
FIELD: Final = 2_000
"""Characters of one field in a line of the log: a sentence with some names in it."""
_LISTED: Final = 100  # entries of a list in a line of the log


def excerpt(text: str, most: int = LABEL) -> str:
    """Return a text of at most ``most`` characters: the text, or its beginning and what it was.

    Two long texts with one beginning keep different excerpts, by their checksums.
    """
    if len(text) <= most:
        return text
    checksum = zlib.crc32(text.encode("utf-8", "backslashreplace"))
    end = f"... ({len(text)} characters, crc32 {checksum:08x})"
    return text[: most - len(end)] + end


def excerpts(texts: Sequence[object]) -> list[object]:
    """Return the entries of a list for a line of the log, and how many more there are."""
    found: list[object] = [
        excerpt(each) if isinstance(each, str) else each for each in texts[:_LISTED]
    ]
    if len(texts) > _LISTED:
        found.append(f"... ({len(texts) - _LISTED} more)")
    return found
