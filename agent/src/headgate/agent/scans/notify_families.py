"""The column family of notify columns: made before one is asked for, removed after the last."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import structlog

from headgate.agent.state.rows import HBaseConnections, Rows
from headgate.client import RequestRefused, Thrift2Connection
from headgate.events import NOTIFY_FAMILY

log = structlog.get_logger("headgate.agent.notify")

_FAMILY = NOTIFY_FAMILY.decode()
_MADE = b"spec:made"
_USED = b"spec:used."


class NotifyFamilies:
    """Families of notify columns in the tables of dataflows; calls may raise ``Unreachable``.

    Row ``notify/TABLE`` of the state table says which dataflows use the table's family, and whether
    headgate made it: one that was there before is left where it is.
    """

    def __init__(self, connections: HBaseConnections, rows: Rows) -> None:
        self._connections = connections
        self._rows = rows

    def provide(self, dataflow: str, tables: Iterable[str]) -> frozenset[str]:
        """See that tables have the family; return those that do."""
        return frozenset(table for table in tables if self._provide(dataflow, table))

    def _provide(self, dataflow: str, table: str) -> bool:
        row = _row(table)

        def make(connection: Thrift2Connection) -> str:
            try:
                if _FAMILY not in connection.families(table):
                    self._rows.put(row, {_MADE: b"1"})
                    connection.add_family(table, _FAMILY)
            except RequestRefused as error:
                # Another agent may have been first, or there is no such table.
                return "" if _has_family(connection, table) else str(error)
            return ""

        # Noted first: whoever removes the family at this moment must see that it is used.
        self._rows.put(row, {_USED + dataflow.encode(): b"1"})
        problem = self._connections.call(make)
        if problem:
            self._rows.delete(row, (_USED + dataflow.encode(),))
            log.error(
                "no notify column",
                table=table,
                dataflow=dataflow,
                problem=problem,
                cure=f"alter '{table}', '{_FAMILY}' in the HBase shell, then update the dataflow",
            )
        return not problem

    def drop(self, dataflow: str, tables: Collection[str]) -> None:
        """Remove the family where this dataflow was the last to use it and headgate made it."""
        for table in tables:
            row = _row(table)
            self._rows.delete(row, (_USED + dataflow.encode(),))
            left = self._rows.get(row, (b"spec",))
            if _MADE in left and len(left) == 1:
                self._connections.call(partial(_drop, table))
                self._rows.delete(row)


def _drop(table: str, connection: Thrift2Connection) -> None:
    try:
        connection.delete_family(table, _FAMILY)
    except RequestRefused as error:
        if _has_family(connection, table):
            log.warning("notify family not removed", table=table, problem=str(error))


def _has_family(connection: Thrift2Connection, table: str) -> bool:
    try:
        return _FAMILY in connection.families(table)
    except RequestRefused:
        return False


def _row(table: str) -> bytes:
    return b"notify/" + table.encode()
