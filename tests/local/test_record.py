"""The record of an instance's ports survives crashes and refuses damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.local import RecordDamagedError
from headgate.local.record import InstanceRecord, load_record, save_record


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    save_record(path, InstanceRecord(ports={"thrift1": 19090}))
    assert load_record(path) == InstanceRecord(ports={"thrift1": 19090})


def test_an_instance_without_a_record_has_no_ports(tmp_path: Path) -> None:
    assert load_record(tmp_path / "instance.json") == InstanceRecord()


@pytest.mark.parametrize("text", ["", "{", '{"ports": {"thrift1": "x"}}'])
def test_a_damaged_record_is_named_with_its_cure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "instance.json"
    path.write_text(text)
    with pytest.raises(RecordDamagedError, match="delete it"):
        load_record(path)
