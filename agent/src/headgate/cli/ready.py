"""The line by which a service says that it serves."""

from __future__ import annotations

import sys

import msgspec


def say_ready(key: str, value: str, *, as_json: bool) -> None:
    """Write ``ready key=value`` to standard output, or the same as JSON."""
    line = f"ready {key}={value}"
    if as_json:
        line = msgspec.json.encode({"ready": True, key: value}).decode()
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
