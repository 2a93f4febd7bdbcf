"""The evaluations are imported from the folder above ``tests``, the examples from theirs."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in (str(ROOT), str(ROOT / "examples")):
    if folder not in sys.path:
        sys.path.insert(0, folder)
