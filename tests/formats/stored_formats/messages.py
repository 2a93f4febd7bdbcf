"""Messages in Kafka, and the two values that travel with requests to HBase."""

from __future__ import annotations

import msgspec

from headgate.events import (
    MESSAGES,
    NO_TTL,
    BarrierMark,
    BarrierRequest,
    Container,
    ContainerId,
    ControlMessage,
    Fence,
    Gap,
    Gate,
    Item,
    MachineLoad,
    Notify,
    ObserverLease,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    Watch,
    WatchList,
    decode_control,
    decode_machine,
    decode_notify,
    decode_origin,
    decode_update,
    encode_control,
    encode_machine,
    encode_notify,
    encode_origin,
    encode_origin_text,
    encode_update,
)
from stored_formats.case import Case, struct

ORIGIN = Origin(dataflow="air", action="zones", run="air/zones/7", token=42)

UPDATES: dict[str, UpdateMessage] = {
    "batch-of-all-kinds": UpdateBatch(
        version=1,
        observer="proxy-1",
        epoch=3,
        sequence=17,
        watermark=4096,
        table="air:detectors",
        requests=(
            RequestPart(
                intent=4096,
                method="mutateRows",
                outcome=Outcome.APPLIED,
                received=1735689600.25,
                cells=6,
            ),
            RequestPart(
                intent=4097,
                method="increment",
                outcome=Outcome.UNKNOWN,
                received=1735689600.5,
                cells=4,
                piece=2,
                origin=ORIGIN,
                ambiguous=(0, 3),
            ),
        ),
        kinds=bytes(UpdateKind),
        rows=(b"r0", b"r0", b"r1", b"r1", b"r2", b"r2", b"", b"\x00\xff", b"r3", b"r3"),
        columns=tuple(b"s:o3 s:o3 s:pm25 s: s:  c:n c:n c:text c:text".split(b" ")),
        timestamps=(1735689600000, -1, 5, 6, 7, -1, -1, -1, 2**62, 0),
        values=(b"12.5", *[None] * 5, b"\0\0\0\0\0\0\0\5", b"\2", b"whole", b"tail"),
    ),
    "batch-with-times-to-live-and-increments-by-zero": UpdateBatch(
        version=1,
        observer="proxy-1",
        epoch=3,
        sequence=17,
        watermark=4096,
        table="air:detectors",
        requests=(
            RequestPart(4096, "mutateRows", Outcome.APPLIED, 1735689600.25, 2, ttls=(9000,)),
            RequestPart(4097, "putMultiple", Outcome.UNKNOWN, 1.5, 2, ttls=(NO_TTL, 2**63 - 2)),
            RequestPart(
                4098,
                "increment",
                Outcome.APPLIED,
                1735689600.5,
                2,
                ambiguous=(1,),
                zero_increments=(0, 1),
            ),
        ),
        kinds=bytes((0, 0, 0, 0, 6, 6)),
        rows=(b"r0", b"r1", b"r2", b"r3", b"r4", b"r4"),
        columns=(b"s:o3", b"s:o3", b"s:o3", b"s:o3", b"c:n", b"c:m"),
        timestamps=(-1, -1, 5, -1, 6, 7),
        values=(b"1", b"2", b"3", b"4", b"\0\0\0\0\0\0\0\5", bytes(8)),
    ),
    "batch-without-values-from-a-journal": UpdateBatch(
        version=1,
        observer="proxy-1",
        epoch=4,
        sequence=0,
        watermark=0,
        table="t",
        requests=(RequestPart(1, "put", Outcome.UNKNOWN, 0.0, 1),),
        kinds=b"\x00",
        rows=(b"r",),
        columns=(b"f:q",),
        timestamps=(-1,),
        values=(None,),
        recovered=True,
    ),
    "batch-of-nothing": UpdateBatch(1, "proxy-1", 1, 0, 0, "t", (), b"", (), (), (), ()),
    "table-truncated": TableChange(
        version=1,
        observer="proxy-1",
        epoch=3,
        sequence=18,
        intent=4098,
        table="t",
        kind=TableChangeKind.TRUNCATED,
        outcome=Outcome.APPLIED,
        received=1735689601.0,
    ),
    "family-dropped": TableChange(
        version=1,
        observer="proxy-1",
        epoch=3,
        sequence=19,
        intent=4099,
        table="t",
        kind=TableChangeKind.FAMILY_DROPPED,
        outcome=Outcome.UNKNOWN,
        received=1735689602.0,
        family="f",
    ),
    "barrier-mark": BarrierMark(1, "proxy-1", epoch=3, sequence=20, id="run-7", partitions=6),
    "gap": Gap(
        version=1,
        observer="proxy-1",
        epoch=3,
        sequence=21,
        table="t",
        since=1735689603.0,
        until=1735689604.5,
        reason="the journal was full and the policy is to pass",
    ),
}

