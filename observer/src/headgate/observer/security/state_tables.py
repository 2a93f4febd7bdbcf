"""Tables in which agents keep what they run and have learned: only proven agents change them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.events import Origin
from headgate.hbase import Effect, Method, Write
from headgate.observer.config import UNKNOWN_WRITER, AccessSettings
from headgate.settings import KeyRing, agent_write, read_keys

_CREATE: Final = "createTable"
"""What any client may do: where the table is there, HBase refuses; and an agent cannot sign it."""


class StateTables:
    """Judges changes of the state tables, as configured under ``[access]``.

    Raises:
        ConfigurationError: the agents' key cannot be read.
    """

    def __init__(self, access: AccessSettings) -> None:
        self._agents = frozenset(access.agents)
        key = access.agents_key_file
        self._ring: KeyRing | None = read_keys(Path(key).expanduser()) if key else None
        self._tables = frozenset(access.agent_tables if access.guards_state else ())

    @property
    def active(self) -> bool:
        """Whether anything is refused."""
        return bool(self._tables)

    def concern(self, origin: Origin | None, method: Method, tables: Sequence[str]) -> bool:
        """Return whether a request changes a state table, or may, and its client is no known agent.

        Args:
            origin: whose the connection is, by its certificate or its listener.
            method: what is asked for.
            tables: those that the request names.
        """
        if not self._tables or (origin is not None and origin.writer in self._agents):
            return False
        if method.effect is Effect.UNKNOWN:
            return True
        changes = method.effect is not Effect.READ and method.name != _CREATE
        return changes and not self._tables.isdisjoint(tables)

    def refusal(
        self, origin: Origin | None, method: Method, tables: Sequence[str], change: Write | None
    ) -> str:
        """Return why a request that concerns a state table is refused; empty where it may pass.

        Args:
            origin: as above.
            method: as above.
            tables: as above.
            change: what the request writes; None where it is no write.
        """
        if change is not None and self._signed(change):
            return ""
        who = UNKNOWN_WRITER if origin is None else origin.name
        what = method.name
        if tables:
            what += f" of {', '.join(sorted(self._tables.intersection(tables)))}"
        return (
            f"headgate: {who!r} is not known as an agent, and {what} may change what agents run, "
            "or when (access.state_tables of the observer); give agents the key of "
            "access.agents_key_file as key_file, or let them connect as one of access.agents"
        )

    def _signed(self, change: Write) -> bool:
        ring = self._ring
        if ring is None or change.others:
            return False
        written = agent_write(change.table, tuple(dict.fromkeys(change.cells.rows)))
        return any(
            origin is not None and ring.believes(origin.proof, *written)
            for origin in change.origins
        )
