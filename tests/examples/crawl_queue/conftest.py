"""Stages are run on files as those of the room's own tests are."""

import sys
from pathlib import Path

STAGES = str(Path(__file__).parents[2] / "incremental")
if STAGES not in sys.path:
    sys.path.insert(0, STAGES)  # for ``filed_stage``
