"""The environment in which programs that know nothing of headgate get its happybase."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

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
