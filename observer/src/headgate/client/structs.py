"""Structs of HBase's Thrift2 service, made from what callers of a connection give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

import thriftpy2

from headgate.client.rows import Columns, DeleteKind, FamilyOptions, Region
from headgate.events import ORIGIN_ATTRIBUTE, Origin, encode_origin


def _declarations() -> Any:
    with resources.as_file(resources.files("headgate.client") / "hbase2.thrift") as path:
        return thriftpy2.load(str(path), module_name="headgate_hbase2_thrift")


thrift: Final = _declarations()
"""The service and its structs, as thriftpy2 declares them."""

_MAX_STAMP: Final = 2**63 - 1

_KEEP_DELETED: Final = {False: None, True: 1}
"""Python's answer as ``TKeepDeletedCells``; the server's default is not to keep them."""


def split_column(column: bytes) -> tuple[bytes, bytes]:
    """Return family and qualifier of a column.

    Raises:
        ValueError: it names no qualifier.
    """
    family, colon, qualifier = column.partition(b":")
    if not colon:
        message = f"column {column!r} names no qualifier; write it as family:qualifier"
        raise ValueError(message)
    return family, qualifier


def column_struct(column: bytes, timestamp: int | None = None) -> Any:
    """Return a ``TColumn``: of ``family:qualifier``, or of a family alone where no colon is."""
    family, colon, qualifier = column.partition(b":")
    return thrift.TColumn(
        family=family, qualifier=qualifier if colon else None, timestamp=timestamp
    )


def column_structs(columns: Iterable[bytes]) -> list[Any] | None:
    """Return ``TColumn`` for each; None where there is none."""
    return [column_struct(column) for column in columns] or None


def time_range_struct(since: int | None, until: int | None) -> Any:
    """Return a ``TTimeRange``, in milliseconds; None where it has no bound."""
    if since is None and until is None:
        return None
    return thrift.TTimeRange(
        minStamp=0 if since is None else since, maxStamp=_MAX_STAMP if until is None else until
    )


def attributes_of(origin: Origin | None) -> dict[bytes, bytes] | None:
    """Return the attributes of a write that say whose it is; None: nobody knows."""
    return None if origin is None else {ORIGIN_ATTRIBUTE: encode_origin(origin)}


def values_of(result: Any) -> dict[bytes, bytes]:
    """Return a result's values by ``family:qualifier``."""
    return {cell.family + b":" + cell.qualifier: cell.value for cell in result.columnValues or ()}


def put_struct(
    row: bytes, columns: Columns, timestamp: int | None, attributes: dict[bytes, bytes] | None
) -> Any:
    """Return a ``TPut`` of one row.

    Raises:
        ValueError: a column names no qualifier.
    """
    cells = []
    for column, value in columns.items():
        family, qualifier = split_column(column)
        cells.append(thrift.TColumnValue(family=family, qualifier=qualifier, value=value))
    return thrift.TPut(row=row, columnValues=cells, timestamp=timestamp, attributes=attributes)


def delete_structs(
    rows: Iterable[bytes],
    columns: Iterable[bytes],
    timestamp: int | None,
    kind: DeleteKind,
    attributes: dict[bytes, bytes] | None,
) -> list[Any]:
    """Return the ``TDelete`` of columns and families of each row, or of all of it.

    Columns and families are two: a ``TDelete`` has one type for all that it names. With the type
    for columns HBase takes a family alone for its column with an empty qualifier.

    Raises:
        ValueError: only the newest version of a whole family is to go.
    """
    named: dict[DeleteKind, list[bytes]] = {}
    for column in columns:
        if b":" in column or kind in (DeleteKind.FAMILY, DeleteKind.FAMILY_VERSION):
            named.setdefault(kind, []).append(column)
        elif kind is DeleteKind.ALL_VERSIONS:
            named.setdefault(DeleteKind.FAMILY, []).append(column)
        else:
            message = (
                f"a delete of the newest versions names the family {column!r} alone; name its "
                "columns, as family:qualifier"
            )
            raise ValueError(message)
    return [
        thrift.TDelete(
            row=row,
            columns=[column_struct(column, timestamp) for column in of_kind] or None,
            timestamp=timestamp,
            deleteType=int(each),
            attributes=attributes,
        )
        for row in rows
        for each, of_kind in (named or {kind: []}).items()
    ]


def one_delete_struct(
    row: bytes, columns: Sequence[bytes], attributes: dict[bytes, bytes] | None
) -> Any:
    """Return one ``TDelete`` of columns or families of a row, or of all of it.

    Raises:
        ValueError: columns and families are named, which takes two.
    """
    found, *more = delete_structs([row], columns, None, DeleteKind.ALL_VERSIONS, attributes)
    if more:
        message = f"name columns or whole families to delete, not both: {columns!r}"
        raise ValueError(message)
    return found


def table_struct(name: str) -> Any:
    """Return a ``TTableName`` of ``namespace:name``, or of a name of the default namespace."""
    namespace, colon, qualifier = name.rpartition(":")
    return thrift.TTableName(ns=namespace.encode() if colon else None, qualifier=qualifier.encode())


def mutations_struct(
    row: bytes, put: Columns, delete: Iterable[bytes], origin: Origin | None
) -> Any:
    """Return ``TRowMutations`` that delete and put columns of one row."""
    attributes = attributes_of(origin)
    mutations = []
    named = tuple(delete)
    if named:
        gone = delete_structs([row], named, None, DeleteKind.ALL_VERSIONS, attributes)
        mutations += [thrift.TMutation(deleteSingle=each) for each in gone]
    if put:
        mutations.append(thrift.TMutation(put=put_struct(row, put, None, attributes)))
    return thrift.TRowMutations(row=row, mutations=mutations)


def described_table(name: str, families: Mapping[str, FamilyOptions] | Iterable[str]) -> Any:
    """Return a ``TTableDescriptor`` with its column families."""
    options = (
        families
        if isinstance(families, Mapping)
        else {family: FamilyOptions() for family in families}
    )
    described = [
        thrift.TColumnFamilyDescriptor(
            name=family.encode(),
            maxVersions=option.versions,
            timeToLive=option.seconds_to_live,
            keepDeletedCells=_KEEP_DELETED[option.keep_deleted],
        )
        for family, option in options.items()
    ]
    return thrift.TTableDescriptor(tableName=table_struct(name), columns=described)


def region_of(location: Any) -> Region:
    """Return what a ``THRegionLocation`` says."""
    info, server = location.regionInfo, location.serverName
    host = server.hostName
    return Region(
        start=info.startKey or b"",
        stop=info.endKey or None,
        host=host.decode() if isinstance(host, bytes) else host,
    )
