"""Who may change the tables in which agents keep what they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.events import Origin
from headgate.hbase import Dialect, method_of
from headgate.hbase.methods import METHODS
from headgate.hbase.requests import Cells, Write
from headgate.observer.config import AccessSettings, parse_config
from headgate.observer.security.state_tables import StateTables
from headgate.settings import ConfigurationError, KeyRing, agent_write

KEY = "0123456789abcdef" * 4
OTHER_KEY = "fedcba9876543210" * 4
AGENT = Origin("", "", "", 0, "agent")
ETL = Origin("", "", "", 0, "etl")


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_text(KEY)
    return str(file)


def refused(
    tables: StateTables,
    name: str,
    table: str = "headgate",
    *,
    by: Origin | None = None,
    change: Write | None = None,
    dialect: Dialect = Dialect.THRIFT2,
) -> str:
    method = method_of(dialect, name)
    named = (table,) if table else ()
    if not tables.concern(by, method, named):
        return ""
    return tables.refusal(by, method, named, change)


def write(*rows: bytes, signed: tuple[str, list[bytes]] | None, key: str = KEY) -> Write:
    """Return a write to rows; ``signed`` is what its proof is of."""
    cells = Cells.empty()
    for row in rows:
        cells.add(0, row, b"spec:definition", -1, b"x")
    origin = None
    if signed is not None:
        proof = KeyRing([key.encode()]).sign(*agent_write(*signed))
        origin = Origin("", "", "", 0, "", proof)
    return Write("put", "headgate", cells, () if origin is None else (origin,))


CHANGES = [
    (method.name, dialect)
    for dialect in Dialect
    for method in METHODS[dialect].values()
    if method.effect.value in ("write", "define", "admin") and method.table.value != "nowhere"
]


@pytest.mark.parametrize(("name", "dialect"), CHANGES, ids=str)
def test_every_change_by_a_stranger_is_refused_but_creating_the_table(
    name: str, dialect: Dialect, key_file: str
) -> None:
    tables = StateTables(AccessSettings(agents_key_file=key_file))
    text = refused(tables, name, dialect=dialect)
    assert bool(text) == (name != "createTable")
    assert refused(tables, name, "air", dialect=dialect) == ""


@pytest.mark.parametrize("name", ["put", "deleteMultiple", "truncateTable", "deleteTable"])
def test_what_was_learned_is_guarded_beside_each_state_table(name: str, key_file: str) -> None:
    by_default = StateTables(AccessSettings(agents_key_file=key_file))
    assert "of headgate-knowledge may change" in refused(by_default, name, "headgate-knowledge")
    other = StateTables(AccessSettings(agents_key_file=key_file, state_tables=("air:state",)))
    assert refused(other, name, "air:state-knowledge")
    assert refused(other, name, "headgate-knowledge") == ""


def test_an_agent_writes_what_it_has_learned(key_file: str) -> None:
    tables = StateTables(AccessSettings(agents_key_file=key_file))
    table, rows = "headgate-knowledge", [b"models/air/map/1"]
    for signed, passes in ((table, True), ("headgate", False)):
        change = write(*rows, signed=(signed, rows))
        there = Write("put", table, change.cells, change.origins)
        assert (refused(tables, "put", table, change=there) == "") == passes


def test_a_method_that_nobody_knows_might_change_anything(key_file: str) -> None:
    tables = StateTables(AccessSettings(agents_key_file=key_file))
    assert "agent" in refused(tables, "putEverywhere", "")


def test_reading_is_free(key_file: str) -> None:
    assert refused(StateTables(AccessSettings(agents_key_file=key_file)), "get") == ""


def test_who_is_proven_an_agent_by_its_connection_may_do_all() -> None:
    tables = StateTables(AccessSettings(agents=("agent",)))
    assert refused(tables, "put", by=AGENT) == ""
    assert refused(tables, "deleteTable", by=AGENT) == ""
    assert "'etl' is not known as an agent" in refused(tables, "put", by=ETL)


def test_without_a_way_to_know_agents_nothing_is_refused() -> None:
    assert refused(StateTables(AccessSettings()), "put") == ""


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        (write(b"r", signed=("headgate", [b"r"])), True),
        (write(b"r", b"s", signed=("headgate", [b"r", b"s"])), True),
        (write(b"r", b"s", signed=("headgate", [b"r"])), False),
        (write(b"r", signed=("headgate", [b"r", b"s"])), False),
        (write(b"r", signed=("headgate", [])), False),
        (write(b"r", signed=("other", [b"r"])), False),
        (write(b"r", signed=("headgate", [b"r"]), key=OTHER_KEY), False),
        (write(b"r", signed=None), False),
    ],
)
def test_a_signature_proves_an_agent_for_exactly_these_rows(
    change: Write, passes: bool, key_file: str
) -> None:
    tables = StateTables(AccessSettings(agents_key_file=key_file))
    assert (refused(tables, "put", change=change) == "") == passes


def test_no_name_that_a_request_claims_makes_it_an_agent(key_file: str) -> None:
    tables = StateTables(AccessSettings(agents=("agent",), agents_key_file=key_file))
    cells = Cells.empty()
    cells.add(0, b"r", b"f:q", -1, b"x")
    assert refused(tables, "put", change=Write("put", "headgate", cells, (AGENT,)))


def parsed(access: str) -> Any:
    return parse_config(
        'name = "one"\n[kafka]\nbootstrap = "k:9092"\n[journal]\ndirectory = "j"\n'
        '[thrift2]\nlisten = "127.0.0.1:0"\nupstream = "h:9091"\n[access]\n' + access,
        "observer.toml",
        {},
    )


def test_an_agent_that_nobody_could_be_is_refused_in_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"observer.toml:\d+.*'agent'.*certificates"):
        parsed('agents = ["agent"]')
    certificate = '[[access.certificates]]\ncommon_name = "a"\nwriter = "agent"\n'
    assert parsed(f'agents = ["agent"]\n{certificate}').access.guards_state


def test_a_key_that_is_not_there_is_refused_in_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"agents_key_file.*cannot be read"):
        parsed(f'agents_key_file = "{tmp_path / "none"}"')