CONTROLS: dict[str, ControlMessage] = {
    "watch-list": WatchList(
        version=1,
        dataflow="air",
        revision=5 << 20 | 2,
        watches=(
            Watch("air:detectors", values=False, notify=Notify()),
            Watch("zones", notify=Notify("air", ("air", "feeder"))),
            Watch("maps"),
        ),
    ),
    "watch-list-that-ends": WatchList(version=1, dataflow="air", revision=3, watches=()),
    "barrier-request": BarrierRequest(
        version=1, id="run-7", tables=("air:detectors", "zones"), requester="agent-1"
    ),
    "fence": Fence(version=1, dataflow="air", action="zones", token=43),
    "gate": Gate(
        version=1,
        dataflow="air",
        action="zones",
        bound="kappa-1",
        containers=(
            Container(
                ContainerId("air:detectors/s:o3"),
                (Item("air:detectors", b"s", b"o3", b"a", b"b"), Item("zones")),
            ),
        ),
        until=1735689630.5,
        revision=7,
    ),
    "gate-that-was-released": Gate(
        version=1,
        dataflow="air",
        action="zones",
        bound="kappa-1",
        containers=(),
        until=0.0,
        revision=8,
        released=True,
    ),
    "lease": ObserverLease(
        version=1,
        observer="proxy-1",
        epoch=3,
        seconds=15.0,
        sequences={"headgate.updates.t": (21, 0, 7)},
        address="127.0.0.1:9464",
        unmarked=("zones",),
        reads={"t": {"f:q": 7, "": 1}},
        number=12,
        incarnation="6f1c",
    ),
    "lease-part": ObserverLease(
        version=1,
        observer="proxy-1",
        epoch=3,
        seconds=15.0,
        sequences={"headgate.updates.u": (3,)},
        part=1,
        incarnation="6f1c",
    ),
    "lease-that-ended": ObserverLease(
        version=1,
        observer="proxy-1",
        epoch=3,
        seconds=15.0,
        sequences={},
        ended=True,
        incarnation="6f1c",
    ),
}

MACHINES = {
    "machine": MachineLoad(1, "spark-7", 1735689600.5, 12.5, 40.0, 3.0, 1e6, 0.25, weight=16),
    "machine-that-measures-little": MachineLoad(1, "spark-8", 1735689600.5, load=0.5),
}


def of_version_2(data: bytes) -> bytes:
    """Return a message as one of the next version, in which everything else may be another."""
    message = msgspec.msgpack.decode(data)
    if isinstance(message, list):
        message[1:] = [2, {"new": True}]
    else:
        message |= {"type": "new", "version": 2}
    return msgspec.msgpack.encode(message)


FORMATS = (MESSAGES,)
CASES = [
    *(
        struct(
            MESSAGES.name, f"{name}.msgpack", message, encode_update, decode_update, of_version_2
        )
        for name, message in UPDATES.items()
    ),
    *(
        struct(
            MESSAGES.name, f"{name}.msgpack", message, encode_control, decode_control, of_version_2
        )
        for name, message in CONTROLS.items()
    ),
    *(
        struct(
            MESSAGES.name, f"{name}.msgpack", message, encode_machine, decode_machine, of_version_2
        )
        for name, message in MACHINES.items()
    ),
]

BARE = [
    struct("origin", "run.msgpack", ORIGIN, encode_origin, decode_origin),
    struct(
        "origin",
        "run.json",
        ORIGIN,
        lambda origin: encode_origin_text(origin).encode(),
        decode_origin,
    ),
    Case(
        "notify cell",
        "run.txt",
        decode_notify,
        lambda: (1735689600.25, "air/zones/7"),
        lambda: encode_notify(1735689600.2506, ORIGIN),
    ),
    Case(
        "notify cell",
        "nobody.txt",
        decode_notify,
        lambda: (1735689600.25, ""),
        lambda: encode_notify(1735689600.25, None),
    ),
]
"""Without a version: HBase's clients send them, too."""
