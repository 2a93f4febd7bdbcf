"""The contract between observers and agents: updates, containers, cuts and control messages.

Observers publish, agents consume; neither imports the other. Every message is a msgspec struct in
msgpack with a version; a new field has a default, so that old readers skip it and new ones fill it.
"""

from headgate.events.codec import (
    VERSION,
    MalformedEvent,
    decode_control,
    decode_update,
    encode_control,
    encode_update,
)
from headgate.events.containers import Container, ContainerId, Item, Watch, row_prefix_end
from headgate.events.control import (
    BarrierRequest,
    ControlMessage,
    Fence,
    Gate,
    ObserverLease,
    WatchList,
    control_key,
)
from headgate.events.cuts import GONE, Cut, known_from, lost_after
from headgate.events.machines import MachineLoad, decode_machine, encode_machine
from headgate.events.notify import (
    NOTIFY_ALL,
    NOTIFY_FAMILY,
    Notify,
    decode_notify,
    encode_notify,
)
from headgate.events.origins import (
    ORIGIN_ATTRIBUTE,
    Origin,
    OriginText,
    agent_origin,
    decode_origin,
    encode_origin,
    encode_origin_text,
    origin_text,
)
from headgate.events.tables import (
    DEFAULT_NAMESPACE,
    canonical_table,
    fits_table,
    table_problem,
)
from headgate.events.topics import (
    CONTROL_TOPIC,
    DECISIONS_TOPIC,
    FLOWS_TOPIC,
    MACHINES_TOPIC,
    partition_of,
    table_of,
    updates_topic,
)
from headgate.events.updates import (
    MORE_PARTITIONS,
    NO_TTL,
    BarrierMark,
    Gap,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
)

__all__ = [
    "CONTROL_TOPIC",
    "DECISIONS_TOPIC",
    "DEFAULT_NAMESPACE",
    "FLOWS_TOPIC",
    "GONE",
    "MACHINES_TOPIC",
    "MORE_PARTITIONS",
    "NOTIFY_ALL",
    "NOTIFY_FAMILY",
    "NO_TTL",
    "ORIGIN_ATTRIBUTE",
    "VERSION",
    "BarrierMark",
    "BarrierRequest",
    "Container",
    "ContainerId",
    "ControlMessage",
    "Cut",
    "Fence",
    "Gap",
    "Gate",
    "Item",
    "MachineLoad",
    "MalformedEvent",
    "Notify",
    "ObserverLease",
    "Origin",
    "OriginText",
    "Outcome",
    "RequestPart",
    "TableChange",
    "TableChangeKind",
    "UpdateBatch",
    "UpdateKind",
    "UpdateMessage",
    "Watch",
    "WatchList",
    "agent_origin",
    "canonical_table",
    "control_key",
    "decode_control",
    "decode_machine",
    "decode_notify",
    "decode_origin",
    "decode_update",
    "encode_control",
    "encode_machine",
    "encode_notify",
    "encode_origin",
    "encode_origin_text",
    "encode_update",
    "fits_table",
    "known_from",
    "lost_after",
    "origin_text",
    "partition_of",
    "row_prefix_end",
    "table_of",
    "table_problem",
    "updates_topic",
]
