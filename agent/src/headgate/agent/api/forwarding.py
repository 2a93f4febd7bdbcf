"""Which agent carries a request out, by the row of its dataflow: decisions without I/O."""

from __future__ import annotations

from enum import Enum, auto

from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.flow_rows import FAILED, NOT_RUN, FlowRow
from headgate.agent.state.sealed import RowState


def owner_address(row: FlowRow, *, forwarded: bool, lease_seconds: float) -> str:
    """Return the address of the agent that is to answer, where the dataflow does not run here.

    Args:
        row: the dataflow's.
        forwarded: whether another agent has looked for it and asks this one: two agents that each
            take the other for the owner would pass the request on for ever.
        lease_seconds: after which a lost agent's dataflows are taken over.

    Raises:
        Refused: the dataflow runs nowhere before somebody changes something.
        Unreachable: no agent has it at the moment.
    """
    if row.state == FAILED:
        raise Refused(f"dataflow {row.name} cannot run: {row.words}; submit a corrected one")
    if row.state in NOT_RUN:
        raise Refused(f"dataflow {row.name} is not run: {row.words}")
    if not row.owner or row.here or forwarded:
        raise Unreachable(
            f"dataflow {row.name} is with no agent at the moment; one takes it over within "
            f"{lease_seconds:g} s"
        )
    return row.address


def silent_owner(row: FlowRow, reason: object) -> Unreachable:
    """Return the error for an owner that does not answer, for a reason."""
    return Unreachable(
        f"dataflow {row.name} is with agent {row.owner}, which does not answer at "
        f"{row.address}: {reason}; it is taken over when its lease ends"
    )


def is_owned_elsewhere(row: FlowRow) -> bool:
    """Return whether another agent has the dataflow, and is to save what is submitted for it."""
    return bool(row.owner) and not row.here


class Removal(Enum):
    """What removes a dataflow."""

    DISCARD = auto()
    """Deleting its row: it runs nowhere as the row stands."""
    STOP = auto()
    """Its owner, which ends it first."""


def removal(row: FlowRow) -> Removal:
    """Return what removes the dataflow of a row.

    Raises:
        Refused: it cannot run, so that no agent can withdraw what it has asked of observers.
    """
    if not row.here and row.state in set(RowState):
        return Removal.DISCARD
    if not row.here and not row.owner and row.state == FAILED:
        raise Refused(
            f"dataflow {row.name} cannot run: {row.words}; submit one that can, then remove"
        )
    return Removal.STOP
