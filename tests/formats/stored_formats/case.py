"""A sample of a stored format: how it is written and read, and what it means."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).resolve().parent.parent / "samples"


class Case(NamedTuple):
    """A sample of one version of a format."""

    format: str
    """Name of the ``StoredFormat``."""
    name: str
    """Of the sample's file."""
    read: Callable[[bytes], object]
    """Has the product read the sample."""
    meaning: Callable[[], object]
    """Returns what that gives."""
    write: Callable[[], bytes] | None = None
    """Has the product write the sample; None for versions that it does not write any more."""
    plain: Callable[[bytes], object] = bytes
    """Returns what of the bytes has to be the same, where not all of them: what a compressor or a
    library of files makes of it may differ between its versions."""
    newer: Callable[[bytes], bytes] | None = None
    """Makes the sample one of the next version; None where ``docs/stored-formats.md`` says why the
    format has none."""
    version: int = 1

    @property
    def path(self) -> Path:
        """The sample's file."""
        folder = SAMPLES / self.format.replace(" ", "-") / f"version-{self.version}"
        return folder / self.name


def value(meaning: object) -> Callable[[], object]:
    """Return what returns a value."""
    return lambda: meaning


def struct(
    format_: str,
    name: str,
    message: Any,
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    newer: Callable[[bytes], bytes] | None = None,
) -> Case:
    """Return the case of a value that is encoded and decoded as a whole."""
    return Case(format_, name, decode, value(message), lambda: encode(message), newer=newer)


def same_length(before: bytes, after: bytes) -> Callable[[bytes], bytes]:
    """Return what puts other bytes in the place of some that stand there once."""

    def replaced(data: bytes) -> bytes:
        assert data.count(before) == 1, data
        assert operator.eq(len(before), len(after))
        return data.replace(before, after)

    return replaced
