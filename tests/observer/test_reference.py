"""docs/observer.md names every key, and its example is valid."""

import re
from pathlib import Path
from typing import get_args

import msgspec

from headgate.hbase import NOTIFIABLE, Dialect, Room
from headgate.observer import ObserverConfig, parse_config

REFERENCE = (Path(__file__).parents[2] / "docs" / "observer.md").read_text()


def keys(kind: type = ObserverConfig, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for each in msgspec.structs.fields(kind):
        tables = [
            part
            for part in (each.type, *get_args(each.type))
            if isinstance(part, type) and issubclass(part, msgspec.Struct)
        ]
        if tables:
            found |= keys(tables[0], f"{prefix}{each.name}.")
        else:
            found.add(prefix + each.name)
    return found


def test_every_key_is_described_and_no_other() -> None:
    section = REFERENCE.partition("## Keys")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {key for row in rows for key in re.findall(r"`([^`]+)`", row)} == keys()


def test_the_example_is_valid() -> None:
    example, *more = re.findall(r"```toml\n(.*?)```", REFERENCE, re.DOTALL)
    config = parse_config("\n".join([example, *more]), "docs/observer.md", {})
    assert config.name == "observer-1"
    assert config.access is not None


def test_each_method_that_writes_is_said_to_have_notify_cells_or_why_it_has_none() -> None:
    section = REFERENCE.partition("| its notify cells |")[2].partition("\n\n")[0]
    said: dict[tuple[Dialect, str], str] = {}
    for line in section.splitlines():
        if line.startswith("| Thrift"):
            methods, cells = line.strip("| ").split(" | ")
            for part in methods.split("; "):
                dialect = Dialect(part.partition(" ")[0].lower())
                said |= {(dialect, method): cells for method in re.findall(r"`(\w+)`", part)}
    known = {(dialect, m): place for dialect in Dialect for m, place in NOTIFIABLE[dialect].items()}
    assert said.keys() == known.keys()
    for method, place in known.items():
        if place.room is Room.NONE:
            assert said[method] == f"none: {place.reason}"
        else:
            assert not said[method].startswith("none")
