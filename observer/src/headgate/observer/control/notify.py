"""Notify columns: which tables ask for them, and which writes get their cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import structlog

from headgate.events import NOTIFY_FAMILY, Notify, Origin, WatchList, encode_notify
from headgate.hbase import Dialect, Request, SchemaChange, Write, with_notify
from headgate.wire import Message, ProtocolError

_log = structlog.get_logger("headgate.observer.control.notify")

_MAY_LOSE_THE_FAMILY = ("deleteTable", "modifyTable")


class Log(Protocol):
    """Where it is said what goes wrong with a write."""

    def warning(self, event: str, **fields: Any) -> object:
        """Write a line."""


class NotifyColumns:
    """Puts notify cells into writes of the tables whose watch lists ask for them.

    Without its family for notify columns a table refuses whole writes. Who asks vouches for the
    family; when it turns out to be missing, or may go, no more cells are set in the table until a
    watch list asks anew. A write that was refused is never repeated here.
    """

    def __init__(
        self, *, limit_bytes: int = 1 << 31, clock: Callable[[], float] = time.time
    ) -> None:
        """Begin with no columns.

        ``limit_bytes`` is how long a request may become, ``clock`` is Unix time in seconds.
        """
        self._limit = limit_bytes
        self._clock = clock
        self.asked: dict[str, tuple[Notify, ...]] = {}
        """The columns by table: empty while no write need be looked at."""
        self._stopped: set[str] = set()
        self.marked = 0
        """Requests that were given notify cells."""
        self.unmarked = 0
        """Writes of tables that ask for notify columns that went on without."""

    @property
    def stopped(self) -> tuple[str, ...]:
        """Tables whose notify columns are asked for and not set."""
        return tuple(sorted(self._stopped & self.asked.keys()))

    def ask(self, newest: WatchList, known: Iterable[WatchList]) -> None:
        """Take what all known watch lists ask for; the newest one vouches for families anew."""
        self._stopped -= {watch.table for watch in newest.watches if watch.notify is not None}
        asked: dict[str, dict[Notify, None]] = {}
        for watch_list in known:
            for watch in watch_list.watches:
                if watch.notify is not None:
                    asked.setdefault(watch.table, {})[watch.notify] = None
        self.asked = {table: tuple(columns) for table, columns in asked.items()}

    def stop(self, table: str, reason: str) -> None:
        """Set no more cells in a table until a watch list asks for them anew."""
        if table in self._stopped or table not in self.asked:
            return
        self._stopped.add(table)
        _log.error("notify columns are not set any more", table=table, reason=reason)

    def marked_write(
        self,
        dialect: Dialect,
        request: Request,
        table: str,
        log: Log,
        origin: Origin | None = None,
    ) -> Message | None:
        """Return a write with the cells that its table asks for; None if it gets none.

        ``log`` is that of the connection on which it came, ``origin`` who writes where the request
        itself does not say.
        """
        columns = self.asked.get(table, ())
        if columns and table in self._stopped:
            self.unmarked += 1
            return None
        write, message = request.change, request.message
        if not isinstance(write, Write):
            return None
        writers = write.writers(origin)
        names = {writer.dataflow or writer.writer for writer in writers if writer is not None}
        value = encode_notify(self._clock(), writers[0] if len(writers) == 1 else None)
        wanted = {
            column.qualifier.encode(): value
            for column in columns
            if not column.writers or not names.isdisjoint(column.writers)
        }
        if not wanted:
            return None
        found: Message | None = None
        try:
            found = with_notify(dialect, message, tuple(wanted.items()))
        except ProtocolError as error:
            log.warning(
                "a write cannot be given notify cells",
                method=message.name,
                request=message.seqid,
                table=table,
                reason=str(error),
            )
        if found is None or len(found.raw) > self._limit:
            self.unmarked += 1
            return None
        self.marked += 1
        return found

    def table_changes(self, change: SchemaChange) -> None:
        """Look at a schema change that is on its way: the table's family may go."""
        method, table = change.method, change.table
        if method in _MAY_LOSE_THE_FAMILY:
            self.stop(table, f"{method} of the table, and its family may be gone")
        elif method == "deleteColumnFamily" and change.family == NOTIFY_FAMILY.decode():
            self.stop(table, "its family is being deleted")
