"""Walking and decoding requests, against thriftpy2's compiled decoder on the same bytes.

Run: ``python tests/bench/wire_decode.py``. Prints, for each kind of request, microseconds of CPU
for one and the ratio to thriftpy2 (below 1: faster): for walking it, and for walking and decoding
it into columns. The best of several rounds, taken in turns.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import happybase
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.hbase import Dialect, decode_request
from headgate.wire import MessageReader

ROUNDS = 7

_idl = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="bench_thrift"
)


def request(method: str, **arguments: object) -> bytes:
    """Return a request as thriftpy2's client writes it, buffered."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(method, TMessageType.CALL, 1)
    protocol.write_struct(getattr(_idl.Hbase, method + "_args")(**arguments))
    protocol.write_message_end()
    buffer.flush()
    return bytes(buffer.getvalue())


def mutation(index: int) -> object:
    """Return a put of a value of 16 bytes."""
    return _idl.Mutation(isDelete=False, column=b"f:q%d" % (index % 3), value=b"v" * 16)


def by_thriftpy2(data: bytes) -> None:
    """Decode into thriftpy2's objects."""
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(data))
    name, _, _ = protocol.read_message_begin()
    protocol.read_struct(getattr(_idl.Hbase, name + "_args")())


_connection = MessageReader()


def by_walking(data: bytes) -> None:
    """Find the message's end only."""
    _connection.feed(data)
    assert _connection.next_message() is not None


def by_walking_pieces(data: bytes) -> None:
    """Find the end of a message that comes in pieces of 16 KiB."""
    for start in range(0, len(data), 16384):
        _connection.feed(data[start : start + 16384])
        message = _connection.next_message()
    assert message is not None


def by_decoding(data: bytes) -> None:
    """Find the message's end and decode it into columns."""
    _connection.feed(data)
    message = _connection.next_message()
    assert message is not None
    decode_request(Dialect.THRIFT1, message)


def microseconds(function: Callable[[bytes], None], data: bytes, times: int) -> float:
    """Return the CPU time of one call: other work on the machine is not counted."""
    begin = time.process_time()
    for _ in range(times):
        function(data)
    return (time.process_time() - begin) / times * 1e6


def main() -> None:
    """Print the table."""
    import headgate.wire.walker as walker

    compiled = "compiled" if not str(walker.__file__).endswith(".py") else "plain Python"
    print(f"headgate.wire: {compiled}; Python {platform.python_version()}, {platform.machine()}")
    one = [mutation(0)]
    rows = [_idl.BatchMutation(row=b"row-%06d" % i, mutations=[mutation(i)]) for i in range(1000)]
    requests = {
        "get": (request("get", tableName=b"t", row=b"row-1", column=b"f:q", attributes={}), 5000),
        "mutateRow, 1 cell": (
            request("mutateRow", tableName=b"t", row=b"row-1", mutations=one, attributes={}),
            5000,
        ),
        "mutateRows, 1000 rows": (
            request("mutateRows", tableName=b"t", rowBatches=rows, attributes={}),
            20,
        ),
    }
    print(f"{'request':24}{'thriftpy2':>12}{'walk':>12}{'ratio':>8}{'+ decode':>12}{'ratio':>8}")
    batch, times = requests["mutateRows, 1000 rows"]
    pieces = min(microseconds(by_walking_pieces, batch, times) for _ in range(ROUNDS))
    for name, (data, times) in requests.items():
        best = {"thriftpy2": float("inf"), "walk": float("inf"), "decode": float("inf")}
        for _ in range(ROUNDS):
            best["thriftpy2"] = min(best["thriftpy2"], microseconds(by_thriftpy2, data, times))
            best["walk"] = min(best["walk"], microseconds(by_walking, data, times))
            if name != "get":
                best["decode"] = min(best["decode"], microseconds(by_decoding, data, times))
        base = best["thriftpy2"]
        print(
            f"{name:24}{base:10.2f}µs{best['walk']:10.2f}µs{best['walk'] / base:8.2f}"
            + (f"{best['decode']:10.2f}µs{best['decode'] / base:8.2f}" if name != "get" else "")
        )
    print(f"mutateRows, 1000 rows, {len(batch)} bytes in pieces of 16 KiB: walk {pieces:.2f}µs")


if __name__ == "__main__":
    main()
