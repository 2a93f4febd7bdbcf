"""The reference of the file format says what the code does."""

import re
from pathlib import Path

import pytest

from headgate.flows import parse_dataflow
from headgate.flows.dataflow import GRAMMAR
from headgate.flows.grammar.kinds import Either, ListOf, MapOf, RecordOf

REFERENCE = Path(__file__).parents[2] / "docs" / "dataflow-file.md"
FILES = re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", FILES, ids=lambda text: text.partition("\n")[0])
def test_files_shown_are_in_order(text):
    assert parse_dataflow(text, REFERENCE.name).warnings == ()


def keys_of(kind):
    match kind:
        case RecordOf(keys=keys):
            yield from keys
            for key in keys.values():
                yield from keys_of(key.kind)
        case MapOf(value=inner) | ListOf(item=inner):
            yield from keys_of(inner)
        case Either(kinds=kinds):
            for one in kinds:
                yield from keys_of(one)


@pytest.mark.parametrize("key", sorted(set(keys_of(GRAMMAR))))
def test_every_key_is_explained(key):
    assert re.search(rf"`{key}`|`{{?(\w+: .*)?{key}: ", REFERENCE.read_text(encoding="utf-8"))
