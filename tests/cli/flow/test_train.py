"""Trainings on demand, and what dataflows were learned from in files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from answering import Agent

from headgate.agent import TrainingReport
from headgate.agent.training.pairs import PairKey, WavePairs
from headgate.agent.training.parquet import write_pairs
from headgate.agent.training.task import PackedPairs, Source, unpack
from headgate.cli.flow import train
from headgate.learning import FEATURES, Calibration, FitReport, OutputReport, Quality, StepQuality

UNDER_WAY = TrainingReport(("map", "index"), 24, number=3)
QUALITY = Quality(20, 5, 0.9, 0.8, 0.75, None)
FOUND = Calibration(0.1, 24, 0, 24.0, 0.12, 0.5)
DONE = TrainingReport(
    ("map", "index"),
    24,
    24,
    30,
    2.5,
    {"map": "0123456789abcdef"},
    {"index": "no threshold keeps 95%"},
    "2 waves are left out, 2 for this: `draw` did not run",
    "",
    FitReport(
        24,
        (
            OutputReport("map", FOUND, 0.1, 1.0, None, "80% kept"),
            OutputReport("index", FOUND, None, 1.0, 30, "no threshold keeps 95%"),
        ),
        (StepQuality("map", "sensors", ("draw",), QUALITY, QUALITY),),
        0.4,
    ),
)


class Trainings(Agent):
    """Answers one after the other, the last again and again."""

    def __init__(self, *reports: TrainingReport) -> None:
        self._reports = [msgspec.to_builtins(each) for each in reports]
        super().__init__()

    @property
    def answers(self) -> Any:
        return self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]

    @answers.setter
    def answers(self, _: Any) -> None:
        pass


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainings]:
    monkeypatch.setattr(train, "_LOOK", 0.001)
    made = Trainings(UNDER_WAY, UNDER_WAY, DONE)
    yield made
    made.close()


def test_it_waits_for_the_report_and_says_what_has_no_model(trained: Trainings) -> None:
    told = trained.run("train", "air", "--output", "map", "--waves", "24", status=3)

    assert trained.asked == [
        ("POST", "/v1/flows/air/train", {"outputs": ["map"], "waves": 24}),
        ("GET", "/v1/flows/air/train?number=3", None),
        ("GET", "/v1/flows/air/train?number=3", None),
    ]
    lines = told.splitlines()
    assert lines[:5] == [
        "air was trained on 24 of 24 waves in 2.5 s.",
        "2 waves are left out, 2 for this: `draw` did not run.",
        "map: model 0123456789abcdef, 80% kept.",
        "index: no model, no threshold keeps 95%.",
        "Of all runs 40.0% would have been skipped in closed loop.",
    ]
    assert lines[6].split() == ["map", "sensors", "5", "of", "20", "0.900", "0.800", "0.750", "-"]


def test_without_waiting_it_ends_at_once(trained: Trainings) -> None:
    told = trained.run("train", "air", "--no-wait")
    assert told == "A training of air on 24 waves is under way.\n"
    assert trained.asked == [("POST", "/v1/flows/air/train", {"outputs": [], "waves": None})]


def test_stored_pairs_are_learned_from_where_asked_for(trained: Trainings) -> None:
    trained.run("train", "air", "--from-knowledge", "--no-wait")
    body: Any = {"outputs": [], "waves": None, "source": "knowledge"}
    assert trained.asked == [("POST", "/v1/flows/air/train", body)]
    stored = msgspec.structs.replace(DONE, source=Source.KNOWLEDGE)
    first = next(iter(train.training_in_words("air", stored)))
    assert first == "air was trained on 24 of 24 waves of stored pairs in 2.5 s."


def test_the_last_training_is_told_without_another(trained: Trainings) -> None:
    told = trained.run("train", "air", "--last", status=3)
    assert told.startswith("air was trained on 24 of 24 waves in 2.5 s.")
    assert {method for method, _, _ in trained.asked} == {"GET"}
    words = trained.run("train", "air", "--last", "--waves", "3", status=1)
    assert "leave the other options out" in words


def test_as_json_it_is_the_report(trained: Trainings) -> None:
    document = json.loads(trained.run("train", "air", "--json", status=3))
    assert msgspec.convert(document, TrainingReport) == DONE


def test_a_training_that_failed_is_told_with_its_reason() -> None:
    failed = Trainings(TrainingReport(("map",), 24, seconds=1.0, failure="Kafka does not answer"))
    told = failed.run("train", "air", status=3)
    failed.close()
    assert told == "The training of air failed: Kafka does not answer.\n"


def test_what_a_metric_of_the_users_failed_on_stands_below_its_model() -> None:
    words = "its metric failed on 2 of 9 pairs of waves, which count as violations"
    told = Trainings(msgspec.structs.replace(DONE, failures={"map": words}))
    lines = told.run("train", "air", status=3).splitlines()
    told.close()
    assert lines[2:4] == ["map: model 0123456789abcdef, 80% kept.", f"map: {words}."]


def pairs(wave: int) -> WavePairs:
    shown = np.full((2, len(FEATURES)), wave, np.float32)
    return WavePairs(PairKey("other", "map", "in", 5, wave), shown, np.array([0.1, 0.2]))


def test_a_file_is_taken_in_as_it_is_read_piece_by_piece(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "_SENT", 2)
    file = tmp_path / "a.parquet"
    content = io.BytesIO()
    write_pairs(content, [pairs(wave) for wave in (1, 2, 3)])
    file.write_bytes(content.getvalue())
    agent.answers = {"new": 1}

    told = agent.run("knowledge", "air", "--import", str(file))

    assert told == f"2 waves of {file} were new to air.\n"
    bodies = [msgspec.convert(body["pairs"], list[PackedPairs]) for _, _, body in agent.asked]
    assert [[one.key.wave for one in body] for body in bodies] == [[1, 2], [3]]
    found = unpack(bodies[1][0])
    assert found.key.dataflow == "air"
    np.testing.assert_array_equal(found.features, pairs(3).features)
    np.testing.assert_array_equal(found.errors, pairs(3).errors)


def test_what_an_agent_gives_is_written_to_a_file(agent: Agent, tmp_path: Path) -> None:
    agent.answers = "bytes"
    file = tmp_path / "a.parquet"
    assert agent.run("knowledge", "air", "--export", str(file)) == f"{file} has the pairs of air.\n"
    assert file.read_bytes() == b'"bytes"'
    assert agent.asked == [("GET", "/v1/flows/air/knowledge", None)]


def test_what_is_too_old_is_deleted(agent: Agent) -> None:
    agent.answers = {"pairs": 12, "models": 3}
    told = agent.run("knowledge", "air", "--trim", "100")
    assert told == "12 rows of pairs and 3 models of air are gone.\n"
    assert agent.asked == [("POST", "/v1/flows/air/knowledge/trim", {"waves": 100})]


def test_a_dataflow_is_removed_with_or_without_what_was_learned_of_it(agent: Agent) -> None:
    agent.run("remove", "air")
    agent.run("remove", "air", "--keep-knowledge")
    assert [path for _, path, _ in agent.asked] == ["/v1/flows/air", "/v1/flows/air?knowledge=keep"]


def test_bad_files_and_none_are_refused_with_the_cure(agent: Agent, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"what is this?")
    missing = tmp_path / "missing.parquet"
    folder = tmp_path / "no" / "folder.parquet"
    for arguments, words in (
        ((), "name one file, with --export or with --import, or --trim WAVES"),
        (("--export", str(bad), "--import", str(bad)), "name one file"),
        (("--import", str(bad)), f"{bad} is no Parquet file"),
        (("--import", str(missing)), f"{missing} cannot be read"),
        (("--export", str(folder)), f"{folder} cannot be written"),
    ):
        assert words in agent.run("knowledge", "air", *arguments, status=1)
