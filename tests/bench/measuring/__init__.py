"""What the comparison of the observer with others is made of."""

import sys
from pathlib import Path

_STACK = str(Path(__file__).resolve().parents[2] / "stack")
if _STACK not in sys.path:
    sys.path.append(_STACK)  # for ``free_ports``
