"""What is asked of a dataflow before it is saved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulation import SEALS, MemoryRows

from headgate.agent.configuration import Launchers
from headgate.agent.errors import Refused
from headgate.agent.ownership.submissions import Submissions, pool_members, tables_of
from headgate.agent.state.sealed import Definition, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.flows import Dataflow, parse_dataflow

SOURCE = """
name: air
containers: {{input: in c:v, more: in c:w, output: out c:v}}
actions:
  feed: {{input: input}}
  feed-more: {{input: more}}
  clean: {{step: "steps:clean", reads: [input, more], writes: output}}
python_path: [{path}]
spark: {{spark.executor.memory: {memory}}}
spark_pool: {pool}
"""


def source(pool: str = "shared", memory: str = "1g", path: str = "code") -> str:
    return SOURCE.format(pool=pool, memory=memory, path=path)


def flow(name: str, text: str | None = None) -> Dataflow:
    return parse_dataflow(source() if text is None else text, "file", None, name)


class Table:
    """The state table in memory, and the tables that HBase has."""

    def __init__(self, *tables: str, permitted: Launchers | None = None) -> None:
        self.asked: list[str] = []
        self.store = StateStore(MemoryRows(), SEALS, RememberedRevisions())

        def exists(table: str) -> bool:
            self.asked.append(table)
            return table in tables

        connection = SimpleNamespace(table_exists=exists)
        connections = SimpleNamespace(call=lambda what, seconds: what(connection))
        self.submissions = Submissions(
            self.store,
            cast("Any", connections),
            Launchers() if permitted is None else permitted,
        )

    def names(self) -> list[str]:
        return [listing.definition.name for listing in self.store.listings().flows]


def test_tables_of_a_dataflow_are_named_once() -> None:
    assert tables_of(flow("air")) == ("in", "out")


def test_a_dataflow_over_tables_that_exist_passes() -> None:
    table = Table("in", "out")
    table.submissions.check_tables(flow("air"), ())
    assert table.asked == ["in", "out"]


@pytest.mark.parametrize(
    ("known", "there", "names"),
    [
        ((), (), ["'in', 'out'", "create 'in', 'family'"]),
        ((), ("in",), ["no table 'out';", "create 'out', 'family'"]),
        (("out",), (), ["no table 'in';", "create 'in', 'family'"]),
    ],
)
def test_tables_that_are_missing_are_named_with_the_command_that_creates_one(
    known: tuple[str, ...], there: tuple[str, ...], names: list[str]
) -> None:
    with pytest.raises(Refused) as caught:
        Table(*there).submissions.check_tables(flow("air"), known)
    for name in names:
        assert name in str(caught.value)
    assert "or submit with --allow-missing-tables" in str(caught.value)


def test_tables_that_are_known_are_not_looked_for() -> None:
    table = Table()
    table.submissions.check_tables(flow("air"), ("in", "out", "other"))
    assert table.asked == []


def test_a_dataflow_is_saved_as_the_next_revision() -> None:
    table = Table()
    first = table.submissions.define(flow("air"), "/flows", shadow=True)
    second = table.submissions.define(flow("air"), "/flows", shadow=False)
    assert (first.revision, second.revision) == (1, 2)
    assert (first.name, first.source, first.directory) == ("air", source(), "/flows")
    assert (first.profile, first.shadow, second.shadow) == (None, True, False)
    assert table.store.listing("air").definition == second
    assert 0 < first.submitted <= second.submitted


def test_what_no_dataflow_may_use_is_not_saved() -> None:
    table = Table(permitted=Launchers(allowed=("command",)))
    with pytest.raises(Refused, match="dataflow air may not run here: action 'clean' is launched"):
        table.submissions.define(flow("air"), "/flows", shadow=True)
    assert table.names() == []


# -- pools of sessions


def test_a_dataflow_that_cannot_share_its_pools_session_is_not_saved() -> None:
    table = Table()
    table.submissions.define(flow("air"), "/flows", shadow=False)
    with pytest.raises(Refused, match=r"spark\.executor\.memory.*2g.*fire.*1g.*air"):
        table.submissions.define(flow("fire", source(memory="2g")), "/flows", shadow=False)
    with pytest.raises(Refused, match="python_path"):
        table.submissions.define(flow("fire"), "/elsewhere", shadow=False)
    assert table.names() == ["air"]


@pytest.mark.parametrize(
    ("name", "text", "shadow"),
    [
        ("fire", source(), False),
        ("fire", source("own", "2g"), False),
        # It launches nothing, so it shares nothing.
        ("fire", source(memory="2g"), True),
        # Its former self is about to be replaced.
        ("air", source(memory="2g"), False),
    ],
)
def test_a_dataflow_that_shares_or_needs_no_session_is_saved(
    name: str, text: str, shadow: bool
) -> None:
    table = Table()
    table.submissions.define(flow("air"), "/flows", shadow=False)
    table.submissions.define(flow(name, text), "/flows", shadow=shadow)
    assert name in table.names()


def saved(name: str, text: str, *, shadow: bool = False) -> Definition:
    return Definition(name, text, "/flows", 1, 1.0, None, shadow)


def test_only_dataflows_that_launch_in_a_pool_are_members() -> None:
    members = pool_members(
        [
            saved("air", source()),
            saved("shadow", source(), shadow=True),
            saved("broken", "name: broken\n"),
            saved("alone", "".join(source().partition("spark_pool")[:1])),
            saved("fire", source(memory="2g")),
        ]
    )
    assert [(one.dataflow, one.pool, one.roots) for one in members] == [
        ("air", "shared", ("/flows/code",)),
        ("fire", "shared", ("/flows/code",)),
    ]
