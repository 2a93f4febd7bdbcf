"""Puts of whole columns are the bytes that thriftpy2 would have sent."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.client.puts import encode_puts
from headgate.client.structs import thrift


def by_thriftpy2(
    table: bytes,
    rows: list[bytes],
    columns: Mapping[tuple[bytes, bytes], list[bytes | None]],
    timestamp: int | None,
    attributes: Mapping[bytes, bytes] | None,
) -> bytes:
    puts = []
    for at, row in enumerate(rows):
        cells = [
            thrift.TColumnValue(family=family, qualifier=qualifier, value=values[at])
            for (family, qualifier), values in columns.items()
            if values[at] is not None
        ]
        if cells:
            put = thrift.TPut(
                row=row, columnValues=cells, timestamp=timestamp, attributes=attributes
            )
            puts.append(put)
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin("putMultiple", TMessageType.CALL, 0)
    thrift.THBaseService.putMultiple_args(table=table, tputs=puts).write(protocol)
    protocol.write_message_end()
    return buffer.getvalue()


@st.composite
def frames(draw: st.DrawFn) -> tuple[list[bytes], dict[tuple[bytes, bytes], list[bytes | None]]]:
    rows = draw(st.lists(st.binary(min_size=1, max_size=5), max_size=5))
    names = draw(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=3)), unique=True))
    values = st.lists(st.none() | st.binary(max_size=4), min_size=len(rows), max_size=len(rows))
    return rows, {name: draw(values) for name in names if names}


@given(
    frame=frames(),
    timestamp=st.none() | st.integers(0, 2**62),
    attributes=st.none()
    | st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(), max_size=2),
)
def test_encoded_puts_equal_those_of_thriftpy2(
    frame: tuple[list[bytes], dict[tuple[bytes, bytes], list[bytes | None]]],
    timestamp: int | None,
    attributes: dict[bytes, bytes] | None,
) -> None:
    rows, columns = frame
    if not columns:
        return
    encoded, written = encode_puts(b"t", rows, columns, timestamp, attributes)

    assert encoded == by_thriftpy2(b"t", rows, columns, timestamp, attributes or None)
    assert written == sum(
        any(values[at] is not None for values in columns.values()) for at in range(len(rows))
    )
