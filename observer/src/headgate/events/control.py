"""Messages of the control topic, which every observer and agent reads from its beginning.

The topic has one partition, so all see one order, and is compacted by ``control_key``.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.events.containers import Watch


class WatchList(Struct, frozen=True, tag="watch"):
    """What a dataflow wants to see. An empty list ends its watches."""

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


class ObserverLease(Struct, frozen=True, tag="lease"):
    """An observer's heartbeat. It is live until ``seconds`` after the message was received.

    ``sequences`` holds, by topic, the next publish sequence of each partition. ``ended`` is said
    once, after everything was published; a lease that runs out without it makes agents reconcile.
    """

    version: int
    observer: str
    epoch: int
    seconds: float
    sequences: dict[str, tuple[int, ...]]
    address: str = ""
    ended: bool = False


ControlMessage = WatchList | BarrierRequest | Fence | ObserverLease


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
        case ObserverLease(observer=observer, epoch=epoch):
            key = f"lease/{observer}/{epoch}"
    return key.encode()
