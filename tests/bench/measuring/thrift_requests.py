"""Requests of Thrift1 as clients send them."""

from __future__ import annotations

from collections.abc import Callable

from headgate.wire import MessageType, StructWriter, Transport, write_message

_ROWS = 1000  # of a batch, as in the targets
VALUE = b"0123456789abcdef"


def _call(name: str, body: bytes) -> bytes:
    return write_message(Transport.BUFFERED, name, MessageType.CALL, 0, body)


def _mutation(value: bytes) -> bytes:
    return (
        StructWriter().bool(1, value=False).binary(2, b"f:v").binary(3, value).bool(4, True).end()
    )


def get_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``get`` of one cell."""
    row = b"row%04d" % connection
    body = StructWriter().binary(1, table).binary(2, row).binary(3, b"f:v").mapping(4, {}).end()
    return _call("get", body)


def put_request(table: bytes, connection: int) -> bytes:
    """Return what happybase's ``put`` of one cell sends: Thrift1's ``mutateRows`` of one row."""
    row = StructWriter().binary(1, b"row%04d" % connection).structs(2, [_mutation(VALUE)]).end()
    body = StructWriter().binary(1, table).structs(2, [row]).mapping(3, {}).end()
    return _call("mutateRows", body)


def mutate_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``mutateRow`` of one cell."""
    row = b"row%04d" % connection
    writer = StructWriter().binary(1, table).binary(2, row)
    return _call("mutateRow", writer.structs(3, [_mutation(VALUE)]).mapping(4, {}).end())


def batch_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``mutateRows`` of 1,000 rows of one cell."""
    rows = [
        StructWriter()
        .binary(1, b"batch%d-%04d" % (connection, i))
        .structs(2, [_mutation(VALUE)])
        .end()
        for i in range(_ROWS)
    ]
    body = StructWriter().binary(1, table).structs(2, rows).mapping(3, {}).end()
    return _call("mutateRows", body)


CASES: dict[str, Callable[[bytes, int], bytes]] = {
    "get": get_request,
    "put": put_request,
    "mutateRow": mutate_request,
    "1,000-row batch": batch_request,
}


def requests_of(name: str, table: str, count: int) -> list[bytes]:
    """Return a case's request for each of some connections."""
    return [CASES[name](table.encode(), connection) for connection in range(count)]
