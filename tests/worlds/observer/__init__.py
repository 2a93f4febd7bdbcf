"""A world around one observer: hostile clients, an HBase that is none, and what must be true."""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
for folder in (_TESTS / "observer" / "sessions", _TESTS / "hbase"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # for ``scene`` and ``request_table``
