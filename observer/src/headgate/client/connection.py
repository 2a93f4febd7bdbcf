"""A connection to HBase's Thrift2 server, or to an observer in front of one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

from thriftpy2.protocol.cybin import ProtocolError, TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport.buffered import TCyBufferedTransport
from thriftpy2.transport.socket import TSocket

from headgate.client.errors import ConnectionFailed
from headgate.client.puts import encode_puts
from headgate.client.refusals import refusal
from headgate.client.rows import (
    Cell,
    Columns,
    Compare,
    DeleteKind,
    FamilyOptions,
    Region,
    ScanRange,
)
from headgate.client.structs import (
    attributes_of,
    column_structs,
    delete_structs,
    described_table,
    mutations_struct,
    one_delete_struct,
    put_struct,
    region_of,
    split_column,
    table_struct,
    thrift,
    time_range_struct,
    values_of,
)
from headgate.events import Origin, key_text
from headgate.settings import write_address

TIMEOUT: Final = 60.0
"""Seconds to wait for a reply: as long as HBase's Thrift servers keep an idle client by default."""

_BUFFER: Final = 256 * 1024
"""Bytes of the receive buffer: a page of a scan needs few system calls."""

_PAGE: Final = 2_000
"""Rows of a page of a scan: some 100 KiB of small rows, so that neither side holds much."""

_BATCH: Final = 1_000
"""Rows of one putMultiple."""

_BEHIND: Final = 2
"""Rows to ask for to see the last of a range: a backward scan begins with the border itself."""

_FOREVER: Final = 2**31 - 1
"""Seconds to live of a family whose cells do not expire."""
_RAW: Final = {b"_raw_": b"\xff"}
"""HBase's own attribute of a scan that returns delete markers, and what they hide."""


