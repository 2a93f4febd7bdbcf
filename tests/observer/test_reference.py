"""docs/observer.md names every key, and its example is valid."""

import re
from pathlib import Path
from typing import get_args

import msgspec

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
