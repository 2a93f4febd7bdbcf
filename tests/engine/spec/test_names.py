"""Names that files, decisions and snapshots are written with are the words that the code uses."""

from enum import StrEnum

import pytest

from headgate import engine
from headgate.engine.actions.runs import RunEvent

NAMED = [
    kind
    for kind in (*(getattr(engine, name) for name in engine.__all__), RunEvent)
    if isinstance(kind, type) and issubclass(kind, StrEnum)
]


@pytest.mark.parametrize("kind", NAMED)
def test_each_is_written_as_it_is_called(kind):
    assert [one.value for one in kind] == [one.name.lower().replace("_", "-") for one in kind]


def test_all_of_them_are_looked_at():
    assert {"DecisionKind", "Metric", "CodecName", "ActionRole", "RunState"} <= {
        k.__name__ for k in NAMED
    }
