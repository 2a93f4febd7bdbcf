"""What a caller of the API may do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    """What a caller may do: each role includes those before it."""

    READ = "read"
    """See dataflows, their runs and logs."""
    OPERATE = "operate"
    """Pause, resume, run, cancel, retry, release and mark what was submitted."""
    DEFINE = "define"
    """Submit, update and remove: run any code as the agent's user."""

    def covers(self, other: Role) -> bool:
        """Return whether whoever has this role may do what another stands for."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


class Caller(Struct, frozen=True):
    """A caller of the API.

    ``via`` names whoever asks in the caller's place: the agent that passes a request on.
    """

    name: str
    role: Role
    via: str = ""

    def standing_for(self, name: str, role: Role) -> Caller:
        """Return the caller in whose place this one asks; it has no more rights than both."""
        return Caller(name, role if self.role.covers(role) else self.role, self.name)
