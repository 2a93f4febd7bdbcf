"""A program that writes as fast as one connection can, and says when each write was under way.

    full_speed_writer.py HOST PORT TABLE NAME RESULT

It says "going" once it goes, and writes until its standard input ends: single rows
``NAME-00000007``, and every twentieth time a batch of rows ``NAME-00000020-00`` and so on, which go
to several partitions. A connection that breaks is opened again; a write that was not acknowledged
is not repeated. RESULT then has 16 bytes for each write: when it was begun and when it was
acknowledged (0: never), in nanoseconds of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

import array
import select
import socket
import sys
import time
from pathlib import Path

from headgate.wire import MessageType, StructWriter, Transport, write_message

BATCH_EVERY = 20
BATCH_ROWS = 12
GOING_AFTER = 50

_MUTATION = StructWriter().binary(2, b"f:q").binary(3, b"v").end()


def rows_of(name: bytes, number: int) -> list[bytes]:
    """Return the rows of a writer's request."""
    row = b"%s-%08d" % (name, number)
    if number % BATCH_EVERY:
        return [row]
    return [b"%s-%02d" % (row, each) for each in range(BATCH_ROWS)]


def request(table: bytes, rows: list[bytes]) -> tuple[bytes, bytes]:
    """Return the bytes of a write and of the reply that acknowledges it."""
    writer = StructWriter().binary(1, table)
    if len(rows) == 1:
        name = "mutateRow"
        body = writer.binary(2, rows[0]).structs(3, [_MUTATION]).end()
    else:
        name = "mutateRows"
        batches = [StructWriter().binary(1, row).structs(2, [_MUTATION]).end() for row in rows]
        body = writer.structs(2, batches).end()
    reply = write_message(Transport.BUFFERED, name, MessageType.REPLY, 0, b"\x00")
    return write_message(Transport.BUFFERED, name, MessageType.CALL, 0, body), reply


def write(connection: socket.socket, data: bytes, reply: bytes) -> bool:
    """Send a request; tell whether it was acknowledged."""
    connection.sendall(data)
    received = b""
    while len(received) < len(reply):
        more = connection.recv(4096)
        if not more:
            return False
        received += more
    return received == reply


def main(host: str, port: str, table: str, name: str, result: str) -> None:
    """Write until standard input ends."""
    times = array.array("q")
    number = 0
    ended = False
    while not ended:
        try:
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                acknowledged = True
                while acknowledged and not ended:
                    number += 1
                    data, reply = request(table.encode(), rows_of(name.encode(), number))
                    times.extend((time.monotonic_ns(), 0))
                    acknowledged = write(connection, data, reply)
                    if acknowledged:
                        times[-1] = time.monotonic_ns()
                    if number == GOING_AFTER:
                        sys.stdout.write("going\n")
                        sys.stdout.flush()
                    ended = bool(select.select([sys.stdin], [], [], 0)[0])
        except OSError:
            time.sleep(0.02)
            ended = bool(select.select([sys.stdin], [], [], 0)[0])
    Path(result).write_bytes(times.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