class Thrift2Connection:
    """Reads and writes HBase tables through one Thrift2 server (buffered, binary).

    A connection serves one thread. It never reconnects by itself: once it is broken, every call
    raises ``ConnectionFailed``. ``origin`` on a write says which run it belongs to.

    Args:
        host: where the server or an observer listens.
        port: its Thrift2 port.
        timeout: seconds to wait for a connection and for each reply.

    Raises:
        ConnectionFailed: nobody answers there.
    """

    def __init__(self, host: str, port: int, timeout: float = TIMEOUT) -> None:
        self.address = write_address(host, port)
        self._socket = TSocket(host, port, socket_timeout=timeout * 1000)
        self._transport = TCyBufferedTransport(self._socket, _BUFFER)
        protocol = TCyBinaryProtocol(self._transport, decode_response=False)
        self._client: Any = TClient(thrift.THBaseService, protocol)
        self._broken: Exception | None = None
        try:
            self._transport.open()
        except (TException, OSError) as error:
            message = (
                f"no Thrift2 server answers at {self.address}; start it, or correct the address"
            )
            raise ConnectionFailed(message) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; closing it twice does nothing."""
        if self._socket.is_open():
            self._transport.close()

    def _exchange(self, method: str, encoded: bytes) -> Any:
        self._transport.write(encoded)
        self._transport.flush()
        return self._client._recv(method)  # noqa: SLF001 - thriftpy2 has no other way to a reply

    def _call(self, method: str, *arguments: Any, encoded: bytes = b"", **named: Any) -> Any:
        if self._broken is not None or not self._socket.is_open():
            message = f"the connection to {self.address} is closed; open a new one"
            raise ConnectionFailed(message) from self._broken
        call: Callable[..., Any] = getattr(self._client, method)
        try:
            return self._exchange(method, encoded) if encoded else call(*arguments, **named)
        except (thrift.TIOError, thrift.TIllegalArgument) as error:
            raise refusal(method, self.address, error) from error
        except TApplicationException as error:
            raise refusal(method, self.address, error) from error
        except (TException, ProtocolError, OSError, EOFError) as error:
            # What is left in the stream belongs to this reply, so nothing after it can be read.
            self._broken = error
            self.close()
            message = f"{method} to {self.address} got no reply: {error}"
            raise ConnectionFailed(message) from error

    # -- cells -------------------------------------------------------------------------------

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """Return the newest values of a row by ``family:qualifier``; empty where it has none."""
        request = thrift.TGet(row=row, columns=column_structs(columns))
        return values_of(self._call("get", table.encode(), request))

    def pages(self, table: str, extent: ScanRange, page: int = _PAGE) -> Iterator[list[Any]]:
        """Yield a scan as the server's own results, at most ``page`` rows at a time.

        Each page is a request of its own that starts after the last row seen: there is no scanner
        on the server that could expire while a slow reader works on a page.

        Yields:
            Lists of results; a result has ``row`` and ``columnValues``, whose items have
            ``family``, ``qualifier``, ``value``, ``timestamp`` and ``type``, HBase's code.
        """
        name = table.encode()
        start = extent.start
        request = thrift.TScan(
            stopRow=extent.stop,
            columns=column_structs(extent.columns),
            caching=page,
            limit=page,
            maxVersions=extent.versions,
            timeRange=time_range_struct(extent.since, extent.until),
            filterString=None if extent.filter is None else extent.filter.encode(),
            attributes=_RAW if extent.raw else None,
        )
        while extent.stop is None or start < extent.stop:
            request.startRow = start
            results = self._call("getScannerResults", name, request, page)
            if results:
                yield results
            if len(results) < page:
                return
            start = results[-1].row + b"\0"

    def scan(
        self, table: str, extent: ScanRange | None = None, page: int = _PAGE
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """Yield rows in order: the key and the newest values by ``family:qualifier``.

        Each row is whole; rows written meanwhile may or may not be seen.
        """
        for results in self.pages(table, extent or ScanRange(), page):
            for result in results:
                yield result.row, values_of(result)

    def cells(
        self, table: str, extent: ScanRange | None = None, page: int = _PAGE
    ) -> Iterator[Cell]:
        """Yield cells with their timestamps, by row, column and age, up to the range's versions."""
        for results in self.pages(table, extent or ScanRange(), page):
            for result in results:
                for cell in result.columnValues:
                    column = cell.family + b":" + cell.qualifier
                    yield Cell(result.row, column, cell.timestamp, cell.value)

    def ends(self, table: str, extent: ScanRange) -> tuple[bytes, bytes] | None:
        """Return the first and the last row of a range; None where it has none."""
        name = table.encode()
        rows = []
        for backwards in (False, True):
            # A scan backwards starts behind the range's last row; an empty stop is the table's end.
            request = thrift.TScan(
                startRow=(extent.stop or b"") if backwards else extent.start,
                stopRow=extent.start if backwards else extent.stop,
                limit=_BEHIND,
                caching=_BEHIND,
                reversed=backwards,
                filterString=b"KeyOnlyFilter()",
            )
            found = self._call("getScannerResults", name, request, _BEHIND)
            inside = [
                result.row
                for result in found
                if result.row >= extent.start and (extent.stop is None or result.row < extent.stop)
            ]
            if not inside:
                return None
            rows.append(inside[0])
        return rows[0], rows[1]

    def put(
        self,
        table: str,
        rows: Iterable[tuple[bytes, Columns]],
        *,
        timestamp: int | None = None,
        origin: Origin | None = None,
        batch: int = _BATCH,
    ) -> int:
        """Write rows, ``batch`` rows a request, and return how many.

        Rows are atomic one by one. With a ``timestamp`` (milliseconds) a repetition changes
        nothing.

        Raises:
            ValueError: a column has no qualifier; nothing of its batch was sent.
            RequestRefused: the server or the observer refused a batch; earlier ones are written.
            ConnectionFailed: whether the last batch is written is not known.
        """
        attributes = attributes_of(origin)
        name = table.encode()
        remaining = iter(rows)
        written = 0
        while part := [
            put_struct(row, columns, timestamp, attributes)
            for row, columns in islice(remaining, batch)
        ]:
            self._call("putMultiple", name, part)
            written += len(part)
        return written

    def put_columns(
        self,
        table: str,
        rows: Sequence[bytes],
        columns: Mapping[bytes, Sequence[bytes | None]],
        *,
        timestamp: int | None = None,
        origin: Origin | None = None,
        batch: int = _BATCH,
    ) -> int:
        """Write whole columns, one value for each row, and return how many rows got one.

        The same as ``put``, several times as fast; a value None writes no cell.
        """
        name = table.encode()
        attributes = attributes_of(origin)
        split = {split_column(column): values for column, values in columns.items()}
        total = 0
        for first in range(0, len(rows), batch) if split else ():
            part = slice(first, first + batch)
            values = {column: all_values[part] for column, all_values in split.items()}
            request, written = encode_puts(name, rows[part], values, timestamp, attributes)
            if written:
                self._call("putMultiple", encoded=request)
                total += written
        return total

    def delete(
        self,
        table: str,
        rows: Iterable[bytes],
        columns: Iterable[bytes] = (),
        *,
        timestamp: int | None = None,
        kind: DeleteKind = DeleteKind.ALL_VERSIONS,
        origin: Origin | None = None,
        batch: int = _BATCH,
    ) -> int:
        """Delete the columns (or, without any, everything) of rows, and return how many rows.

        A column is ``family:qualifier``, or a family alone for all of it.

        Raises:
            ValueError: only the newest version of a whole family is to go.
        """
        attributes = attributes_of(origin)
        named, remaining, deleted = tuple(columns), iter(rows), 0
        while part := list(islice(remaining, batch)):
            requests = delete_structs(part, named, timestamp, kind, attributes)
            self._call("deleteMultiple", table.encode(), requests)
            deleted += len(part)
        return deleted

    def increment(
        self,
        table: str,
        row: bytes,
        column: bytes,
        amount: int = 1,
        *,
        origin: Origin | None = None,
    ) -> int:
        """Add to a counter and return its new value."""
        family, qualifier = split_column(column)
        request = thrift.TIncrement(
            row=row,
            columns=[thrift.TColumnIncrement(family=family, qualifier=qualifier, amount=amount)],
            attributes=attributes_of(origin),
            returnResults=True,
        )
        result = self._call("increment", table.encode(), request)
        (value,) = struct.unpack(">q", result.columnValues[0].value)
        return int(value)

    def append(
        self,
        table: str,
        row: bytes,
        columns: Columns,
        *,
        origin: Origin | None = None,
    ) -> dict[bytes, bytes]:
        """Append to columns of a row and return their new values."""
        put = put_struct(row, columns, None, None)
        request = thrift.TAppend(
            row=row,
            columns=put.columnValues,
            attributes=attributes_of(origin),
            returnResults=True,
        )
        return values_of(self._call("append", table.encode(), request))

    def mutate(
        self,
        table: str,
        row: bytes,
        put: Columns,
        delete: Iterable[bytes] = (),
        *,
        origin: Origin | None = None,
    ) -> None:
        """Put and delete columns of one row in one atomic step."""
        self._call("mutateRow", table.encode(), mutations_struct(row, put, delete, origin))

    def check_and_put(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        put: Columns,
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Put columns of a row if one of its columns has the expected value; return whether it had.

        ``expected`` None holds where the column is absent. Check and put are one atomic step.

        Raises:
            ConnectionFailed: whether it was done is not known; read the row to learn it.
        """
        family, qualifier = split_column(column)
        request = put_struct(row, put, None, attributes_of(origin))
        return bool(
            self._call("checkAndPut", table.encode(), row, family, qualifier, expected, request)
        )

    def check_and_delete(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        delete: Iterable[bytes] = (),
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Delete columns or families of a row, or all of it, if a column has the expected value.

        Raises:
            ValueError: columns and families are named, which HBase does not delete in one step.
        """
        family, qualifier = split_column(column)
        request = one_delete_struct(row, tuple(delete), attributes_of(origin))
        return bool(
            self._call("checkAndDelete", table.encode(), row, family, qualifier, expected, request)
        )

    def check_and_mutate(
        self,
        table: str,
        row: bytes,
        column: bytes,
        compare: Compare,
        expected: bytes,
        put: Columns,
        delete: Iterable[bytes] = (),
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Put and delete columns of a row if a comparison with one of its columns holds.

        HBase 2.6's Thrift server fails where no value is given, so the absence of a column can be
        asked for by ``check_and_put`` and ``check_and_delete`` only.
        """
        family, qualifier = split_column(column)
        return bool(
            self._call(
                "checkAndMutate",
                table.encode(),
                row,
                family,
                qualifier,
                int(compare),
                expected,
                mutations_struct(row, put, delete, origin),
            )
        )

    # -- tables ------------------------------------------------------------------------------

    def table_exists(self, table: str) -> bool:
        """Return whether there is such a table, enabled or not."""
        return bool(self._call("tableExists", table_struct(table)))

    def tables(self) -> list[str]:
        """Return the names of all tables of users, ``namespace:name`` outside the default one."""
        names = self._call("getTableNamesByPattern", includeSysTables=False)
        return [
            (
                name.qualifier if name.ns in (None, b"default") else name.ns + b":" + name.qualifier
            ).decode()
            for name in names
        ]

    def create_table(
        self,
        table: str,
        families: Mapping[str, FamilyOptions] | Iterable[str],
        splits: Iterable[bytes] = (),
    ) -> None:
        """Create a table with its column families, split at the given rows."""
        description = described_table(table, families)
        self._call("createTable", description, list(splits) or None)

    def families(self, table: str) -> list[str]:
        """Return the names of a table's column families, as texts of keys."""
        description = self._call("getTableDescriptor", table_struct(table))
        return [key_text(family.name) for family in description.columns or ()]

    def times_to_live(self, table: str) -> dict[bytes, int]:
        """Return after how many seconds cells expire, by family; those of others do not."""
        description = self._call("getTableDescriptor", table_struct(table))
        return {
            family.name: family.timeToLive
            for family in description.columns or ()
            if family.timeToLive is not None and 0 < family.timeToLive < _FOREVER
        }

    def add_family(self, table: str, family: str) -> None:
        """Add a column family to a table, which stays in service."""
        described = thrift.TColumnFamilyDescriptor(name=family.encode())
        self._call("addColumnFamily", table_struct(table), described)

    def delete_family(self, table: str, family: str) -> None:
        """Delete a column family of a table with all that is in it."""
        self._call("deleteColumnFamily", table_struct(table), family.encode())

    def disable_table(self, table: str) -> None:
        """Take a table out of service, as must be done before it is deleted or truncated."""
        self._call("disableTable", table_struct(table))

    def enable_table(self, table: str) -> None:
        """Take a table into service again."""
        self._call("enableTable", table_struct(table))

    def delete_table(self, table: str) -> None:
        """Delete a table, disabled or not."""
        if not self._call("isTableDisabled", table_struct(table)):
            self.disable_table(table)
        self._call("deleteTable", table_struct(table))

    def truncate_table(self, table: str) -> None:
        """Delete all rows of a disabled table, which keeps its regions and is then enabled."""
        self._call("truncateTable", tableName=table_struct(table), preserveSplits=True)

    def regions(self, table: str) -> list[Region]:
        """Return the table's regions in the order of their rows."""
        locations = self._call("getAllRegionLocations", table.encode())
        return sorted(map(region_of, locations), key=lambda region: region.start)
