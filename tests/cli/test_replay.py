"""``headgate replay`` and ``headgate flow tune``: what they print, draw and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from headgate.agent import FlowReplay
from headgate.cli.app import app
from headgate.cli.replay.commands import result_of
from headgate.cli.replay.picture import draw
from headgate.replay import (
    Difference,
    OutputError,
    OutputReplay,
    Replayed,
    ReplayedRun,
    ReplayReport,
    StepReplay,
)


def replayed(label: str, waves: tuple[int, ...]) -> Replayed:
    runs = tuple(ReplayedRun(wave, 1000.0 + wave, "σ reached", "") for wave in waves)
    errors = tuple(OutputError(0.5, 0.1 * (w not in waves), None, 2.0) for w in range(1, 5))
    outputs = (OutputReplay("zones", errors),)
    return Replayed(label, 4, (StepReplay("zones", 4, runs, outputs),))


REPORT = ReplayReport(
    "city", (replayed("as recorded", (1, 2, 3, 4)), replayed("wide.yaml", (1, 3))), 400, 240.0, ()
)


@pytest.mark.parametrize("ending", ["html", "svg", "png"])
def test_the_picture_has_the_form_that_its_name_says(tmp_path: Path, ending: str) -> None:
    path = draw(REPORT, tmp_path / "made" / f"picture.{ending}")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<")
    if ending != "png":
        assert b"wide.yaml" in content


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.html, \.svg or \.png"):
        draw(REPORT, tmp_path / "picture.gif")


def test_the_result_tells_runs_savings_and_errors() -> None:
    result = json.loads(msgspec.json.encode(result_of(FlowReplay(REPORT, ()))))
    assert result["agrees"]
    recorded, wider = result["replays"]
    assert (recorded["runs"], wider["runs"], wider["saved"]) == (4, 2, 0.5)
    [step] = wider["steps"]
    assert step["waves"] == [1, 3]
    [output] = step["outputs"]
    assert output["mean_error"] == pytest.approx(0.05)
    assert output["max_error"] == pytest.approx(0.1)


def test_a_replay_that_is_not_what_the_agent_did_is_said() -> None:
    result = result_of(FlowReplay(REPORT, (Difference("zones", 3, 1, 0),)))
    assert not result.agrees
    assert result.disagreement == ("zones in wave 3: 1 runs recorded, 0 replayed",)


@pytest.mark.parametrize("command", [("replay",), ("flow", "tune", "--error", "5")])
def test_without_kafka_both_say_how_to_name_it(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, [*command, "city"])
    assert answer.exit_code == 1
    assert "--kafka HOST:PORT" in answer.output


def test_tuning_needs_one_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["flow", "tune", "city"])
    assert answer.exit_code == 1
    assert "--error 5" in answer.output
