"""Messages of the control topic, which every observer and agent reads from its beginning.

The topic has one partition, so all see one order, and is compacted by ``control_key``.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.events.containers import Container, Watch


class WatchList(Struct, frozen=True, tag="watch"):
    """What a dataflow wants to see. An empty list ends its watches.

    A list with a lower revision than one that was seen, an empty one too, means nothing.
    """

    version: int
    dataflow: str
    revision: int
    watches: tuple[Watch, ...]


class BarrierRequest(Struct, frozen=True, tag="barrier"):
    """Asks every observer for a ``BarrierMark`` in every partition of the tables' topics."""

    version: int
    id: str
    tables: tuple[str, ...]
    requester: str


class Fence(Struct, frozen=True, tag="fence"):
    """From here on writes of this action with a lower fencing token are refused."""

    version: int
    dataflow: str
    action: str
    token: int


class Gate(Struct, frozen=True, tag="gate"):
    """A bound that was reached holds writes until its action has run.

    Observers hold writes that may touch one of the ``containers``, but for those of the dataflow's
    own runs. ``until`` (Unix seconds) is the end of the lease: the gate opens then by itself, so
    whoever wants it closed for longer says it again, with a later end, before. ``released`` opens
    it at once. Of one dataflow, action and bound a message with a lower revision than one that was
    seen means nothing; of two with the same the later holds.
    """

    version: int
    dataflow: str
    action: str
    bound: str
    containers: tuple[Container, ...]
    until: float
    revision: int
    released: bool = False


class ObserverLease(Struct, frozen=True, tag="lease"):
    """An observer's heartbeat. It is live until ``seconds`` after the message was received.

    ``sequences`` holds, by topic, the next publish sequence of each partition. ``ended`` is said
    once, after everything was published; a lease that runs out without it makes agents reconcile.
    ``unmarked`` names tables whose notify columns are asked for and not set at present. ``reads``
    holds how often columns of watched tables were read in this epoch, by table and column: those
    that are read most. The column is ``family:qualifier`` or ``family:``, or empty for whole rows.
    ``number`` counts the epoch's leases: who hears its own one again knows that it has heard all
    that was said before it. Where there are so many topics that one message has no room for them,
    others are in messages before it that have a ``part`` (1, 2 …), no number and nothing else.
    ``incarnation`` is unlike that of any other process, so that two of one name are noticed.
    """

    version: int
    observer: str
    epoch: int
    seconds: float
    sequences: dict[str, tuple[int, ...]]
    address: str = ""
    ended: bool = False
    unmarked: tuple[str, ...] = ()
    reads: dict[str, dict[str, int]] = {}
    number: int = 0
    part: int = 0
    incarnation: str = ""


ControlMessage = WatchList | BarrierRequest | Fence | Gate | ObserverLease


def control_key(message: ControlMessage) -> bytes:
    """Return the compaction key: of two messages with one key only the newer has a meaning."""
    match message:
        case WatchList(dataflow=dataflow):
            key = f"watch/{dataflow}"
        case BarrierRequest(requester=requester):
            # Observers answer barriers as they arrive; an old one has nobody waiting for it.
            key = f"barrier/{requester}"
        case Fence(dataflow=dataflow, action=action):
            key = f"fence/{dataflow}/{action}"
        case Gate(dataflow=dataflow, action=action, bound=bound):
            key = f"gate/{dataflow}/{action}/{bound}"
        case ObserverLease(observer=observer, epoch=epoch, part=part):
            key = f"lease/{observer}/{epoch}/{part}" if part else f"lease/{observer}/{epoch}"
    return key.encode()
