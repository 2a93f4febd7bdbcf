"""The bench's modules are imported from the folder above."""

import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parents[1])
if HERE not in sys.path:
    sys.path.insert(0, HERE)
