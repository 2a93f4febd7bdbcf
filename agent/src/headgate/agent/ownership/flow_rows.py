"""Dataflows as any agent can list them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.leases import LeaseManager
from headgate.agent.state.sealed import Owner, RowState, SetAside
from headgate.agent.state.store import Listing, Listings

WAITING: Final = "waiting"
"""State of a dataflow that no agent runs yet, or whose thread here does not answer."""
ELSEWHERE: Final = "elsewhere"
"""State of a dataflow that another agent runs."""
FAILED: Final = "failed"
"""State of a dataflow that this agent could not run as it is defined."""
NOT_RUN: Final = frozenset({FAILED, *RowState})
"""States of dataflows that start only when somebody does something about them."""


class FlowRow(Struct, frozen=True):
    """A dataflow as any agent can list it."""

    name: str
    revision: int
    submitted: float
    owner: str
    """Empty where no agent has it."""
    address: str
    until: float
    epoch: int
    here: bool
    state: str
    """Of a row that is not run, why: a value of ``RowState``."""
    words: str
    profile: str | None = None
    shadow: bool = False


class LocalView(Struct, frozen=True):
    """What an agent knows of a dataflow beyond the state table."""

    here: bool = False
    """Whether it runs on a thread of this agent."""
    status: FlowStatus | None = None
    """What that thread answers; None where it does not."""
    silence: str = ""
    """Why it does not answer."""
    broken: str | None = None
    """Why this agent could not run it as it is defined; None where nothing is known against it."""


def listed_row(listing: Listing, view: LocalView, own: Owner, now: float) -> FlowRow:
    """Return a dataflow's row, as an agent lists it.

    Args:
        listing: what the state table says.
        view: what the agent knows besides.
        own: the agent.
        now: Unix time.
    """
    definition, lease = listing.definition, listing.lease
    owner = lease.owner if listing.left > 0 else None
    state, words = _state(owner, view, own)
    return FlowRow(
        name=definition.name,
        revision=definition.revision,
        submitted=definition.submitted,
        owner="" if owner is None else owner.name,
        address="" if owner is None else owner.address,
        until=0.0 if owner is None else now + listing.left,
        epoch=lease.epoch,
        here=view.here,
        state=state,
        words=words,
        profile=definition.profile,
        shadow=definition.shadow,
    )


def _state(owner: Owner | None, view: LocalView, own: Owner) -> tuple[str, str]:
    """Return a dataflow's state and what is to be said of it; its lease, if any, is ``owner``'s."""
    if view.broken is not None:
        return FAILED, view.broken
    if view.status is not None:
        return view.status.phase.value, view.status.words
    if view.here:
        return WAITING, view.silence
    if owner is None:
        return WAITING, "no agent has it yet"
    if owner == own:
        return WAITING, "this agent is taking it over"
    return ELSEWHERE, f"with agent {owner.name}"


def set_aside_row(row: SetAside, own: Owner, *, here: bool) -> FlowRow:
    """Return the row of a dataflow that is not run as it stands.

    Args:
        row: as it stands.
        own: the agent that lists it.
        here: whether that agent runs what was there before.
    """
    return FlowRow(
        name=row.name,
        revision=row.revision,
        submitted=0.0,  # nobody vouches for what the row says
        owner=own.name if here else "",
        address=own.address if here else "",
        until=0.0,
        epoch=0,
        here=here,
        state=row.state.value,
        words=f"{row.words}; what runs here is what was there before" if here else row.words,
    )


class FlowRows:
    """Makes rows of dataflows from what the state table says and what runs here.

    Args:
        owner: this agent.
        leases: what runs here.
        status: asks a dataflow how it is, but not for long.
    """

    def __init__(
        self,
        owner: Owner,
        leases: LeaseManager,
        status: Callable[[HostedDataflow], Awaitable[FlowStatus]],
    ) -> None:
        self._owner = owner
        self._leases = leases
        self._status = status

    async def every(self, found: Listings) -> list[FlowRow]:
        """Return the rows of all dataflows, and of those that are not run, by name."""
        rows = await asyncio.gather(*(self.row(listing) for listing in found.flows))
        rows += [self.set_aside(row) for row in found.set_aside]
        return sorted(rows, key=lambda row: row.name)

    def set_aside(self, row: SetAside) -> FlowRow:
        """Return the row of a dataflow that is not run as it stands."""
        here = self._leases.hosted(row.name) is not None
        return set_aside_row(row, self._owner, here=here)

    async def row(self, listing: Listing) -> FlowRow:
        """Return a dataflow's row, with what its thread says where it runs here."""
        view = await self._view(listing)
        return listed_row(listing, view, self._owner, time.time())

    async def _view(self, listing: Listing) -> LocalView:
        flow = self._leases.hosted(listing.definition.name)
        broken = self._leases.broken(listing.definition)
        if flow is None or broken is not None:
            return LocalView(here=flow is not None, broken=broken)
        try:
            return LocalView(here=True, status=await self._status(flow))
        except (Unreachable, Refused) as error:
            return LocalView(here=True, silence=str(error))
