"""The page for authors of steps: its step works as it stands there."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"


def test_the_step_on_the_page_computes_changed_zones(spark):
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module: dict[str, Any] = {}
    exec(compile(shown, PAGE.name, "exec"), module)
    rows = [("r001c000", 10.0), ("r001c001", 30.0), ("r002c000", 50.0)]
    tables = {
        "readings": spark.createDataFrame(rows, "row string, o3 double"),
        "changes": spark.createDataFrame([("r001c001",), ("r001c001",)], "row string"),
    }

    class Run:
        written = None

        def read(self, container):
            return tables[container]

        def changes(self, container):
            assert container == "readings"
            return tables["changes"]

        def write(self, frame, container):
            self.written = (container, [tuple(row) for row in frame.collect()])

    run = Run()
    module["zones"](run)
    assert run.written == ("zones", [("r001", 20.0)])
