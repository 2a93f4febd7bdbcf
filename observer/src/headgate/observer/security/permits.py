"""What is known of a client, and why it may not do something: what rules give and take."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from headgate.events import Origin


class Permit(Struct, frozen=True):
    """What is known of a connection's client.

    Attributes:
        origin: who it is by its certificate or its listener; None: only its requests can say.
        claims: patterns of the origins that its requests may name.
    """

    origin: Origin | None
    claims: tuple[str, ...]

    def may_claim(self, claimed: Origin) -> bool:
        """Return whether a request of this client may say that it is of this origin."""
        if claimed.writer and (claimed.dataflow or claimed.action):
            # It has two names, and would be judged by one and count as the other.
            return False
        if "/" in claimed.writer or "/" in claimed.dataflow:
            # As above: its name reads as that of another dataflow's action.
            return False
        return any(fnmatchcase(claimed.name, pattern) for pattern in self.claims)


class Refusal(Struct, frozen=True):
    """Why a request is refused."""

    origin: str
    """Name of who asks."""
    text: str
    """For the client and the log."""
