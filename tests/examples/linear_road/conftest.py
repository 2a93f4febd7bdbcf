"""The dataflow of the Linear Road over tables in memory: its own file says who may read what."""

import sys
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from linear_road import steps
from linear_road.records import Minute

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)  # for ``road_scenes``

EXAMPLE = Path(__file__).parents[3] / "examples" / "linear_road"


TYPES = {"string": pa.string(), "double": pa.float64()}


def listed(value):
    return [value] if isinstance(value, str) else list(value or ())


class Container:
    """A container as the dataflow file declares it: a table and named columns."""

    def __init__(self, declared):
        if isinstance(declared, str):
            self.table, *self.columns = declared.split()
            self.kind = "double"
        else:
            self.table, self.columns = declared["table"], listed(declared["column"])
            self.kind = "string" if declared["codec"] == "opaque" else "double"
        self.names = {column.partition(":")[2]: column for column in self.columns}


class ScriptedDataflow:
    """Runs steps on tables in memory: {table: {row: {column: value}}}."""

    def __init__(self, spark):
        self.spark = spark
        tree = yaml.safe_load((EXAMPLE / "linear_road.yaml").read_text())
        self.containers = {name: Container(text) for name, text in tree["containers"].items()}
        self.actions = tree["actions"]
        self.tables: dict[str, dict[str, dict]] = defaultdict(lambda: defaultdict(dict))
        self.log = []
        """(table, row, column) of every update."""
        self.seen = dict.fromkeys(self.actions, 0)
        self.writes = defaultdict(list)
        """By container, the rows of each write."""

    def feed(self, minute: Minute):
        for row, cells in minute.puts():
            for column, text in cells.items():
                self.put("lr-input", row.decode(), column.decode(), text.decode())

    def put(self, table, row, column, value):
        self.tables[table][row][column] = value
        self.log.append((table, row, column))

    def run(self, *actions):
        for action in actions:
            until = len(self.log)
            getattr(steps, self.actions[action]["step"].partition(":")[2])(
                ScriptedRun(self, action)
            )
            self.seen[action] = until

    def cells(self, container):
        """Return what a container holds: {row: {name: value}}."""
        declared = self.containers[container]
        found = {
            row: {name: cells[column] for name, column in declared.names.items() if column in cells}
            for row, cells in self.tables[declared.table].items()
        }
        return {row: cells for row, cells in found.items() if cells}

    def frame(self, container, types=None):
        """Return what a step reads of a container."""
        declared = self.containers[container]
        kinds = {name: (types or {}).get(name, declared.kind) for name in declared.names}
        stored = self.cells(container)
        columns = {"row": pa.array(stored, pa.string())} | {
            name: pa.array((cells.get(name) for cells in stored.values()), TYPES[kind])
            for name, kind in kinds.items()
        }
        return self.spark.createDataFrame(pa.table(columns))

    def column(self, container):
        """Return the one column of a container: {row: value}."""
        (name,) = self.containers[container].names
        return {row: cells[name] for row, cells in self.cells(container).items()}


class ScriptedRun:
    """What a step uses of a run."""

    def __init__(self, dataflow, action):
        self.dataflow = dataflow
        self.action = dataflow.actions[action]
        self.since = dataflow.seen[action]
        self.until = len(dataflow.log)

    def _declared(self, container, key):
        assert container in listed(self.action.get(key)), f"not among what the action {key}"
        return self.dataflow.containers[container]

    def read(self, container, types=None):
        self._declared(container, "reads")
        return self.dataflow.frame(container, types)

    def changes(self, container, kind=None):
        declared = self._declared(container, "reads")
        names = {column: name for name, column in declared.names.items()}
        touched = dict.fromkeys(
            (row, column)
            for table, row, column in self.dataflow.log[self.since : self.until]
            if table == declared.table and column in names
        )
        stored = self.dataflow.tables[declared.table]
        columns = {
            "row": pa.array((row for row, _ in touched), pa.string()),
            "column": pa.array((names[column] for _, column in touched), pa.string()),
            "value": pa.array(
                (stored[row].get(column) for row, column in touched), TYPES[kind or declared.kind]
            ),
            "deleted": pa.array((column not in stored[row] for row, column in touched), pa.bool_()),
        }
        return self.dataflow.spark.createDataFrame(pa.table(columns))

    def write(self, frame, container):
        declared = self._declared(container, "writes")
        table = frame if isinstance(frame, pa.Table) else frame.toArrow()
        rows = table.to_pylist()
        self.dataflow.writes[container].append([row["row"] for row in rows])
        assert len({row["row"] for row in rows}) == len(rows), "a row is written twice"
        for row in rows:
            key = row.pop("row")
            for name, value in row.items():
                column = declared.names[name]
                if value is None:
                    self.dataflow.tables[declared.table][key].pop(column, None)
                else:
                    text = value if declared.kind == "string" else float(value)
                    self.dataflow.tables[declared.table][key][column] = text
                self.dataflow.log.append((declared.table, key, column))

    def delete(self, rows, container):
        declared = self._declared(container, "writes")
        for row in rows:
            for column in declared.columns:
                if self.dataflow.tables[declared.table][row].pop(column, None) is not None:
                    self.dataflow.log.append((declared.table, row, column))


@pytest.fixture
def road(spark):
    return ScriptedDataflow(spark)
