"""Where the local stack keeps its things, and where it finds its configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headgate.local.errors import ConfigurationMissingError, InstanceNameError, LocalStackError

_INSTANCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def default_home() -> Path:
    """Return the user's folder for stacks: ``HEADGATE_HOME`` or ``$XDG_DATA_HOME/headgate``."""
    named = os.environ.get("HEADGATE_HOME")
    if named:
        return Path(named).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    base = Path(data) if data else Path.home() / ".local" / "share"
    return (base / "headgate").absolute()


def default_cache(home: Path | None = None) -> Path:
    """Return the folder for jars, shared by stacks.

    It is ``HEADGATE_CACHE``; else the folder ``cache`` of the home that somebody has named, as an
    argument or by ``HEADGATE_HOME``; else ``$XDG_CACHE_HOME/headgate``.
    """
    named = os.environ.get("HEADGATE_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    if home is not None or os.environ.get("HEADGATE_HOME"):
        return (home or default_home()).expanduser().absolute() / "cache"
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache else Path.home() / ".cache"
    return (base / "headgate").absolute()


def find_configuration() -> Path:
    """Return the folder ``hbase-conf``: the installed package's, or the checkout's.

    Raises:
        ConfigurationMissingError: If neither is there.
    """
    room = Path(__file__).resolve().parent
    packaged = room / "hbase-conf"
    checkout = room.parents[3] / "hbase-conf"
    for folder in (packaged, checkout):
        if (folder / "hbase-site.xml").is_file():
            return folder
    raise ConfigurationMissingError(
        f"the stack's configuration is neither in {packaged} nor in {checkout}; "
        "install headgate again, or restore the folder hbase-conf of the checkout"
    )


class InstancePlaces:
    """The folders and files of one instance below a home."""

    def __init__(self, home: Path, instance: str) -> None:
        if not _INSTANCE_NAME.fullmatch(instance):
            raise InstanceNameError(
                f"{instance!r} cannot name an instance; use up to 64 letters, digits, '.', '_' "
                "and '-', with a letter or a digit first"
            )
        self.folder = home / "instances" / instance
        self.lock = self.folder / "lock"
        self.record = self.folder / "instance.json"
        self.conf = self.folder / "conf"
        self.data = self.folder / "data"
        self.logs = self.folder / "logs"
        self.scratch = self.folder / "tmp"

    def create(self) -> None:
        """Make the folders that are missing, readable by their owner only.

        Raises:
            LocalStackError: If they cannot be made.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.conf, self.data, self.logs, self.scratch):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LocalStackError(
                f"{self.folder} cannot be made ({error}); name a folder that you may write to "
                "with --home or HEADGATE_HOME"
            ) from error

    def log(self, part: str) -> Path:
        """Return the file that a part's output goes to."""
        return self.logs / f"{part}.log"
