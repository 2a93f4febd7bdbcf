"""What an instance remembers between commands: its ports, so that addresses stay the same."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headgate.local.configuration import write_whole
from headgate.local.errors import RecordDamagedError


class InstanceRecord(msgspec.Struct, frozen=True):
    """The file ``instance.json``.

    Attributes:
        ports: Port key, such as ``thrift1``, to the number that it had last.
        version: Of this file's form.
    """

    ports: dict[str, int] = {}
    version: int = 1


def load_record(path: Path) -> InstanceRecord:
    """Return the record of an instance; an empty one where it has none yet.

    Raises:
        RecordDamagedError: If the file is there but is not a record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstanceRecord)
    except FileNotFoundError:
        return InstanceRecord()
    except msgspec.DecodeError as error:
        raise RecordDamagedError(
            f"{path} is damaged ({error}); delete it and start again: the data stays, only the "
            "ports may change"
        ) from error


def save_record(path: Path, record: InstanceRecord) -> None:
    """Write the record, whole or not at all."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(record)).decode() + "\n")
