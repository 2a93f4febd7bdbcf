"""The kit for tests of steps: what a step sees and does over tables in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.flows import DataflowErrors
from headgate.spark import Run
from headgate.testing import StepTester

FLOW = """
name: stations
containers:
  readings: "readings v:kwh"
  totals: "totals t:"
actions:
  feed: {input: readings}
  sum:
    step: steps:total
    reads: readings
    writes: totals
    parameters: {factor: 2}
    when: {readings: {sequence: 1}}
    evaluate: write
  other: {command: "true", after: sum}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stations.yaml"
    path.write_text(FLOW)
    return path


def total(run: Run) -> None:
    kwh = [row.kwh for row in run.read("readings").collect()]
    summed = float(run.parameters["factor"] * sum(kwh))
    frame = run.spark.createDataFrame([("all", summed)], "row string, kwh double")
    run.write(frame, "totals")
    run.commit_as(f"{run.previous}+{len(kwh)}")


def test_a_step_reads_what_is_written_and_writes_what_is_read(spark: Any, file: Path) -> None:
    tester = StepTester(spark, file, "sum")
    tester.write("readings", [{"row": "a", "kwh": 1.5}, {"row": "b", "kwh": 2.0}])
    run = tester.run(total)
    assert tester.read("totals") == [{"row": "all", "kwh": 7.0}]
    assert (run.rows_read, run.rows_written, run.result) == (2, 1, "+2")
    assert tester.tables.rows["totals"] == {b"all": {b"t:kwh": b"7.0"}}


def test_parameters_are_those_of_the_file_and_of_the_test(spark: Any, file: Path) -> None:
    tester = StepTester(spark, file, "sum")
    tester.write("readings", [{"row": "a", "kwh": 1.0}])
    tester.run(total, factor=10)
    assert tester.read("totals") == [{"row": "all", "kwh": 10.0}]


def changed(run: Run) -> list[tuple[str, float | None, bool]]:
    found = run.changes("readings").collect()
    return sorted((row.row, row.value, row.deleted) for row in found)


def test_each_run_is_shown_what_was_written_since_the_last_one(spark: Any, file: Path) -> None:
    tester = StepTester(spark, file, "sum")
    seen: list[list[tuple[str, float | None, bool]]] = []
    tester.write("readings", [{"row": "a", "kwh": 1.0}, {"row": "b", "kwh": 2.0}])
    tester.run(lambda run: seen.append(changed(run)))
    tester.run(lambda run: seen.append(changed(run)))
    tester.write("readings", [{"row": "b", "kwh": 3.0}])
    tester.delete("readings", ["a"])
    tester.run(lambda run: seen.append(changed(run)))
    assert seen == [
        [("a", 1.0, False), ("b", 2.0, False)],
        [],
        [("a", None, True), ("b", 3.0, False)],
    ]


def test_a_run_that_raises_is_made_again_with_what_it_was_shown(spark: Any, file: Path) -> None:
    tester = StepTester(spark, file, "sum")
    tester.run(total)
    tester.write("readings", [{"row": "a", "kwh": 1.0}])

    def fail(run: Run) -> None:
        run.commit_as("never")
        raise ValueError(changed(run))

    with pytest.raises(ValueError, match=r"'a', 1\.0, False"):
        tester.run(fail)
    seen: list[list[tuple[str, float | None, bool]]] = []
    run = tester.run(lambda run: seen.append(changed(run)))
    assert seen == [[("a", 1.0, False)]]
    assert (run.previous, run.result) == ("+0", "")
    assert tester.run(lambda _: None).previous == "+0"


def test_rows_that_a_step_deletes_are_gone(spark: Any, file: Path) -> None:
    tester = StepTester(spark, file, "sum")
    tester.write("totals", [{"row": "a", "kwh": 1.0}, {"row": "b", "kwh": 2.0}])
    tester.run(lambda run: run.delete(["a"], "totals"))
    assert [row["row"] for row in tester.read("totals")] == ["b"]


def test_the_sessions_settings_are_as_they_were(spark: Any, file: Path) -> None:
    key = "spark.headgate.driverRows"
    before = spark.conf.get(key, None)
    tester = StepTester(spark, file, "sum")
    inside: list[str | None] = []
    tester.run(lambda run: inside.append(run.spark.conf.get(key)))
    assert inside == [str(2**31 - 2)]
    assert spark.conf.get(key, None) == before


def test_a_step_that_is_not_there_is_named_with_those_that_are(spark: Any, file: Path) -> None:
    for name in ("none", "other", "feed"):
        with pytest.raises(LookupError, match=f"no step '{name}'; it has: sum"):
            StepTester(spark, file, name)
    file.write_text("name: x")
    with pytest.raises(DataflowErrors):
        StepTester(spark, file, "sum")
