"""Stores the samples that are missing: those of a format, or of a version of one, that is new.

A sample that is there is never written again. Run it with Headgate's own Python, from anywhere::

    .venv/bin/python tests/formats/write_samples.py
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from stored_formats.case import SAMPLES, Case
from stored_formats.register import CASES


def write(case: Case) -> bool:
    """Store a sample; return whether it was missing."""
    if case.path.exists() or case.write is None:
        return False
    case.path.parent.mkdir(parents=True, exist_ok=True)
    case.path.write_bytes(case.write())
    return True


if __name__ == "__main__":
    for one in filter(write, CASES):
        sys.stdout.write(f"{one.path.relative_to(SAMPLES)}\n")
