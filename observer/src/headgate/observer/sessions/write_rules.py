"""What becomes of a request: decided from its reading and what is known at the moment.

Asked when a request has come, and again in full whenever one that was held goes on: watch lists,
gates, fences and rules may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from headgate.events import ORIGIN_ATTRIBUTE, Gate, Origin
from headgate.hbase import Request, Write
from headgate.observer.security.permits import Permit, Refusal


class Control(Protocol):
    """What the control topic has said."""

    def is_watched(self, table: str) -> bool:
        """Return whether writes of the table must be published."""

    def fence_above(self, origin: Origin) -> int | None:
        """Return the fence that the origin's token is below; None if it may write."""


class ClosedGates(Protocol):
    """The gates, of which few are ever closed."""

    @property
    def closed(self) -> Mapping[str, tuple[Gate, ...]]:
        """The closed gates by table."""

    def in_the_way(self, write: Write, writers: Iterable[Origin | None]) -> Gate | None:
        """Return a closed gate that must hold the write; None if there is none."""


class Order(Protocol):
    """Deletes that may hide the writes behind them."""

    strict: bool
    """True if writes wait until no delete can hide them."""

    @property
    def holds(self) -> bool:
        """True while there is a delete for which writes may have to wait."""

    def seconds_to_wait(self, write: Write) -> float:
        """Return how long a write must wait at least, so that no delete hides it; mostly 0."""


class Rules(Protocol):
    """The rules of a listener."""

    def judge(self, permit: Permit, request: Request) -> Refusal | None:
        """Return why a request of a connection with the permit is refused; None: it may pass."""


class Facts(Struct, frozen=True):
    """Facts by which a request is judged.

    Attributes:
        control: watch lists and fences.
        gates: the closed gates.
        guard: the rules of the listener; None: everybody may do everything.
        permit: what the guard knows of the client; None: nothing depends on that.
        origin: the origin of writes that name none.
        order: the deletes that writes wait for; None: writes wait for none.
    """

    control: Control
    gates: ClosedGates
    guard: Rules | None = None
    permit: Permit | None = None
    origin: Origin | None = None
    order: Order | None = None


class Forward(Struct, frozen=True):
    """Pass it on unrecorded."""


class JournalAndForward(Struct, frozen=True):
    """Record it for these of its tables, then pass it on."""

    tables: tuple[str, ...]


class Hold(Struct, frozen=True):
    """Let it wait for the gate, then judge again."""

    gate: Gate


class Wait(Struct, frozen=True):
    """Let it wait so many seconds until a delete cannot hide it, then judge again."""

    seconds: float


class Refuse(Struct, frozen=True):
    """Answer it with the reason.

    Attributes:
        text: for the client.
        by_guard: what the guard has to note; None where a fence is in the way.
    """

    text: str
    by_guard: Refusal | None = None


Judgement = Forward | JournalAndForward | Hold | Wait | Refuse

FORWARD: Final = Forward()
"""The decision about every unrecorded request: there is one instance."""


def judge(request: Request, facts: Facts) -> Judgement:
    """Return what becomes of a request now."""
    guard, permit = facts.guard, facts.permit
    if guard is not None and permit is not None:
        refusal = guard.judge(permit, request)
        if refusal is not None:
            return Refuse(refusal.text, refusal)
    change = request.change
    if change is None:
        return FORWARD
    control = facts.control
    if isinstance(change, Write):
        writers = change.writers(facts.origin)
        for origin in writers:
            fence = None if origin is None else control.fence_above(origin)
            if origin is not None and fence is not None:
                return Refuse(_below(origin, fence))
        if facts.gates.closed:
            gate = facts.gates.in_the_way(change, writers)
            if gate is not None:
                return Hold(gate)
        seconds = 0.0 if facts.order is None else facts.order.seconds_to_wait(change)
        if seconds:
            return Wait(seconds)
    watched = tuple(table for table in request.tables if control.is_watched(table))
    return JournalAndForward(watched) if watched else FORWARD


def judge_known(tables: tuple[str, ...], facts: Facts) -> Forward | JournalAndForward | None:
    """Return what becomes of an unread put of a known kind; None: it must be read and judged.

    Such a put names one table and no origin, and the guard has let the client make puts of its
    kind. ``judge`` decides the same of it, unless something may hold or refuse writes now.
    """
    control, order, origin = facts.control, facts.order, facts.origin
    if (
        facts.gates.closed
        or (order is not None and order.strict and order.holds)
        or (origin is not None and control.fence_above(origin) is not None)
    ):
        return None
    return JournalAndForward(tables) if control.is_watched(tables[0]) else FORWARD


def _below(origin: Origin, fence: int) -> str:
    if not origin.run:
        return (
            f"headgate: writes in the name of {origin.name} must name the run that they are of: "
            f"its attempts have tokens, {fence} is the newest, and of this write nobody can tell "
            f"whether its attempt was replaced; send {ORIGIN_ATTRIBUTE.decode()} with the value "
            "that the program finds in HEADGATE_ORIGIN"
        )
    return (
        f"headgate: run {origin.run} of {origin.dataflow}/{origin.action} may not write "
        f"any more: its token {origin.token} is below the fence {fence}, "
        "so a newer attempt has begun"
    )
