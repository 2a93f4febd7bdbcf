"""Every method of HBase's own interface definitions is known for what it does."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict

from headgate.hbase import METHODS, Dialect, Effect, method_of

READING = ("get", "exists", "scanner", "is", "list", "getRow")
"""How the names of methods begin that change nothing."""


def names_of(services: dict[Dialect, object], dialect: Dialect) -> set[str]:
    return set(services[dialect].thrift_services)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dialect", Dialect)
def test_each_is_known(services: dict[Dialect, object], dialect: Dialect) -> None:
    assert names_of(services, dialect) <= set(METHODS[dialect])
    assert all(name.isidentifier() for name in METHODS[dialect])


def test_thrift1_has_grown_since_by_three(services: dict[Dialect, object]) -> None:
    newer = {"getClusterId", "getTableNamesWithIsTableEnabled", "getThriftServerType"}
    assert set(METHODS[Dialect.THRIFT1]) - names_of(services, Dialect.THRIFT1) == newer


@pytest.mark.parametrize("dialect", Dialect)
def test_what_reads_by_its_name_is_no_write(
    services: dict[Dialect, object], dialect: Dialect
) -> None:
    for name in names_of(services, dialect):
        if name.startswith(READING):
            effect = method_of(dialect, name).effect
            assert effect not in (Effect.WRITE, Effect.DEFINE), name


@pytest.mark.parametrize("dialect", Dialect)
def test_what_writes_is_told_by_the_first_words_of_its_name(
    services: dict[Dialect, object], dialect: Dialect
) -> None:
    words = ("mutate", "put", "delete", "append", "increment", "atomic", "check")
    cells = {name for name in names_of(services, dialect) if name.startswith(words)}
    tables = {name for name in cells if name.endswith(("Table", "Family", "Namespace"))}
    for name in cells - tables:
        assert method_of(dialect, name).effect is Effect.WRITE, asdict(method_of(dialect, name))
