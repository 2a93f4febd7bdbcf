"""What tests of training have in common."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (str(HERE), str(HERE.parents[1] / "learning")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``taught``, and for ``lived`` of learning
