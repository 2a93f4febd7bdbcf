"""On the real HBase only cells that have the value that was written are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headgate.client import Thrift2Connection
from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import Container, ContainerId, Item, Origin
from headgate.spark import StepRequest, Thrift2Address, WrittenCell, value_digest
from headgate.spark.containers import StepContainers
from headgate.spark.run import DRIVER_BYTES, DRIVER_ROWS
from headgate.spark.writing import ContainerWriter, DriverLimits

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack


def test_of_written_cells_those_are_removed_that_nobody_has_changed(stack: RunningStack) -> None:
    table = stack.table("written", ("f", "g"))
    origin = Origin("flow", "sums", "run", 1)
    container = Container(ContainerId("out"), (Item(table, b"f"),))
    watched = WatchedContainer(container, Codec(CodecName.INT64))
    request = StepRequest(
        "flow",
        "sums",
        "run",
        1,
        1,
        "m:f",
        Thrift2Address(*stack.thrift2),
        str(stack.kafka),
        containers=(watched,),
    )
    containers = StepContainers(request, lambda: Thrift2Connection(*stack.thrift2))
    writer = ContainerWriter(containers, origin)
    view = containers.view("out", None)
    rows = [b"a", b"b", b"c", b"\xff\x00"]
    frame = pa.table({"row": rows, "n": [1, 2, None, 4], "text": ["x", "", "y", "z"]})

    writer.write(frame, view, None, DriverLimits(DRIVER_ROWS, DRIVER_BYTES))
    cells = writer.cells(frame, view)
    with Thrift2Connection(*stack.thrift2) as connection:
        there = {
            (row, column): value
            for row, columns in connection.scan(table)
            for column, value in columns.items()
        }
        put = {
            (cell["row"], cell["column"]): cell["value"]
            for cell in cells.to_pylist()
            if cell["value"] is not None
        }
        assert there == put, "what is noted is what HBase has"

        connection.put(table, [(b"a", {b"f:n": b"a stranger's", b"g:n": b"1"})])
        connection.put(table, [(b"d", {b"f:n": (1).to_bytes(8, "big")})])
        noted = [
            WrittenCell(row, column, value_digest(value)) for (row, column), value in put.items()
        ]
        gone = WrittenCell(b"never", b"f:n", 0)
        noted.sort(key=lambda cell: cell.row)
        done = writer.remove([*noted, gone], view, lambda: None)

        assert (done.removed, done.changed, done.outside) == (6, 1, 0)
        assert done.examples == ("a f:n",)
        assert dict(connection.scan(table)) == {
            b"a": {b"f:n": b"a stranger's", b"g:n": b"1"},
            b"d": {b"f:n": (1).to_bytes(8, "big")},
        }
        outside = WrittenCell(b"a", b"g:n", value_digest(b"1"))
        assert writer.remove([outside], view, lambda: None).outside == 1
        assert connection.get(table, b"a")[b"g:n"] == b"1"
