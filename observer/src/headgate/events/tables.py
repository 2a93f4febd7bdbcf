"""Names of tables: one spelling for each table, and patterns that many of them fit.

HBase takes ``default:t`` and ``t`` for one table. Here it is called ``t``: names are brought to
this form where they enter, so that they can be compared everywhere else.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

DEFAULT_NAMESPACE: Final = "default:"
"""Prefix of the full name of a table that is in no other namespace."""


def canonical_table(name: str) -> str:
    """Return a table's name without its namespace, where that is ``default``."""
    return name.removeprefix(DEFAULT_NAMESPACE)


def fits_table(pattern: str, table: str) -> bool:
    """Return whether a table's canonical name fits a pattern, as of a shell.

    A pattern that begins with ``default:`` means tables of that namespace alone: ``default:*`` fits
    ``t`` but not ``sales:t``, while ``*`` fits both.
    """
    plain = canonical_table(pattern)
    if plain is not pattern and ":" in table:
        return False
    return fnmatchcase(table, plain)


def table_problem(name: str) -> str:
    """Return why no table can have this name; empty where one can."""
    namespace, colon, plain = name.rpartition(":")
    if not plain or (colon and not namespace) or ":" in namespace:
        return "no table has this name; write it as table or namespace:table"
    if not name.isprintable() or " " in name or not {"*", "?", "[", "/"}.isdisjoint(name):
        return "this is no name of a table; write it without patterns, blanks and slashes"
    return ""
