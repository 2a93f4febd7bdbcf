"""Messages made of what a scan found."""

from headgate.agent.scans.found_cells import found_updates
from headgate.client import Cell
from headgate.events import decode_update, encode_update, partition_of

CELLS = [Cell(b"a", b"f:x", 3, b"1"), Cell(b"a", b"f:y", 5, b"2"), Cell(b"b", b"f:x", 4, b"3")]


def test_the_cells_of_a_row_are_one_request_with_the_tables_own_timestamps():
    (found,) = found_updates("t", CELLS, 1, 2)
    batch = found.batch
    assert [part.cells for part in batch.requests] == [2, 1]
    assert [part.intent for part in batch.requests] == [5, 4]
    assert batch.timestamps == (3, 5, 4)
    assert batch.watermark == 2


def test_a_second_scan_gives_the_same_identities():
    once, again = (
        [i for found in found_updates("t", CELLS, 4, mark) for i in found.identities]
        for mark in (0, 1)
    )
    assert once == again
    other = [Cell(b"a", b"f:x", 3, b"1"), Cell(b"a", b"f:y", 5, b"other")]
    assert {i for found in found_updates("t", other, 4, 0) for i in found.identities}.isdisjoint(
        once
    )


def test_each_row_goes_to_its_partition():
    for found in found_updates("t", CELLS, 4, 0):
        assert {partition_of(row, 4) for row in found.batch.rows} == {found.partition}


def test_many_cells_are_divided_and_each_message_can_be_read():
    cells = [Cell(b"%05d" % n, b"f:x", n, bytes(1000)) for n in range(2500)]
    found = list(found_updates("t", cells, 2, 0))
    assert sum(len(one.batch.rows) for one in found) == 2500
    assert all(len(encode_update(one.batch)) < 1_000_000 for one in found)
    assert [decode_update(encode_update(one.batch)) for one in found] == [
        one.batch for one in found
    ]


def test_a_row_of_fifty_thousand_cells_is_divided_too():
    cells = [Cell(b"row", b"f:%05d" % n, n, bytes(40)) for n in range(50_000)]
    found = list(found_updates("t", cells, 2, 0))
    assert [c for one in found for c in one.batch.columns] == [cell.column for cell in cells]
    assert all(len(encode_update(one.batch)) < 1_000_000 for one in found)
    assert {one.partition for one in found} == {partition_of(b"row", 2)}
    identities = [i for one in found for i in one.identities]
    assert len(set(identities)) == len(identities) >= 50


def test_a_value_above_what_a_message_holds_is_left_out_to_be_read():
    cells = [Cell(b"a", b"f:x", 3, bytes(5_000_000)), Cell(b"a", b"f:y", 5, b"2")]
    (found,) = found_updates("t", cells, 1, 0)
    assert found.batch.values == (None, b"2")
    (other,) = found_updates("t", [Cell(b"a", b"f:x", 3, bytes(5_000_001)), cells[1]], 1, 0)
    assert set(found.identities).isdisjoint(other.identities)


def test_cells_just_below_the_limit_still_fit_together():
    cells = [Cell(b"r" * 30_000, b"f:" + b"%05d" % n + bytes(30_000), n, b"") for n in range(200)]
    assert all(len(encode_update(one.batch)) < 1_000_000 for one in found_updates("t", cells, 1, 0))
