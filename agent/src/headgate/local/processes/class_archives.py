"""Archives of the classes that parts load: a JVM that maps one starts in half the processor time.

A part for which there is none yet records what it loads and writes it down as it ends in order;
``keep`` brings that to where later starts of any instance look. An archive holds for one build of
Java and one class path. Java itself passes over one that is damaged or does not fit, and starts
without; so does it where it writes none.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path

import psutil

from headgate.local.processes.processes import ProcessIdentity
from headgate.settings import Java

_RECORDING = "-XX:ArchiveClassesAtExit="
_USING = "-XX:SharedArchiveFile="
_SILENT = "-Xlog:cds*=off"
"""An archive that is passed over is no news to who reads a part's log."""
_KEY_DIGITS = 16  # of a digest in hexadecimal: a machine has a handful of archives
_UNUSED_SECONDS = 30 * 86_400.0  # 170 MB of a Java or of jars that have been replaced since


class ClassArchives:
    """The archives below ``cache/classes``, shared by all instances and safe for several at once.

    Args:
        cache: The folder of the jars.
        scratch: Of one instance: its parts write theirs here.
    """

    def __init__(self, cache: Path, scratch: Path) -> None:
        self._folder = cache / "classes"
        self._scratch = scratch

    def options(self, java: Java, part: str, jars: Sequence[Path]) -> list[str]:
        """Return the arguments for Java by which a part uses its archive, or records it.

        Args:
            java: The one that runs it.
            part: Its name.
            jars: What its class path begins with; folders may come behind.
        """
        archive = self._archive(java, part, jars)
        if _is_our_own(archive):
            archive.touch()  # it was of use today
            return [_SILENT, f"{_USING}{archive}"]
        recorded = self._scratch / archive.name
        recorded.unlink(missing_ok=True)  # an end that was cut short may have left a part of it
        return [_SILENT, f"{_RECORDING}{recorded}"]

    def keep(self) -> None:
        """Take what parts of the instance wrote that have ended in order, and drop what is old."""
        for written in self._scratch.glob("*.jsa"):
            if not _is_whole(written):
                written.unlink()
                continue
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another disk, perhaps: whole under a name that nobody looks for, then renamed.
            with tempfile.TemporaryDirectory(dir=self._folder) as staging:
                moved = Path(shutil.move(written, staging))
                moved.chmod(0o600)
                moved.touch()
                moved.replace(self._folder / written.name)
        for archive in self._folder.glob("*.jsa"):
            if time.time() - archive.stat().st_mtime > _UNUSED_SECONDS:
                archive.unlink(missing_ok=True)

    def forget(self, java: Java, part: str, jars: Sequence[Path]) -> None:
        """Delete the archive that ``options`` gave; the next start does without."""
        self._archive(java, part, jars).unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete what the instance's parts began to write and did not end."""
        for written in self._scratch.glob("*.jsa"):
            written.unlink()

    def _archive(self, java: Java, part: str, jars: Sequence[Path]) -> Path:
        return self._folder / f"{part}-{_key(java, jars)}.jsa"


def are_recorded_by(identities: Collection[ProcessIdentity]) -> bool:
    """Say whether one of these processes writes an archive as it ends."""
    found = [identity.process() for identity in identities]
    try:
        commands = [process.cmdline() for process in found if process is not None]
    except psutil.NoSuchProcess:
        return False  # one has just ended by itself: nobody waits for what it may have written
    return any(argument.startswith(_RECORDING) for command in commands for argument in command)


def _key(java: Java, jars: Sequence[Path]) -> str:
    """Return a digest of what Java compares: its own build, and each jar's place, size and time."""
    digest = sha256(f"{java.program.resolve()}\n{java.build}\n".encode())
    for jar in jars:
        status = jar.stat()
        digest.update(f"{jar}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:_KEY_DIGITS]


def _is_whole(archive: Path) -> bool:
    """Say whether Java wrote all of it: the head, which is not 0, comes last."""
    with archive.open("rb") as file:
        return any(file.read(4))


def _is_our_own(archive: Path) -> bool:
    """Say whether it is there and nobody else may write it: unlike jars, it has no checksum."""
    try:
        status = archive.stat()
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
