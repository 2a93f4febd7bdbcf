"""A world around the agents of one dataflow: what fails them, and what must be true of them."""

import sys
from pathlib import Path

_AGENT = str(Path(__file__).resolve().parents[2] / "agent")
if _AGENT not in sys.path:
    sys.path.append(_AGENT)  # for ``simulation``
