"""The messages of version 1, and the program that stored their bytes beside it.

Run once, when version 1 was made. The bytes stay as they are: what later versions must read. A
later version stores its own samples by its own program; this one writes over nothing.
"""

from pathlib import Path

from headgate.events import (
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    Fence,
    Gap,
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
    encode_control,
    encode_origin,
    encode_update,
)

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
    "barrier-mark": BarrierMark(version=1, observer="proxy-1", epoch=3, sequence=20, id="run-7"),
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
        revision=2,
        watches=(Watch("air:detectors"), Watch("zones", values=False)),
    ),
    "watch-list-that-ends": WatchList(version=1, dataflow="air", revision=3, watches=()),
    "barrier-request": BarrierRequest(
        version=1, id="run-7", tables=("air:detectors", "zones"), requester="agent-1"
    ),
    "fence": Fence(version=1, dataflow="air", action="zones", token=43),
    "lease": ObserverLease(
        version=1,
        observer="proxy-1",
        epoch=3,
        seconds=15.0,
        sequences={"headgate.updates.t": (21, 0, 7)},
        address="127.0.0.1:9464",
    ),
    "lease-that-ended": ObserverLease(
        version=1, observer="proxy-1", epoch=3, seconds=15.0, sequences={}, ended=True
    ),
}

ORIGINS = {"origin": ORIGIN}

FOLDER = Path(__file__).parent / "version_1"


def write() -> None:
    """Store the bytes of every sample in its own file."""
    FOLDER.mkdir()
    encoded = {
        **{name: encode_update(message) for name, message in UPDATES.items()},
        **{name: encode_control(message) for name, message in CONTROLS.items()},
        **{name: encode_origin(message) for name, message in ORIGINS.items()},
    }
    for name, data in encoded.items():
        (FOLDER / f"{name}.msgpack").write_bytes(data)


if __name__ == "__main__":
    write()
