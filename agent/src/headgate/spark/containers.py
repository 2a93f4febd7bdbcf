"""The containers of a step: by name, with the server that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from headgate.client import Thrift2Connection
from headgate.engine import Codec, OnUndecodable
from headgate.events import ContainerId, KeyForm, key_bytes
from headgate.spark.column_names import ColumnNames
from headgate.spark.kafka.updates import UpdateReader
from headgate.spark.messages import StepRequest
from headgate.spark.views import ContainerView, ViewError, view_of


class Servers(NamedTuple):
    """Whom a step's run asks for what is in tables, and for what was written to them."""

    connect: Callable[[], Thrift2Connection]
    """Connects to HBase; whoever asks closes the connection."""
    lend_reader: Callable[[], AbstractContextManager[UpdateReader]]
    """Lends a consumer of updates for the time of a read."""


def servers_of(
    request: StepRequest, lend: Callable[[StepRequest], AbstractContextManager[UpdateReader]]
) -> Servers:
    """Return the servers that a request names.

    Args:
        request: what is run.
        lend: lends a consumer of the request's brokers.
    """
    # One connection for each call: the server closes those that are idle while Spark works.
    return Servers(
        lambda: Thrift2Connection(request.hbase.host, request.hbase.port), lambda: lend(request)
    )


class StepContainers:
    """What a step may read and write, as its request says.

    Args:
        request: what is run.
        connect: connects to the server that has the tables; whoever asks closes the connection.
    """

    def __init__(self, request: StepRequest, connect: Callable[[], Thrift2Connection]) -> None:
        self.connect = connect
        self._request = request
        self._containers = {watched.id: watched for watched in request.containers}
        self._families: dict[str, tuple[bytes, ...]] = {}

    @property
    def names(self) -> frozenset[str]:
        """Of all that there are."""
        return frozenset(self._containers)

    def view(self, container: str, table: str | None) -> ContainerView:
        """Return a container's part of a table, which need not be named where there is only one.

        Raises:
            ViewError: no such container, or one that needs ``table``.
        """
        watched = self._containers.get(ContainerId(container))
        if watched is None:
            known = ", ".join(sorted(self._containers)) or "none"
            message = (
                f"step {self._request.action!r} has no container {container!r}; it has: {known}"
            )
            raise ViewError(message)
        return view_of(watched, table, self._request.keys.get(container, KeyForm.TEXT))

    def column_names(
        self, view: ContainerView, asked: Sequence[bytes] | None = None
    ) -> ColumnNames:
        """Return the names of a container's columns.

        Args:
            view: the container.
            asked: the columns that a step reads, where these are not the container's own.
        """
        return ColumnNames(view, partial(self._families_of, view.table), asked)

    def _families_of(self, table: str) -> tuple[bytes, ...]:
        if table not in self._families:
            with self.connect() as connection:
                names = connection.families(table)
            self._families[table] = tuple(map(key_bytes, names))
        return self._families[table]

    def policy(self, container: str, asked: str | None) -> OnUndecodable:
        """Return what becomes of a container's values that do not decode.

        Args:
            container: its name.
            asked: what the step asks for; None for what the dataflow file says.

        Raises:
            ViewError: there is no such thing to ask for.
        """
        if asked is None:
            return self._request.on_undecodable.get(container, OnUndecodable.NULL)
        try:
            return OnUndecodable(asked)
        except ValueError as error:
            message = f"on_undecodable is {asked!r}; it must be one of {', '.join(OnUndecodable)}"
            raise ViewError(message) from error

    def address(self, table: str, codec: Codec) -> dict[str, str]:
        """Return the options by which the data source ``headgate`` finds a table."""
        return {
            "host": self._request.hbase.host,
            "port": str(self._request.hbase.port),
            "table": table,
            "codec": codec.name.value,
            "codec.path": codec.path,
        }
