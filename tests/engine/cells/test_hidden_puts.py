"""Puts that deletes or explicit timestamps may hide: they are read, also where only keys count."""

import pytest
from msgspec.structs import replace
from uncertain import AHEAD, IN, KEY, SINCE, after_a_run, asked, write

from headgate.engine import (
    Bound,
    CellsRead,
    Codec,
    CodecName,
    SequenceBound,
    SequenceUnit,
    launched,
)
from headgate.events import Outcome, UpdateKind

PERCENT = Bound("s", IN, sequence=SequenceBound(20, SequenceUnit.PERCENT))


@pytest.mark.parametrize(
    "uncertain", [{"timestamp": 5}, {"ambiguous": (0,)}, {"outcome": Outcome.UNKNOWN}]
)
def test_percentages_hear_of_deletes_that_are_not_certain(pair, rows, uncertain):
    tester = after_a_run(pair, rows, PERCENT)
    tester.write("in", rows(7, 10, first=3))
    tester.request("b")
    tester.finish("b")
    row_delete = write(UpdateKind.DELETE_ROW, None, column=b"", **uncertain)
    assert launched(tester.publish("in", replace(row_delete, rows=(b"r9",)))) == []
    for row in range(1, 10):
        tester.tables["in"].pop((b"r%d" % row, b"f:x"), None)
        message = replace(row_delete, rows=(b"r%d" % row,), sequence=200 + row)
        (request,) = message.requests
        message = replace(message, requests=(replace(request, intent=200 + row),))
        tester.publish("in", message)
    tester.wave("a")
    assert tester.engine.cells[IN, "in"].elements == 1


def test_a_put_that_a_delete_marker_of_a_time_to_come_hides_is_read(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    delete = write(UpdateKind.DELETE_ROW, None, column=b"", timestamp=AHEAD)
    tester.publish("in", replace(delete, rows=(b"new",)))
    for sequence, timestamp in ((101, -1), (102, SINCE), (103, AHEAD)):
        put = write(value=b"77", sequence=sequence, timestamp=timestamp)
        tester.publish("in", replace(put, rows=(b"new",)))
        (question,) = asked(tester.wave("a"))
        assert question.rows == (b"new",)
        tester.handle(CellsRead(tester.now, IN, "in", (b"new",), (b"f:x",), (None,)))
    put = write(value=b"77", sequence=104, timestamp=AHEAD + 1)
    tester.publish("in", replace(put, rows=(b"new",)))
    assert launched(tester.wave("a")) == ["b"]


def test_a_put_of_the_past_is_read_where_its_row_was_deleted_while_nobody_knew_it(pair, rows):
    tester = after_a_run(pair, rows, answering=False)
    delete = write(UpdateKind.DELETE_ROW, None, column=b"")
    tester.publish("in", replace(delete, rows=(b"new",)))
    put = write(value=b"77", sequence=101, timestamp=SINCE)
    tester.publish("in", replace(put, rows=(b"new",)))
    assert [question.rows for question in asked(tester.wave("a"))] == [(b"new",)]


def test_an_increment_climbs_above_a_version_of_the_future(pair, rows):
    tester = after_a_run(pair, rows, answering=False, codec=Codec(CodecName.INT64))
    tester.publish("in", write(value=(7).to_bytes(8, "big"), timestamp=AHEAD))
    tester.wave("a")
    tester.handle(
        CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), ((7).to_bytes(8, "big"),), (AHEAD,))
    )
    added = write(UpdateKind.INCREMENT, (17).to_bytes(8, "big"), sequence=101)
    tester.publish("in", added)
    assert tester.engine.explain(0).containers[0].unsettled == 0
    assert tester.engine.cells[IN, "in"].columns.get(KEY) == 17


@pytest.mark.parametrize("dated", [-1, SINCE + 100], ids=["undated", "dated"])
def test_an_increment_by_zero_renews_the_timestamp(pair, rows, dated):
    """A put with a timestamp between the old one and the new one is hidden, or may be."""
    seven, eight = (7).to_bytes(8, "big"), (8).to_bytes(8, "big")
    tester = after_a_run(pair, rows, answering=False, codec=Codec(CodecName.INT64))
    tester.publish("in", write(value=seven, timestamp=SINCE))
    tester.wave("a")
    tester.handle(CellsRead(tester.now, IN, "in", (b"r0",), (b"f:x",), (seven,), (SINCE,)))
    counted = write(UpdateKind.INCREMENT, seven, sequence=101, timestamp=dated)
    (request,) = counted.requests
    request = replace(request, zero_increments=(0,))
    tester.publish("in", replace(counted, requests=(request,)))
    tester.publish("in", write(value=eight, sequence=102, timestamp=SINCE + 50))
    cells = tester.engine.cells[IN, "in"]
    if dated == -1:
        assert KEY in cells.reads.unsettled
    else:
        assert (KEY in cells.reads.unsettled, cells.columns.get(KEY)) == (False, 7)
