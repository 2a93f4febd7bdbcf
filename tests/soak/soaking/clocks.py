"""Wall clocks of single processes, moved by libfaketime through a file; never a monotonic one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

CURE = (
    "wall clocks are moved by libfaketime and a few lines of C beside it, and {missing}: install "
    "it (Debian and Ubuntu: packages faketime and gcc), or go on without that by --without-clocks"
)
_PLACES = ("lib", "lib64", "local/lib")
_NAME = "libfaketimeMT.so.1"  # for programs with threads
_WAITS = Path(__file__).with_name("waits.c")
_COMPILER_SECONDS = 60.0


class ClocksMissing(Exception):
    """Clocks cannot be moved here; the words have the cure."""


def find_library(root: Path = Path("/usr")) -> Path:
    """Return libfaketime's file.

    Raises:
        ClocksMissing: it is not installed.
    """
    for place in _PLACES:
        found = sorted((root / place).glob(f"**/faketime/{_NAME}"))
        if found:
            return found[0]
    raise ClocksMissing(CURE.format(missing="libfaketime is not there"))


def find_compiler() -> str:
    """Return the C compiler's program.

    Raises:
        ClocksMissing: there is none.
    """
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        raise ClocksMissing(CURE.format(missing="there is no C compiler"))
    return found


class Faketime:
    """What has to be loaded into a process so that its wall clock can be moved.

    Args:
        folder: for what is compiled.

    Raises:
        ClocksMissing: something for it is not there.
    """

    def __init__(self, folder: Path) -> None:
        library = find_library()
        waits = folder / "waits.so"
        command = [find_compiler(), "-O2", "-shared", "-fPIC", "-o", str(waits), str(_WAITS)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILER_SECONDS, check=False
        )
        if done.returncode != 0:
            words = f"{_WAITS.name} does not compile:\n{done.stderr}"
            raise ClocksMissing(CURE.format(missing=words))
        self.preloaded = f"{waits} {library}"


class Clock:
    """The wall clock of one process.

    Args:
        file: by which it is moved.
        faketime: what moves it, or None where clocks are left alone.
    """

    def __init__(self, file: Path, faketime: Faketime | None) -> None:
        self._file = file
        self._faketime = faketime
        self.move(0)

    def move(self, seconds: int) -> None:
        """Have it be so many seconds ahead of the machine's; it is noticed within a second."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        written.replace(self._file)

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which its process is started."""
        if self._faketime is None:
            return {}
        return {
            "LD_PRELOAD": self._faketime.preloaded,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }
