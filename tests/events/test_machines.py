"""Messages of sensors."""

import pytest

from headgate.events import (
    VERSION,
    MachineLoad,
    MalformedEvent,
    decode_machine,
    encode_machine,
)


def test_a_sample_is_read_back():
    sample = MachineLoad(VERSION, "spark-7", 5.5, cpu=12.5, load=0.25, weight=16)
    assert decode_machine(encode_machine(sample)) == sample


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x80", b"\xff" * 20])
def test_other_bytes_are_no_sample(data):
    with pytest.raises(MalformedEvent, match="not a machine's load"):
        decode_machine(data)


def test_a_newer_sample_is_refused():
    with pytest.raises(MalformedEvent, match="a newer headgate wrote it"):
        decode_machine(encode_machine(MachineLoad(VERSION + 1, "spark-7", 5.5)))
