"""The tables that agents have for themselves, which observers guard and never watch by pattern."""

from __future__ import annotations

from collections.abc import Iterable


def knowledge_table(state_table: str) -> str:
    """Return the table beside a state table in which agents keep pairs and models."""
    return f"{state_table}-knowledge"


def agent_tables(state_tables: Iterable[str]) -> tuple[str, ...]:
    """Return state tables, each with its knowledge table after it."""
    return tuple(each for table in state_tables for each in (table, knowledge_table(table)))
