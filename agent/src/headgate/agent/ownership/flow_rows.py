"""Dataflows as any agent can list them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from headgate.agent.dataflow.views import FlowStatus
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.dataflow_thread import DataflowThread
from headgate.agent.ownership.leases import LeaseManager
from headgate.agent.state.sealed import Owner, RowState, SetAside
from headgate.agent.state.store import Listing, Listings

NOT_RUN = frozenset({"failed", *RowState})
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


class FlowRows:
    """Makes rows of dataflows from what the state table says and what runs here.

    Args:
        owner: this agent.
        leases: what runs here.
        status: asks a dataflow's thread how it is, but not for long.
    """

    def __init__(
        self,
        owner: Owner,
        leases: LeaseManager,
        status: Callable[[DataflowThread], Awaitable[FlowStatus]],
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
        words = f"{row.words}; what runs here is what was there before" if here else row.words
        return FlowRow(
            name=row.name,
            revision=row.revision,
            submitted=0.0,  # nobody vouches for what the row says
            owner=self._owner.name if here else "",
            address=self._owner.address if here else "",
            until=0.0,
            epoch=0,
            here=here,
            state=row.state.value,
            words=words,
        )

    async def row(self, listing: Listing) -> FlowRow:
        """Return a dataflow's row, with what its thread says where it runs here."""
        definition, lease = listing.definition, listing.lease
        name = definition.name
        flow = self._leases.hosted(name)
        state, words = "waiting", "no agent has it yet"
        owned = lease.owner is not None and listing.left > 0
        broken = self._leases.broken(definition)
        if broken is not None:
            state, words = "failed", broken
        elif flow is not None:
            try:
                status = await self._status(flow)
                state, words = status.phase.value, status.words
            except (Unreachable, Refused) as error:
                state, words = "waiting", str(error)
        elif owned and lease.owner == self._owner:
            words = "this agent is taking it over"
        elif owned and lease.owner is not None:
            state, words = "elsewhere", f"with agent {lease.owner.name}"
        return FlowRow(
            name=name,
            revision=definition.revision,
            submitted=definition.submitted,
            owner=lease.owner.name if lease.owner is not None and owned else "",
            address=lease.owner.address if lease.owner is not None and owned else "",
            until=time.time() + listing.left if owned else 0.0,
            epoch=lease.epoch,
            here=flow is not None,
            state=state,
            words=words,
            profile=definition.profile,
            shadow=definition.shadow,
        )
