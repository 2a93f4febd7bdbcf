"""How busy a machine is, as its sensor says: messages of the topic ``headgate.machines``.

The topic has one partition and a short retention; who reads it begins at its end.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.events.codec import check_version, malformed
from headgate.events.origins import UNREADABLE


class MachineLoad(Struct, frozen=True, tag="machine"):
    """One sample of one machine; what its sensor cannot measure is None.

    ``time`` (Unix seconds) is the machine's own clock. ``cpu``, ``memory`` and ``disk`` are in
    percent: busy cores, memory that is not available, time in which the busiest disk worked.
    ``network`` is in bytes per second, received and sent; ``load`` in processes per core that run
    or want to. ``weight`` is the machine's part among those on which steps run.
    """

    version: int
    machine: str
    time: float
    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    network: float | None = None
    load: float | None = None
    weight: float = 1.0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(MachineLoad)


def encode_machine(message: MachineLoad) -> bytes:
    """Return the value of a Kafka message for the machines topic."""
    return _encoder.encode(message)


def decode_machine(data: bytes) -> MachineLoad:
    """Return the message in the value of a record of the machines topic.

    Raises:
        MalformedEvent: the bytes are no such message, or a newer headgate wrote it.
    """
    try:
        message: MachineLoad = _decoder.decode(data)
    except UNREADABLE as error:
        raise malformed("a machine's load", data, error) from error
    check_version(message.version)
    return message
