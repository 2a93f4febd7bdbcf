"""The drop-in in happybase's place, in programs that know nothing of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

CONFIG_VARIABLE = "HEADGATE_CLIENT_CONFIG"
"""Names the TOML file of the drop-in client."""


def swapped_environment(environment: Mapping[str, str], config: Path | None) -> dict[str, str]:
    """Return the environment in which Python programs get the drop-in for happybase.

    It holds for the programs that they start, too. ``config`` is the client's TOML file.
    """
    folder = str(Path(__file__).with_name("startup"))
    earlier = environment.get("PYTHONPATH")
    swapped = {**environment, "PYTHONPATH": f"{folder}{os.pathsep}{earlier}" if earlier else folder}
    if config is not None:
        swapped[CONFIG_VARIABLE] = str(config.absolute())
    return swapped


def swap_into(happybase: ModuleType) -> None:
    """Put headgate's classes into happybase, wherever it has its own."""
    from headgate.client import drop_in  # it imports happybase, which is loaded by now

    for module in (happybase, happybase.connection, happybase.pool):
        for name in ("Connection", "ConnectionPool"):
            if hasattr(module, name):
                setattr(module, name, getattr(drop_in, name))
