"""Submitted dataflows: what is asked of them before they are saved."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from headgate.agent.configuration import Launchers
from headgate.agent.errors import Refused
from headgate.agent.launchers.permitted import refusal
from headgate.agent.state.rows import HBaseConnections
from headgate.agent.state.sealed import Definition
from headgate.agent.state.store import StateStore
from headgate.flows import (
    Dataflow,
    DataflowErrors,
    PoolMember,
    parse_dataflow,
    pool_conflict,
    pool_member,
)

_ANSWER = 10.0  # seconds HBase may take to say which tables there are


class Submissions:
    """Checks dataflows, and saves those that may run.

    Args:
        store: where they are saved, and where others are found.
        connections: to the HBase whose tables they name.
        permitted: what dataflows may use.
    """

    def __init__(
        self, store: StateStore, connections: HBaseConnections, permitted: Launchers
    ) -> None:
        self._store = store
        self._connections = connections
        self._permitted = permitted

    def check_tables(self, dataflow: Dataflow, known: Collection[str]) -> None:
        """Refuse a dataflow over tables that do not exist, those apart that are known already.

        Raises:
            Refused: a table does not exist.
        """
        tables = [table for table in tables_of(dataflow) if table not in known]
        missing = self._connections.call(
            lambda c: [table for table in tables if not c.table_exists(table)], _ANSWER
        )
        if missing:
            raise _no_tables(missing)

    def define(self, dataflow: Dataflow, directory: str, *, shadow: bool) -> Definition:
        """Save a dataflow as the next revision of its definition, and return that.

        Raises:
            Refused: it uses what no dataflow may use here.
        """
        words = refusal(dataflow, directory, self._permitted)
        if words is not None:
            raise Refused(f"dataflow {dataflow.name} may not run here: {words}")
        if not shadow:
            self._check_pool(dataflow, directory)
        return self._store.define(
            Definition(
                dataflow.name,
                dataflow.source,
                directory,
                0,
                time.time(),
                dataflow.profile,
                shadow,
            )
        )

    def _check_pool(self, dataflow: Dataflow, directory: str) -> None:
        """Refuse a dataflow that cannot share the session of those in its pool.

        Raises:
            Refused: their settings or their code differ.
        """
        member = pool_member(dataflow, directory)
        if member is not None:
            known = (listing.definition for listing in self._store.listings().flows)
            conflict = pool_conflict(member, pool_members(known))
            if conflict is not None:
                raise Refused(conflict)


def pool_members(definitions: Iterable[Definition]) -> Iterator[PoolMember]:
    """Yield those dataflows that share a session with the others in their pool."""
    for known in definitions:
        if known.shadow:
            continue
        with suppress(DataflowErrors):  # it does not run, so it shares nothing
            dataflow = parse_dataflow(known.source, known.name, known.profile, known.name)
            member = pool_member(dataflow, known.directory)
            if member is not None:
                yield member


def tables_of(dataflow: Dataflow) -> tuple[str, ...]:
    """Return the tables in which a dataflow's containers lie."""
    containers = (watched.container for watched in dataflow.spec.containers)
    return tuple(dict.fromkeys(table for one in containers for table in one.tables))


def _no_tables(missing: Sequence[str]) -> Refused:
    names = ", ".join(repr(table) for table in missing)
    return Refused(
        f"HBase has no table {names}; create it with its column families first, in the "
        f"HBase shell: create {missing[0]!r}, 'family'; or submit with "
        "--allow-missing-tables if something creates it later"
    )
