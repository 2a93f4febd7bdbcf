"""Walking and decoding requests, against thriftpy2's compiled decoder on the same bytes.

Run: ``python tests/bench/wire_decode.py``. Prints, for each kind of request, microseconds of CPU
for one and the ratio to thriftpy2 (below 1: faster): for walking it, and for walking and decoding
it into columns. The best of several rounds, taken in turns. Batches come in three kinds: rows that
differ in nothing but their keys and values, which are read together; such with two cells each; and
rows whose values have many lengths, which are read one by one. Then the same in compact.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import happybase
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.hbase import Dialect, decode_request
from headgate.wire import Message, MessageReader, Protocol, Transport, transcode

ROUNDS = 7

_IDL = {
    Dialect.THRIFT1: thriftpy2.load(
        str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="bench_thrift"
    ),
    Dialect.THRIFT2: thriftpy2.load(
        str(Path(__file__).parents[1] / "hbase" / "thrift2.thrift"), module_name="bench2_thrift"
    ),
}
_SERVICES = {
    Dialect.THRIFT1: _IDL[Dialect.THRIFT1].Hbase,
    Dialect.THRIFT2: _IDL[Dialect.THRIFT2].THBaseService,
}
ROWS = 1000


def request(dialect: Dialect, method: str, **arguments: object) -> bytes:
    """Return a request as thriftpy2's client writes it, buffered."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(method, TMessageType.CALL, 1)
    protocol.write_struct(getattr(_SERVICES[dialect], method + "_args")(**arguments))
    protocol.write_message_end()
    buffer.flush()
    return bytes(buffer.getvalue())


def mutations(cells: int, size: int) -> list[object]:
    """Return puts of values of the size, into as many columns."""
    mutation = _IDL[Dialect.THRIFT1].Mutation
    return [
        mutation(isDelete=False, column=b"f:q%d" % cell, value=b"v" * size) for cell in range(cells)
    ]


def values(cells: int, size: int) -> list[object]:
    """Return the same for Thrift2."""
    value = _IDL[Dialect.THRIFT2].TColumnValue
    return [value(family=b"f", qualifier=b"q%d" % cell, value=b"v" * size) for cell in range(cells)]


def batch(dialect: Dialect, cells: int, sizes: int) -> bytes:
    """Return a batch of rows of so many cells, with values of so many lengths in turn."""
    idl = _IDL[dialect]
    described = [(b"row-%06d" % row, 16 + row % sizes) for row in range(ROWS)]
    if dialect is Dialect.THRIFT1:
        rows = [
            idl.BatchMutation(row=row, mutations=mutations(cells, size)) for row, size in described
        ]
        return request(dialect, "mutateRows", tableName=b"t", rowBatches=rows, attributes={})
    puts = [idl.TPut(row=row, columnValues=values(cells, size)) for row, size in described]
    return request(dialect, "putMultiple", table=b"t", tputs=puts)


def deletes() -> bytes:
    """Return a batch of deletes of one column."""
    idl = _IDL[Dialect.THRIFT2]
    column = idl.TColumn(family=b"f", qualifier=b"q")
    rows = [idl.TDelete(row=b"row-%06d" % row, columns=[column]) for row in range(ROWS)]
    return request(Dialect.THRIFT2, "deleteMultiple", table=b"t", tdeletes=rows)


def by_thriftpy2(dialect: Dialect, data: bytes) -> None:
    """Decode into thriftpy2's objects."""
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(data))
    name, _, _ = protocol.read_message_begin()
    protocol.read_struct(getattr(_SERVICES[dialect], name + "_args")())


def message_in(data: bytes) -> Message:
    """Find the message's end only."""
    connection = MessageReader()
    connection.feed(data)
    message = connection.next_message()
    assert message is not None
    return message


def by_walking_pieces(data: bytes) -> None:
    """Find the end of a message that comes in pieces of 16 KiB."""
    connection = MessageReader()
    for start in range(0, len(data), 16384):
        connection.feed(data[start : start + 16384])
        message = connection.next_message()
    assert message is not None


def microseconds(function: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call: other work on the machine is not counted."""
    begin = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - begin) / times * 1e6


def main() -> None:
    """Print the table."""
    import headgate.wire.walker as walker

    compiled = "compiled" if not str(walker.__file__).endswith(".py") else "plain Python"
    print(f"headgate.wire: {compiled}; Python {platform.python_version()}, {platform.machine()}")
    one, two = Dialect.THRIFT1, Dialect.THRIFT2
    put = _IDL[two].TPut(row=b"row-1", columnValues=values(1, 16))
    cell = mutations(1, 16)
    requests = {
        "get": (one, request(one, "get", tableName=b"t", row=b"row-1", column=b"f:q"), 5000),
        "mutateRow, 1 cell": (
            one,
            request(one, "mutateRow", tableName=b"t", row=b"row-1", mutations=cell, attributes={}),
            5000,
        ),
        "put, 1 cell": (two, request(two, "put", table=b"t", tput=put), 5000),
    }
    for dialect, name in ((one, "mutateRows"), (two, "putMultiple")):
        requests[f"{name}, alike"] = (dialect, batch(dialect, 1, 1), 20)
        requests[f"{name}, alike, 2 cells"] = (dialect, batch(dialect, 2, 1), 10)
        requests[f"{name}, 7 lengths"] = (dialect, batch(dialect, 1, 7), 20)
    requests["deleteMultiple, alike"] = (two, deletes(), 20)
    print(f"batches are of {ROWS} rows")
    print(f"{'request':28}{'thriftpy2':>12}{'walk':>12}{'ratio':>8}{'+ decode':>12}{'ratio':>8}")
    for name, (dialect, data, times) in requests.items():
        line(name, dialect, data, data, times)
    for name, (dialect, data, times) in requests.items():
        if times < 100:
            compact = transcode(message_in(data), Protocol.COMPACT, Transport.BUFFERED).raw
            line(f"{name}, compact", dialect, data, compact, times)
    data = batch(one, 1, 1)
    pieces = min(microseconds(partial(by_walking_pieces, data), 20) for _ in range(ROUNDS))
    print(f"mutateRows, alike, {len(data)} bytes in pieces of 16 KiB: walk {pieces:.2f}µs")


def line(name: str, dialect: Dialect, binary: bytes, data: bytes, times: int) -> None:
    """Print what one request costs; thriftpy2 reads it in binary."""

    def decode() -> None:
        decode_request(dialect, message_in(data))

    ways: list[Callable[[], object]] = [
        partial(by_thriftpy2, dialect, binary),
        partial(message_in, data),
    ]
    if name != "get":
        ways.append(decode)
    rounds = [[microseconds(way, times) for way in ways] for _ in range(ROUNDS)]
    base, *best = [min(each) for each in zip(*rounds, strict=True)]
    told = "".join(f"{cost:10.2f}µs{cost / base:8.2f}" for cost in best)
    print(f"{name:28}{base:10.2f}µs{told}")


if __name__ == "__main__":
    main()
