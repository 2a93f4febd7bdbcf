"""One configuration for several processes: the share of each, and what earlier ones have left.

A worker is an observer in its own right: its name is the configured one with its number, and its
journal a folder within the configured one, so that both are the same after every restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from headgate.observer.config import ObserverConfig
from headgate.observer.recording.epochs import has_open_epochs

_FOLDER = "worker-"


def observer_names(config: ObserverConfig) -> set[str]:
    """Return under which names the processes of a configuration have leases."""
    if config.workers == 1:
        return {config.name}
    return {_named(config, number).name for number in range(1, config.workers + 1)}


def share(config: ObserverConfig, number: int, listen: Mapping[str, str]) -> ObserverConfig:
    """Return the configuration of one worker; ``number`` counts from 1.

    ``listen`` is what all workers listen on, by listener: an address whose port is not 0.
    """
    listeners = {
        name: replace(getattr(config, name), listen=address) for name, address in listen.items()
    }
    return replace(_named(config, number), **listeners)


def _named(config: ObserverConfig, number: int) -> ObserverConfig:
    folder = Path(config.journal.directory) / f"{_FOLDER}{number}"
    return replace(
        config,
        name=f"{config.name}-{number}",
        journal=replace(config.journal, directory=str(folder)),
        workers=1,
    )


def left_behind(config: ObserverConfig) -> Iterator[ObserverConfig]:
    """Yield the observers that are not configured any more and whose journals hold something.

    They ran with another number of workers; each is given as it was named then.
    """
    directory = Path(config.journal.directory)
    if config.workers > 1 and has_open_epochs(directory):
        yield replace(config, workers=1)
    kept = config.workers if config.workers > 1 else 0
    for folder in sorted(directory.glob(f"{_FOLDER}*")):
        number = folder.name.removeprefix(_FOLDER)
        if number.isdecimal() and int(number) > kept and has_open_epochs(folder):
            yield _named(config, int(number))
