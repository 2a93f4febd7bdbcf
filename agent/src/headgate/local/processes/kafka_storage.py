"""The two files that Kafka's folder of data begins with, written by its tool only once.

The tool is a JVM, which takes half as long as Kafka's start. One of its files holds the features of
Kafka's release, the same for every instance: it is kept. The other holds the names of the cluster
and of the folder.
"""

from __future__ import annotations

import base64
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

NODE = 1
"""The broker's number, as in ``server.properties``."""

_FEATURES = "bootstrap.checkpoint"
_KEY_DIGITS = 16  # of a digest in hexadecimal: a machine has a handful of releases


class KafkaStorage:
    """The file of a release's features below ``cache/kafka``: 400 bytes, shared by all instances.

    Args:
        cache: The folder of the jars.
        jars: Those of Kafka; their paths name the release.
    """

    def __init__(self, cache: Path, jars: Sequence[Path]) -> None:
        key = sha256("\n".join(map(str, jars)).encode()).hexdigest()[:_KEY_DIGITS]
        self._kept = cache / "kafka" / f"{key}.checkpoint"

    def format(self, data: Path) -> bool:
        """Make a folder as the tool would; return False, and make none, before ``keep``."""
        if not _is_our_own(self._kept):
            return False
        data.mkdir(parents=True)
        shutil.copyfile(self._kept, data / _FEATURES)
        names = f"cluster.id={new_name()}\ndirectory.id={new_name()}\n"
        (data / "meta.properties").write_text(f"version=1\nnode.id={NODE}\n{names}")
        return True

    def keep(self, data: Path) -> None:
        """Keep the features from a folder that the tool has made."""
        folder = self._kept.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as staging:
            whole = Path(staging) / self._kept.name
            shutil.copyfile(data / _FEATURES, whole)
            whole.chmod(0o600)
            whole.replace(self._kept)


def new_name() -> str:
    """Return a name that no cluster and no folder has had, as Kafka writes them."""
    name = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    return f"h{name[1:]}" if name.startswith("-") else name  # its tool takes that for an option


def _is_our_own(file: Path) -> bool:
    """Return whether it is there and nobody else may write it: unlike jars, it has no checksum."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
