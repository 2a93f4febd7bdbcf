"""Scanners that a client has opened: they live in one Thrift server, and end with its process."""

from __future__ import annotations

from typing import Final, final

from headgate.hbase import METHODS

_CLOSES: Final = frozenset({"scannerClose", "closeScanner"})
_OPENS: Final = frozenset(
    name
    for methods in METHODS.values()
    for name in methods
    if name.startswith("scannerOpen") or name == "openScanner"
)
_EITHER: Final = _OPENS | _CLOSES


@final
class OpenScanners:
    """How many scanners of a client may be open at its upstream."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0

    def note(self, method: str) -> None:
        """Take note of a request that goes on.

        One that HBase refuses to open counts too: nobody looks at every reply.
        """
        if method not in _EITHER:
            return
        self.count = self.count + 1 if method in _OPENS else max(0, self.count - 1)
