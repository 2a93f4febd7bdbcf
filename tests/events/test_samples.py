"""Messages that an earlier version stored are read, with the meaning they had."""

import importlib.util
from pathlib import Path

import pytest

from headgate.events import VERSION, decode_control, decode_origin, decode_update

SAMPLES = Path(__file__).parent / "samples"


def samples_of(version):
    """The program that wrote the samples of a version; its messages say what the bytes mean."""
    path = SAMPLES / f"version_{version}.py"
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    program = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(program)
    return program


CASES = [
    pytest.param(program.FOLDER / f"{name}.msgpack", decode, message, id=f"{version}-{name}")
    for version in range(1, VERSION + 1)
    for program in [samples_of(version)]
    for decode, messages in (
        (decode_update, program.UPDATES),
        (decode_control, program.CONTROLS),
        (decode_origin, program.ORIGINS),
    )
    for name, message in messages.items()
]


@pytest.mark.parametrize(("stored", "decode", "meaning"), CASES)
def test_stored_message_is_read(stored, decode, meaning):
    assert decode(stored.read_bytes()) == meaning


def test_every_stored_message_has_a_meaning():
    stored = set(SAMPLES.rglob("*.msgpack"))

    assert stored == {case.values[0] for case in CASES}


def test_every_version_has_samples():
    assert all((SAMPLES / f"version_{version}.py").exists() for version in range(1, VERSION + 1))
