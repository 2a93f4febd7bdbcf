"""The family of notify columns comes with the first dataflow and goes with the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from simulation import MemoryRows

from headgate.agent.scans.notify_families import NotifyFamilies
from headgate.agent.state.rows import HBaseConnections
from headgate.client import RequestRefused


class Tables:
    """Column families by table, behind connections."""

    def __init__(self, **tables: set[str]) -> None:
        self.tables = tables
        self.refusing = False

    def call(self, what: Callable[[Any], Any]) -> Any:
        return what(self)

    def families(self, table: str) -> list[str]:
        if table not in self.tables:
            raise RequestRefused("no such table", table)
        return sorted(self.tables[table])

    def add_family(self, table: str, family: str) -> None:
        if self.refusing or family in self.tables[table]:
            raise RequestRefused("refused", family)
        self.tables[table].add(family)

    def delete_family(self, table: str, family: str) -> None:
        self.families(table)
        self.tables[table].discard(family)


@pytest.fixture
def tables() -> Tables:
    return Tables(t={"f"}, own={"f", "hg"})


@pytest.fixture
def families(tables: Tables) -> NotifyFamilies:
    return NotifyFamilies(cast("HBaseConnections", tables), MemoryRows())


def test_it_is_made_once_and_removed_with_the_last_dataflow(tables, families):
    assert families.provide("a", ["t"]) == families.provide("b", ["t"]) == {"t"}
    families.drop("a", ["t"])
    assert tables.tables["t"] == {"f", "hg"}
    families.drop("b", ["t"])
    assert tables.tables["t"] == {"f"}


def test_one_that_was_there_before_stays(tables, families):
    families.provide("a", ["own"])
    families.drop("a", ["own"])
    assert tables.tables["own"] == {"f", "hg"}


def test_a_table_that_is_not_there_gets_no_notify_column(families):
    assert families.provide("a", ["t", "missing"]) == {"t"}


def test_where_it_may_not_be_made_the_dataflow_goes_on_without(tables, families):
    tables.refusing = True
    assert families.provide("a", ["t"]) == frozenset()
    tables.refusing = False
    assert families.provide("a", ["t"]) == {"t"}


def test_one_of_a_table_that_is_gone_is_forgotten(tables, families):
    families.provide("a", ["t"])
    del tables.tables["t"]
    families.drop("a", ["t"])
    tables.tables["t"] = {"f", "hg"}
    families.provide("b", ["t"])
    families.drop("b", ["t"])
    assert tables.tables["t"] == {"f", "hg"}
