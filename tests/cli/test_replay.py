"""``headgate replay`` and ``headgate flow tune``: what they print, draw and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from typer.testing import CliRunner

from headgate.agent import FlowReplay, HBase
from headgate.cli.app import app
from headgate.cli.flow import tune as tuning
from headgate.cli.replay import commands
from headgate.cli.replay.commands import model_source, result_of
from headgate.cli.replay.picture import draw
from headgate.replay import (
    Difference,
    ModelKey,
    OutputError,
    OutputReplay,
    Replayed,
    ReplayedRun,
    ReplayReport,
    StepReplay,
)
from headgate.settings import ConfigurationError, KeyRing


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


def test_models_are_looked_for_where_the_agents_keep_them_and_nowhere_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[HBase, str]] = []
    signed: list[bytes] = []

    def stored(hbase: HBase, keys: KeyRing, dataflow: str, wanted: object) -> dict[ModelKey, bytes]:
        asked.append((hbase, dataflow))
        signed.append(keys.sign(b"anything"))
        return {}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "stored_models", stored)
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_text("one key that nobody could ever guess at all\n")
    other.write_text("another key that nobody could ever guess\n")
    monkeypatch.setenv("HEADGATE_KEY_FILE", str(key))
    wanted = [ModelKey("index", "0")]

    with pytest.raises(ConfigurationError, match=r"--hbase HOST:PORT .* --config with the agent"):
        model_source(None, None, None)("air", wanted)
    model_source("hbase:9090", None, None)("air", wanted)
    model_source("hbase:9090", other, None)("air", wanted)
    (tmp_path / "agent.toml").write_text(
        f"key_file = {str(other)!r}\n[hbase]\nthrift2 = 'proxy:9091'\nstate_table = 'states'\n"
        "[kafka]\nbootstrap = 'kafka:9092'\n"
    )
    model_source(None, None, None)("air", wanted)
    model_source("hbase:9090", key, None)("air", wanted)
    assert asked == [
        (HBase("hbase:9090"), "air"),
        (HBase("hbase:9090"), "air"),
        (HBase("proxy:9091", "states"), "air"),
        (HBase("hbase:9090", "states"), "air"),
    ]
    assert signed[0] == signed[3] != signed[1] == signed[2]


@pytest.mark.parametrize("learned", ["the record", "the file"])
def test_tuning_says_that_learned_triggers_have_no_limits(
    learned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = """
name: air
containers: {readings: in c:v, areas: mid c:v}
actions:
  feed: {input: readings}
  areas: {step: "steps:areas", reads: readings, writes: areas}
"""
    file = tmp_path / "air.yaml"
    file.write_text(plain + "learned: {outputs: {areas: 5%}}\n")
    recording = SimpleNamespace(
        triggered=lambda kind: ("areas",) if (kind, learned) == ("learned", "the record") else (),
        dataflow=SimpleNamespace(source=plain),
    )
    monkeypatch.setattr(tuning, "FlowRecording", lambda kafka, name, policies: recording)
    options = ["--kafka", "kafka:9092", "--error", "5"]
    options += [] if learned == "the record" else ["--bounds", str(file)]
    answer = CliRunner().invoke(app, ["flow", "tune", "air", *options])
    assert answer.exit_code == 1
    words = " ".join(answer.output.split())
    assert "learned triggers on areas: they have no limits that could be scaled" in words
    assert "compare settings with `headgate replay --bounds`" in words


def test_tuning_needs_one_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["flow", "tune", "city"])
    assert answer.exit_code == 1
    assert "--error 5" in answer.output
