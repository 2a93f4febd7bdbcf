"""The kit for tests of stages: what they read, keep, hand on and write over tables in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.incremental import InputFlow, Stage, StateFlow, TranslationFailed
from headgate.testing import StageTester

FLOW = """
name: stations
containers:
  readings: "readings v:kwh"
  totals: "totals t:kwh"
actions:
  feed: {input: readings}
  scale:
    stage: stages:scale
    reads: readings
    parameters: {factor: 2}
    out: scaled
    when: {readings: {sequence: 1}}
    evaluate: write
  sum:
    stage: stages:total
    in: {scaled: scale.scaled}
    writes: totals
  step: {step: steps:none, after: sum}
"""


def _scale(_: object, flows: Any) -> dict[str, list[dict[str, Any]]]:
    return {"scaled": [{"city": u["row"][0], "kwh": 2 * u["value"]} for u in flows["readings"]]}


scale = Stage(
    "scale",
    inputs={"readings": InputFlow()},
    outputs={"scaled": {"city": "string", "kwh": "float64"}},
    translate=_scale,
)


def _total(city: object, flows: Any) -> dict[str, list[dict[str, Any]]]:
    kwh = sum(row["kwh"] for row in [*flows["state"], *flows["scaled"]])
    if kwh < 0:
        raise ValueError(city)
    return {"state": [{"kwh": kwh}], "totals": [{"row": city, "kwh": kwh}]}


total = Stage(
    "total",
    inputs={"scaled": InputFlow("city")},
    outputs={"totals": {"row": "string", "kwh": "float64"}},
    translate=_total,
    state=StateFlow(pa.schema({"kwh": pa.float64()})),
)


@pytest.fixture
def tester(spark: Any, tmp_path: Path) -> StageTester:
    file = tmp_path / "stations.yaml"
    file.write_text(FLOW)
    return StageTester(spark, file, tmp_path / "state")


def test_a_stage_keeps_its_state_and_reads_what_another_has_made(tester: StageTester) -> None:
    tester.write("readings", [{"row": "a1", "kwh": 1.0}, {"row": "b1", "kwh": 5.0}])
    tester.run("scale", scale)
    tester.write("readings", [{"row": "a2", "kwh": 3.0}])
    tester.run("scale", scale)
    assert tester.waiting("sum") == {"scaled": 3}
    tester.run("sum", total)
    assert tester.waiting("sum") == {"scaled": 0}
    tester.write("readings", [{"row": "b2", "kwh": 0.5}])
    tester.run("scale", scale)
    run = tester.run("sum", total)
    assert run.rows_written == 1
    assert tester.read("totals") == [{"row": "a", "kwh": 8.0}, {"row": "b", "kwh": 11.0}]


def test_a_run_that_raises_leaves_what_it_read_for_the_next(tester: StageTester) -> None:
    tester.write("readings", [{"row": "a1", "kwh": -1.0}])
    tester.run("scale", scale)
    with pytest.raises(TranslationFailed, match="ValueError: a"):
        tester.run("sum", total)
    tester.write("readings", [{"row": "a2", "kwh": 2.0}])
    tester.run("scale", scale)
    tester.run("sum", total)
    assert tester.read("totals") == [{"row": "a", "kwh": 2.0}]


def test_a_rebuild_begins_anew_with_whole_containers(tester: StageTester) -> None:
    tester.write("readings", [{"row": "a1", "kwh": 1.0}])
    tester.run("scale", scale)
    tester.run("scale", scale, rebuild=True)
    assert tester.waiting("sum") == {"scaled": 2}


def test_what_cannot_be_run_is_named(tester: StageTester, spark: Any, tmp_path: Path) -> None:
    for name in ("none", "step", "feed"):
        with pytest.raises(LookupError, match=f"has no stage '{name}'; it has: scale, sum"):
            tester.run(name, scale)
    file = tmp_path / "steps.yaml"
    file.write_text("name: s\ncontainers: {t: 't f:c'}\nactions: {s: {step: 'a:b', reads: t}}\n")
    with pytest.raises(LookupError, match="has no stage; test its steps with StepTester"):
        StageTester(spark, file, tmp_path)


def test_a_stage_of_topics_is_refused(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "topics.yaml"
    file.write_text(
        "name: s\ntopics: {news: {topic: t, columns: {row: string}}}\ncontainers: {t: 't f:c'}\n"
        "actions: {s: {stage: 'a:b', reads: news, writes: t}}\n"
    )
    with pytest.raises(LookupError, match=r"stage 's' needs topics, .*: news"):
        StageTester(spark, file, tmp_path / "state").run("s", scale)
