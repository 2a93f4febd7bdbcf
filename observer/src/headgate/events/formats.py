"""Versions of what Headgate stores, and the release that reads them.

Each stored format has a name and a version; whoever writes it writes the version too. What release
0.2.0 or a later one has stored is read by every release after it. Nothing reads a newer version
than it knows, for it might mean something else.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

RELEASE: Final = "0.2.0"
"""Version of this headgate."""


class NewerFormat(ValueError):
    """Data in a version that only a newer headgate reads."""


class StoredFormat(Struct, frozen=True):
    """A format in which data is stored, or sent to processes that may be of another release."""

    name: str
    version: int = 1
    """Version that this release writes. It reads all from 1 to this one."""

    def check(self, found: int) -> None:
        """Accept a version that this release reads.

        Raises:
            NewerFormat: a newer release wrote it.
            ValueError: no release wrote it.
        """
        if found > self.version:
            message = (
                f"this is version {found} of the format `{self.name}`, of which headgate {RELEASE} "
                f"reads {self.version} at most: a newer headgate wrote it, so upgrade this one"
            )
            raise NewerFormat(message)
        if found < 1:
            message = f"no headgate wrote version {found} of the format `{self.name}`"
            raise ValueError(message)

    def check_json(self, data: bytes) -> None:
        """Accept a JSON object whose ``version`` is one that this release reads.

        Raises:
            NewerFormat: a newer release wrote it.
            ValueError: no release wrote it, or it is no such object.
        """
        self.check(_json.decode(data).version)


class _Versioned(Struct):
    version: int


_json: Final = msgspec.json.Decoder(_Versioned)
