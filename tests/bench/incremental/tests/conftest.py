"""The bench's modules are in the folder above, and what they measure in the examples."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
for folder in (HERE.parents[4] / "examples", HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
