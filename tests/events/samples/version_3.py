"""Samples of what version 3 added to the messages, and the program that stored their bytes.

Version 3 added times to live of cells, and increments by 0. The program was run once, when that
version was made. It overwrites nothing.
"""

from pathlib import Path

from headgate.events import (
    NO_TTL,
    ControlMessage,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateMessage,
    encode_update,
)

UPDATES: dict[str, UpdateMessage] = {
    "batch-with-times-to-live-and-increments-by-zero": UpdateBatch(
        version=3,
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
}

CONTROLS: dict[str, ControlMessage] = {}

ORIGINS: dict[str, Origin] = {}

FOLDER = Path(__file__).parent / "version_3"


def write() -> None:
    """Store the bytes of every sample in its own file."""
    FOLDER.mkdir()
    for name, message in UPDATES.items():
        (FOLDER / f"{name}.msgpack").write_bytes(encode_update(message))


if __name__ == "__main__":
    write()
