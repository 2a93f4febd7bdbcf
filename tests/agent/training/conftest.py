"""What tests of training have in common."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEARNING = HERE.parents[1] / "learning"
for folder in (str(HERE), str(LEARNING), str(LEARNING / "triggers")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``taught``, and for ``lived`` and ``lived_models``
