"""Scenes of sessions and generated requests are found here."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1] / "observer" / "sessions", HERE.parents[1] / "worlds"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
