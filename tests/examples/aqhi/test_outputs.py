"""What each step has written, read back as arrays."""

import numpy as np
import pytest
from aqhi.outputs import read_output


class ScriptedTable:
    def __init__(self, rows):
        self.rows = rows

    def scan(self, *, columns, batch_size):
        for row, cells in self.rows.items():
            found = {column: value for column, value in cells.items() if column in columns}
            if found:
                yield row, found

    def row(self, row):
        return self.rows.get(row, {})


class ScriptedTables:
    def __init__(self, **tables):
        self.tables = {name.replace("_", "-"): rows for name, rows in tables.items()}

    def table(self, name):
        return ScriptedTable(self.tables[name])


ZONES = {
    b"r000c000": {b"c:concentration": b"1.5", b"c:hotspots": b"0.0"},
    b"r001c001": {b"c:concentration": b"60.25"},
}


def test_each_step_has_its_column():
    tables = ScriptedTables(town_zones=ZONES)
    assert read_output(tables, "town", "zones", 2)[1, 1] == 60.25
    assert read_output(tables, "town", "hotspots", 2)[0, 0] == 0


def test_what_was_never_written_is_nan():
    tables = ScriptedTables(town_zones=ZONES)
    assert np.isnan(read_output(tables, "town", "zones", 2)).sum() == 2


def test_the_map_has_one_point_fewer_each_way():
    tables = ScriptedTables(town_map={b"r000c001": {b"c:concentration": b"7"}})
    assert read_output(tables, "town", "city-map", 3).shape == (2, 2)


@pytest.mark.parametrize(("cells", "index"), [({b"c:index": b"4.5"}, 4.5), (None, None)])
def test_the_index_is_one_number_or_none(cells, index):
    tables = ScriptedTables(town_index={b"now": cells} if cells else {})
    found = read_output(tables, "town", "index", 3)
    assert found.shape == (1, 1)
    assert found[0, 0] == index if index else np.isnan(found[0, 0])
