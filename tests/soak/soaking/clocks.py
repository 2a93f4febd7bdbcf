"""Wall clocks of single processes, moved by libfaketime through a file; never a monotonic one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CURE = (
    "libfaketime is not there, by which wall clocks are moved: install it (Debian and Ubuntu: "
    "package faketime), or go on without that by --without-clocks"
)
_PLACES = ("lib", "lib64", "local/lib")
_NAME = "libfaketimeMT.so.1"  # for programs with threads


class ClocksMissing(Exception):
    """There is no libfaketime."""


def find_library(root: Path = Path("/usr")) -> Path:
    """Return libfaketime's file.

    Raises:
        ClocksMissing: it is not installed; the words have the cure.
    """
    for place in _PLACES:
        found = sorted((root / place).glob(f"**/faketime/{_NAME}"))
        if found:
            return found[0]
    raise ClocksMissing(CURE)


class Clock:
    """The wall clock of one process.

    Args:
        file: by which it is moved.
        library: libfaketime, or None where clocks are left alone.
    """

    def __init__(self, file: Path, library: Path | None) -> None:
        self._file = file
        self._library = library
        self.move(0)

    def move(self, seconds: int) -> None:
        """Have it be so many seconds ahead of the machine's; it is noticed within a second."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        written.replace(self._file)

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which its process is started."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_NO_CACHE": "0",
        }
