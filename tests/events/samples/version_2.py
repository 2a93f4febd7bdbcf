"""What version 2 added to the messages, and the program that stored their bytes beside it.

Run once, when version 2 was made: gates, notify columns of watches, and tables whose notify columns
are not set in an observer's lease. It writes over nothing.
"""

from pathlib import Path

from headgate.events import (
    Container,
    ContainerId,
    ControlMessage,
    Gate,
    Item,
    Notify,
    ObserverLease,
    Origin,
    UpdateMessage,
    Watch,
    WatchList,
    encode_control,
)

UPDATES: dict[str, UpdateMessage] = {}

CONTROLS: dict[str, ControlMessage] = {
    "watch-list-with-notify-columns": WatchList(
        version=2,
        dataflow="air",
        revision=5 << 20 | 2,
        watches=(
            Watch("air:detectors", values=False, notify=Notify()),
            Watch("zones", notify=Notify("air", ("air", "feeder"))),
        ),
    ),
    "gate": Gate(
        version=2,
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
        version=2,
        dataflow="air",
        action="zones",
        bound="kappa-1",
        containers=(),
        until=0.0,
        revision=8,
        released=True,
    ),
    "lease-with-unmarked-tables": ObserverLease(
        version=2, observer="proxy-1", epoch=3, seconds=15.0, sequences={}, unmarked=("zones",)
    ),
}

ORIGINS: dict[str, Origin] = {}

FOLDER = Path(__file__).parent / "version_2"


def write() -> None:
    """Store the bytes of every sample in its own file."""
    FOLDER.mkdir()
    for name, message in CONTROLS.items():
        (FOLDER / f"{name}.msgpack").write_bytes(encode_control(message))


if __name__ == "__main__":
    write()
